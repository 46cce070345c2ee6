//! A file that makes Avahi or systemd-resolved announce the server by multicast DNS.
//!
//! Two programs on port 5353 get in each other's way: answers to one of them reach one alone, and
//! Avahi may think that its host's name is taken. So where another program holds the port, it gets
//! a service file instead.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use settings::replace_file;

use super::Announcement;

/// Folders of Avahi's and resolved's service files, with the name of ours.
const FILES: [(&str, &str); 2] =
    [("/etc/avahi/services", "choro.service"), ("/run/systemd/dnssd", "choro.dnssd")];

/// Permissions of a service file: the programs that read it are other users.
const FILE_MODE: u32 = 0o644;

/// Bytes of a service file that are read; ours has fewer.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// Port of multicast DNS (RFC 6762).
pub const PORT: u16 = 5353;

/// Returns true if another program of this network has the port of multicast DNS.
pub(crate) fn is_port_taken() -> bool {
    ["/proc/net/udp", "/proc/net/udp6"]
        .iter()
        .any(|path| fs::read_to_string(path).is_ok_and(|text| has_port(&text, PORT)))
}

/// Whether a list of sockets of the kernel has one with this port.
fn has_port(sockets: &str, port: u16) -> bool {
    let port = format!(":{port:04X}");
    let local = |line: &str| line.split_whitespace().nth(1).is_some_and(|it| it.ends_with(&port));
    sockets.lines().skip(1).any(local)
}

/// Writes a file for each program that has a folder for them. Returns the paths.
///
/// # Errors
/// A file cannot be written.
pub(crate) fn write(announcement: &Announcement) -> io::Result<Vec<PathBuf>> {
    let mut written = Vec::new();
    for (folder, name) in FILES {
        if !Path::new(folder).is_dir() {
            continue;
        }
        let text = match name.ends_with(".service") {
            true => avahi(announcement),
            false => resolved(announcement),
        };
        let path = Path::new(folder).join(name);
        replace_file(&path, text.as_bytes(), FILE_MODE)?;
        written.push(path);
    }
    Ok(written)
}

/// Reads the beginning of a file.
fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// Whether a server has written such a file, and not removed it.
#[must_use]
pub fn is_written() -> bool {
    FILES.iter().any(|(folder, name)| Path::new(folder).join(name).exists())
}

/// Removes this server's files. Another server's files stay.
pub fn remove(announcement: &Announcement) {
    for (folder, name) in FILES {
        let path = Path::new(folder).join(name);
        let is_ours = |text: String| text.contains(&announcement.uuid);
        if !read(&path).is_ok_and(is_ours) {
            continue;
        }
        if let Err(error) = fs::remove_file(&path) {
            tracing::warn!("{} stays: {error}", path.display());
        }
    }
}

/// The records of DNS-SD beside that of SMB itself: type, port and texts.
pub(crate) fn records(announcement: &Announcement) -> Vec<(&'static str, u16, Vec<String>)> {
    let mut records = vec![
        ("_smb._tcp", announcement.port, Vec::new()),
        ("_device-info._tcp", 0, vec![format!("model={}", announcement.model)]),
    ];
    if !announcement.time_machines.is_empty() {
        let disks = announcement.time_machines.iter().enumerate();
        let disks = disks.map(|(number, name)| format!("dk{number}=adVN={name},adVF=0x82"));
        // Port 9 discards data: Time Machine connects to the SMB service instead.
        records.push((
            "_adisk._tcp",
            9,
            ["sys=adVF=0x100".to_owned()].into_iter().chain(disks).collect(),
        ));
    }
    records
}

fn avahi(announcement: &Announcement) -> String {
    let mut text = format!(
        "<?xml version=\"1.0\" standalone='no'?>\n\
         <!DOCTYPE service-group SYSTEM \"avahi-service.dtd\">\n\
         <!-- Written by choro {}, which removes it when it stops. -->\n\
         <service-group>\n  <name>{}</name>\n",
        announcement.uuid,
        escaped(&announcement.name)
    );
    for (kind, port, texts) in records(announcement) {
        text.push_str(&format!("  <service>\n    <type>{kind}</type>\n    <port>{port}</port>\n"));
        for record in texts {
            text.push_str(&format!("    <txt-record>{}</txt-record>\n", escaped(&record)));
        }
        text.push_str("  </service>\n");
    }
    text.push_str("</service-group>\n");
    text
}

/// A file of resolved has one service; that of SMB is the one that matters.
fn resolved(announcement: &Announcement) -> String {
    let name: String = announcement.name.chars().filter(|it| !it.is_control()).collect();
    format!(
        "# Written by choro {}, which removes it when it stops.\n[Service]\nName={}\n\
         Type=_smb._tcp\nPort={}\n",
        announcement.uuid,
        name.replace('%', "%%"),
        announcement.port
    )
}

fn escaped(text: &str) -> String {
    let text: String = text.chars().filter(|it| !it.is_control()).collect();
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::has_port;

    const SOCKETS: &str = "  sl  local_address rem_address   st tx_queue rx_queue\n\
         1: 00000000:14E9 00000000:0000 07 00000000:00000000 00:00000000\n\
         2: 0100007F:0035 00000000:14EA 07 00000000:00000000 00:00000000\n";

    #[test]
    fn a_port_is_taken_by_a_local_address() {
        assert!(has_port(SOCKETS, 5_353) && has_port(SOCKETS, 53));
        assert!(!has_port(SOCKETS, 5_354) && !has_port("", 53));
    }
}
