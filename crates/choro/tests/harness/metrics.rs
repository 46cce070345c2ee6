//! `choro metrics` of a test, with an HTTP client.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;

use super::TestServer;
use super::choro::{children, signal_process};

/// Process `choro metrics` in the background.
#[derive(Debug)]
pub struct Metrics {
    pub child: Child,
    pub address: String,
}

impl Metrics {
    pub fn begin(server: &TestServer) -> Self {
        Self::start(server.site().command(&["metrics", "--listen", "127.0.0.1:0"]))
    }

    /// With so few descriptors for each of its processes.
    pub fn begin_with_descriptors(server: &TestServer, count: u32) -> Self {
        let own = server.site().command(&["metrics", "--listen", "127.0.0.1:0"]);
        let mut command = Command::new("sh");
        let script = format!("ulimit -n {count}; exec \"$@\"");
        command.args(["-c", &script, "sh"]).arg(own.get_program()).args(own.get_args());
        Self::start(command)
    }

    fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("it is piped"))
            .read_line(&mut line)
            .expect("it is text");
        let address = line.trim().strip_prefix("http://").and_then(|it| it.strip_suffix('/'));
        Self { child, address: address.expect("where it listens").to_owned() }
    }

    /// The process that reads what HTTP clients send.
    pub fn web(&self) -> u32 {
        let children = children(self.child.id());
        assert_eq!(children.len(), 1, "{children:?}");
        children[0]
    }

    /// The head and the body of an answer.
    pub fn get(&self, path: &str) -> (String, String) {
        self.get_as(&self.address, path)
    }

    /// The same for who asks for `host`.
    pub fn get_as(&self, host: &str, path: &str) -> (String, String) {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("it listens");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it is text");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        (head.to_owned(), body.to_owned())
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        signal_process(self.child.id(), Signal::TERM);
        self.child.wait().expect("it ends");
    }
}
