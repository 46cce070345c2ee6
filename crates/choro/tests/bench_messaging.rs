//! The benchmarks of messages: their form, not their figures.

mod choro;

use std::fs;

use bench::options::Options;
use bench::run::Interrupt;
use bench::transports;
use choro::{Site, built_executable, text};
use clap::Parser;
use messaging::TransportKind;
use serde_json::Value;

/// A run as short as one can be, whose sockets are in a folder of the test.
fn run(site: &Site, arguments: &[&str]) -> choro::Outcome {
    let directory = text(&site.path("data"));
    let all = ["bench", "messaging", "--rounds", "1", "--seconds", "0.02", "--directory"];
    site.run(&[&all[..], &[directory.as_str()], arguments].concat())
}

fn rows(json: &str) -> Vec<Value> {
    serde_json::from_str(json).expect("it is an array")
}

#[test]
fn every_workload_over_every_transport_has_the_documented_members() {
    let site = Site::new();
    let chart = text(&site.path("chart.svg"));
    let json = run(&site, &["--without-samba", "--json", "--svg", &chart]).succeeds();
    let rows = rows(&json);
    let mut carriers: Vec<&str> = TransportKind::BUILT.iter().map(|kind| kind.name()).collect();
    carriers.push("bare");
    for (workload, pairs, bytes) in [
        ("ping", 1, 11),
        ("pairs", 10, 11),
        ("pairs", 50, 11),
        ("large", 1, 1_024),
        ("large", 1, 65_536),
        ("latency", 1, 11),
    ] {
        for carrier in &carriers {
            let is_it = |row: &&Value| {
                (&row["workload"], &row["transport"]) == (&workload.into(), &(*carrier).into())
                    && (&row["pairs"], &row["message_bytes"]) == (&pairs.into(), &bytes.into())
            };
            let found: Vec<&Value> = rows.iter().filter(is_it).collect();
            let [row] = found.as_slice() else { panic!("{workload}, {carrier}: {found:?}") };
            for name in [
                "messages_per_second",
                "messages_per_second_min",
                "messages_per_second_max",
                "p50_us",
                "p99_us",
                "ratio_to_bare",
            ] {
                assert!(row[name].as_f64().is_some_and(|it| it > 0.0), "{name}: {row}");
            }
            let outstanding = if workload == "latency" { 1 } else { 20 };
            assert_eq!(row["outstanding"], outstanding, "{row}");
            assert!(row["ratio_to_samba"].is_null(), "{row}");
        }
    }
    let without_mmap = rows.iter().filter(|row| row["transport"] == "tdb-no-mmap").count();
    assert_eq!(without_mmap, usize::from(TransportKind::BUILT.contains(&TransportKind::Tdb)));
    assert_eq!(rows.len(), 6 * carriers.len() + without_mmap);
    let chart = fs::read_to_string(chart).expect("it was drawn");
    assert!(chart.starts_with("<svg ") && chart.ends_with("</svg>\n"), "{chart}");
    assert_eq!(chart.matches("class=\"bare\"").count(), 6, "{chart}");
}

