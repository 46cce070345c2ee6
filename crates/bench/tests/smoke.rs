//! The load generator against Debian's Samba, in every dialect and through every row.
//!
//! Without smbd, or without a user for it, there is nothing to test against: the tests print that
//! and end. `make test` installs it.

use std::path::Path;
use std::process::Command;

use bench::client::requests::{Purpose, close, open, push_read, push_write, verify_read};
use bench::client::write_frame::WriteFrame;
use bench::client::{Client, Protection, Slot, Terms};
use bench::options::Options;
use bench::run::{self, Interrupt};
use bench::server::{Kind, Server};
use clap::Parser;
use wire::read::ReadResponse;
use wire::{Decode, Dialect};

/// Whether Samba can be started here.
fn has_samba() -> bool {
    let installed = ["/usr/sbin/smbd", "/usr/bin/smbd"].iter().any(|path| Path::new(path).exists());
    let usable = installed && rustix::process::geteuid().is_root();
    if !usable {
        // Seen with `--nocapture`, and when something else fails.
        let _ = std::io::Write::write_all(
            &mut std::io::stderr(),
            b"no smbd that could be started: not tested\n",
        );
    }
    usable
}

/// A Samba with a share of its own.
fn samba(directory: &Path) -> Server {
    Server::start(Kind::Samba, directory, Path::new("")).expect("Samba starts")
}

fn connect(server: &Server, dialect: Dialect, protection: Protection) -> Client {
    Client::connect(server.destination(), Terms { dialect, protection })
        .unwrap_or_else(|error| panic!("{dialect:?}, {protection}: {error:#}"))
}

#[test]
fn bytes_come_back_as_they_were_written_in_every_dialect() {
    if !has_samba() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let server = samba(directory.path());
    let data: Vec<u8> = (0..=u8::MAX).cycle().skip(3).take(50_000).collect();
    for dialect in [
        Dialect::SMB_2_0_2,
        Dialect::SMB_2_1,
        Dialect::SMB_3_0,
        Dialect::SMB_3_0_2,
        Dialect::SMB_3_1_1,
    ] {
        for protection in [Protection::Plain, Protection::Signed, Protection::Sealed] {
            if protection == Protection::Sealed && dialect < Dialect::SMB_3_0 {
                continue;
            }
            let mut client = connect(&server, dialect, protection);
            let file = open(&mut client, Purpose::NewFile, "file").expect("it is new");
            push_write(&mut client, file, 7, &data);
            client.flush(Slot(0)).expect("it is sent");
            client.receive().and_then(|reply| reply.succeeded()).expect("it is written");
            push_read(&mut client, file, 7, data.len());
            client.flush(Slot(1)).expect("it is sent");
            let reply = client.receive().expect("it is answered");
            assert_eq!(reply.slot, Slot(1));
            verify_read(&client, &reply, data.len()).expect("all of it comes");
            let read = ReadResponse::decode(client.message(&reply)).expect("it is a READ").data;
            assert!(read == data, "{dialect:?}, {protection}: other bytes came back");
            close(&mut client, file).expect("it is open");
            client.logoff().expect("there is a session");
        }
    }
    let written = std::fs::read(server.share_path().join("file")).expect("it is there");
    assert!(written[7..] == data);
}

#[test]
fn a_kept_write_frame_writes_its_bytes_at_its_offset() {
    if !has_samba() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let server = samba(directory.path());
    for protection in [Protection::Plain, Protection::Signed] {
        let mut client = connect(&server, Dialect::SMB_3_1_1, protection);
        let name = protection.to_string();
        let file = open(&mut client, Purpose::NewFile, &name).expect("it is new");
        let mut frame = WriteFrame::new(&client, file, 3, b'x');
        for offset in [0, 6] {
            frame.send(&mut client, offset, Slot(0)).expect("it is sent");
            client.receive().and_then(|reply| reply.succeeded()).expect("it is written");
        }
        close(&mut client, file).expect("it is open");
        let written = std::fs::read(server.share_path().join(&name)).expect("it is there");
        assert_eq!(written, b"xxx\0\0\0xxx");
    }
}

#[test]
fn a_wrong_password_is_refused_and_said_so() {
    if !has_samba() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let server = samba(directory.path());
    let destination =
        bench::client::Destination { password: "wrong".into(), ..server.destination().clone() };
    let terms = Terms { dialect: Dialect::SMB_3_1_1, protection: Protection::Plain };
    let error = Client::connect(&destination, terms).expect_err("it is wrong");
    assert!(format!("{error:#}").contains("STATUS_LOGON_FAILURE"), "{error:#}");
}

#[test]
fn every_row_has_a_figure() {
    if !has_samba() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().to_str().expect("a path in Unicode");
    let mut arguments = vec!["choro-bench", "--quick", "--only", "samba", "--seconds", "0.02"];
    arguments.extend(["--directory", path]);
    let options = Options::try_parse_from(arguments).expect("they are right");
    let mut progress = Vec::new();
    let report = run::run(&options, &Interrupt::default(), &mut progress).expect("Samba serves");
    assert_eq!(report.rows.len(), options.chosen_rows().len());
    for row in &report.rows {
        // A container may forbid tracing, which is no fault of the load. The tests have no network
        // namespace. The time is so short that the server may have used none of it.
        let excuses = ["perf", "in a network of its own only", "no time that could be seen"];
        let excused = |failure: &str| excuses.iter().any(|excuse| failure.contains(excuse));
        let excused = row.failure.as_deref().is_some_and(excused);
        let median = row.samba.as_ref().map(|figures| figures.summary.median);
        let measured = median.is_some_and(|median| median > 0.0 || row.row.starts_with("memory"));
        assert!(measured || excused, "{}: {:?}", row.row, row.failure);
    }
}

/// Packets are dropped in a network namespace of its own, which only the program has.
#[test]
fn a_silent_channel_is_given_up_within_its_time() {
    if !has_samba() || !bench::network::may_be_made() {
        return;
    }
    let output = Command::new(env!("CARGO_BIN_EXE_choro-bench"))
        .args(["--quick", "--only", "samba", "--json", "--rows", "channel lost: silent"])
        .output()
        .expect("it was built");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    let report: serde_json::Value = serde_json::from_str(&printed).expect("it is JSON");
    let milliseconds = report["rows"][0]["samba"]["median"].as_f64().expect("a figure");
    // Six retransmission timeouts, none below 200 ms.
    assert!(milliseconds > 1_000.0, "the break came after {milliseconds} ms: nothing was dropped");
}
