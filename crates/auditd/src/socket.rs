//! A datagram socket of another program, which gets a line with each packet.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;

/// A datagram socket of another program.
#[derive(Debug)]
pub(super) struct Socket {
    path: PathBuf,
    socket: Option<UnixDatagram>,
}

impl Socket {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, socket: None }
    }

    /// Sends a line. The other program may have been started anew since the last one.
    ///
    /// # Errors
    /// The program is not there, or has no room.
    pub(super) fn send(&mut self, line: &str) -> io::Result<()> {
        if let Some(socket) = &self.socket {
            match socket.send(line.as_bytes()) {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(error),
                Err(_) => self.socket = None,
            }
        }
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        socket.connect(&self.path)?;
        socket.send(line.as_bytes())?;
        self.socket = Some(socket);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::net::UnixDatagram;

    use super::Socket;

    #[test]
    fn a_program_that_was_started_anew_gets_the_next_line() {
        let folder = tempfile::tempdir().expect("there is space");
        let path = folder.path().join("log");
        let mut socket = Socket::new(path.clone());
        assert!(socket.send("early").is_err(), "nobody listens");
        for line in ["one", "two"] {
            let receiver = UnixDatagram::bind(&path).expect("the path is free");
            socket.send(line).expect("somebody listens");
            let mut packet = [0; 16];
            let len = receiver.recv(&mut packet).expect("it was sent");
            assert_eq!(&packet[..len], line.as_bytes());
            fs::remove_file(&path).expect("it is ours");
        }
    }
}