/// Messages accepted for the stopped peer and not dropped arrived when it continued; otherwise
/// there would be no rows.
#[test]
fn a_stopped_peer_is_measured_beside_none_over_every_transport() {
    let site = Site::new();
    let markdown = text(&site.path("table.md"));
    let directory = text(&site.path("data"));
    let arguments = ["bench", "messaging", "--json", "--stopped-peer", "0.2"];
    let more = ["--directory", &directory, "--markdown", &markdown];
    let rows = rows(&site.run(&[&arguments[..], &more].concat()).succeeds());
    assert_eq!(rows.len(), 2 * TransportKind::BUILT.len());
    for kind in TransportKind::BUILT {
        for stopped in [false, true] {
            let is_it = |row: &&Value| {
                (&row["transport"], &row["stopped"]) == (&kind.name().into(), &stopped.into())
            };
            let row = rows.iter().find(is_it).expect("one of each");
            for name in ["messages_per_second", "gap_p999_us", "gap_max_us", "memory_peak_kib"] {
                assert!(row[name].as_f64().is_some_and(|it| it > 0.0), "{name}: {row}");
            }
            assert_eq!(row["delivered_afterwards"].as_u64().is_some_and(|it| it > 0), stopped);
            assert!(stopped || row["refused"] == 0, "{row}");
            // The queues of all peers together: the limit of the stopped one's, and a few messages
            // for others on their way.
            let limit = 2 * messaging::transport::FRAME_BYTES_MAX as u64 + (1 << 20);
            assert!(row["queued_bytes_max"].as_u64().is_some_and(|it| it <= limit), "{row}");
        }
    }
    let table = fs::read_to_string(markdown).expect("it was written");
    assert!(table.contains("| transport |"), "{table}");
    assert_eq!(fs::read_dir(site.path("data")).expect("it exists").count(), 0);
}

#[test]
fn nothing_is_left_of_the_processes_and_their_sockets() {
    let site = Site::new();
    let table = run(&site, &["--without-samba", "--workload", "ping"]).succeeds();
    assert!(table.contains("messages/s"), "{table}");
    let left = fs::read_dir(site.path("data")).expect("it exists").count();
    assert_eq!(left, 0);
}

#[test]
fn samba_is_measured_if_its_test_is_installed_and_else_left_out() {
    let site = Site::new();
    let outcome = run(&site, &["--workload", "ping", "--json"]);
    let printed = outcome.error();
    let rows = rows(&outcome.succeeds());
    match rows.iter().find(|row| row["transport"] == "samba") {
        Some(samba) => {
            assert_eq!(samba["ratio_to_samba"], 1.0);
            assert!(samba["p50_us"].is_null(), "{samba}");
            assert!(rows.iter().all(|row| row["ratio_to_samba"].is_f64()), "{rows:?}");
        }
        None => assert!(printed.contains("there is no smbtorture"), "{printed}"),
    }
}

#[test]
fn a_transport_that_was_not_built_in_is_refused_by_name() {
    let site = Site::new();
    let error = run(&site, &["--transport", "carrier pigeon"]).fails(1);
    assert!(error.contains("\"carrier pigeon\" was not built in; built: "), "{error}");
    let error = run(&site, &["--workload", "walk"]).fails(2);
    assert!(error.contains("[possible values: ping, pairs, large, latency]"), "{error}");
}

#[test]
fn a_file_server_is_measured_over_every_transport() {
    let site = Site::new();
    let (program, directory) = (text(&built_executable()), text(&site.path("data")));
    let arguments = ["--transports", "--quick", "--choro", &program, "--directory", &directory];
    let options = Options::parse_from([&["choro-bench"], &arguments[..]].concat());
    let measured = transports::run(&options, &Interrupt::default(), &mut std::io::sink())
        .expect("the servers serve");
    let rows = rows(&measured.to_json().expect("it is plain"));
    for kind in TransportKind::BUILT {
        for (clients, watched) in [(5, false), (10, false), (5, true), (10, true)] {
            let is_it = |row: &&Value| {
                row["transport"] == kind.name()
                    && (&row["clients"], &row["watched"]) == (&clients.into(), &watched.into())
            };
            let found: Vec<&Value> = rows.iter().filter(is_it).collect();
            let [row] = found.as_slice() else { panic!("{kind:?}, {clients}: {found:?}") };
            for name in ["mb_per_second", "operations_per_second", "ratio_to_best"] {
                assert!(row[name].as_f64().is_some_and(|it| it > 0.0), "{name}: {row}");
            }
            // The question for the figure is some messages; changes are many more.
            let messages = row["messages_per_operation"].as_f64().expect("a number");
            assert_eq!(messages > 0.1, watched, "{row}");
        }
    }
    let left = fs::read_dir(site.path("data")).expect("it exists").count();
    assert_eq!(left, 0);
}
