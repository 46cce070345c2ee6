//! `choro status --cluster` and `choro check` beside a real ctdbd.

use crate::choro::{Site, text};
use crate::lab::Lab;

/// A configuration of a node, with `lines` in `[global]`.
fn site(lab: &Lab, node: usize, lines: &str) -> Site {
    let site = Site::new();
    let socket = text(&lab.socket(node));
    site.write_config_with(&format!("ctdbd socket = {socket}\n{lines}"), "");
    site
}

/// Lines that `choro check` has for a node of a cluster, before it refuses.
pub(crate) fn checked(lab: &Lab, node: usize) -> String {
    let error = site(lab, node, "clustering = yes\n").run(&["check"]).fails(1);
    assert!(error.contains("`clustering = yes` is not supported"), "{error}");
    error
}

pub(crate) fn a_node_tells_its_state(lab: &Lab) {
    for lines in ["", "clustering = yes\n"] {
        let site = site(lab, 0, lines);
        let shown = site.run(&["status", "--cluster"]).succeeds();
        assert!(shown.starts_with("This is node 0. It takes part in the cluster.\n"), "{shown}");
        assert!(shown.contains("Recovery mode: normal\n"), "{shown}");
        assert!(shown.contains("\n0     10.98.0.1  ok     yes\n"), "{shown}");
        assert!(shown.contains("\n10.98.0.101     "), "{shown}");
        let rows = site.run(&["status", "--cluster", "--json"]).succeeds();
        let rows: Vec<serde_json::Value> = serde_json::from_str(&rows).expect("it is JSON");
        let row = |kind: &str| rows.iter().find(|row| row["kind"] == kind).expect("there is one");
        assert_eq!(row("cluster")["own_node"], 0);
        assert_eq!(row("cluster")["run_state"], "RUNNING");
        assert_eq!(row("cluster")["keepalive_interval_s"], 5);
        assert!(row("cluster")["generation"].as_u64().is_some_and(|it| it > 1), "{rows:?}");
        assert_eq!(
            (&row("node")["state"], &row("node")["is_active"]),
            (&"ok".into(), &true.into())
        );
        assert!(row("public_address")["node"].is_u64(), "{rows:?}");
    }
}

pub(crate) fn check_names_faults_and_refuses(lab: &Lab) {
    let well = checked(lab, 0);
    assert!(well.contains("Cluster: this is node 0 of "), "{well}");
    assert!(well.contains("is noticed after 25 to 30 s"), "{well}");
    assert!(!well.contains("Samba has attached"), "{well}");

    lab.ok(0, &["ctdb", "setvar", "KeepaliveInterval", "1"]);
    lab.ok(0, &["ctdb", "setvar", "KeepaliveLimit", "3"]);
    lab.ok(0, &["ctdb", "attach", "locking.tdb"]);
    lab.ok(0, &["ctdb", "disable"]);
    let worse = checked(lab, 0);
    assert!(worse.contains("Cluster: node 0 (10.98.0.1) is disabled: "), "{worse}");
    assert!(worse.contains("Cluster: Samba has attached locking.tdb: "), "{worse}");
    assert!(
        worse.contains("after 3 to 4 s (`KeepaliveInterval` 1 × `KeepaliveLimit` 3)"),
        "{worse}"
    );
    let rows = site(lab, 0, "clustering = yes\n").run(&["check", "--json"]);
    let rows = rows.output();
    let rows: Vec<serde_json::Value> = serde_json::from_str(&rows).expect("it is JSON");
    assert!(rows.iter().all(|row| row["kind"] == "cluster"), "{rows:?}");
    assert!(rows.iter().any(|row| row["fault"] == true), "{rows:?}");

    lab.ok(0, &["ctdb", "enable"]);
    lab.ok(0, &["ctdb", "setvar", "KeepaliveInterval", "5"]);
    lab.ok(0, &["ctdb", "setvar", "KeepaliveLimit", "5"]);
}

pub(crate) fn without_ctdbd_there_is_one_line(lab: &Lab) {
    lab.act(&["kill", "0"]);
    let error = site(lab, 0, "").run(&["status", "--cluster"]).fails(1);
    assert!(error.contains(": ctdbd is not running: ") && error.lines().count() == 1, "{error}");
    assert!(error.contains(&text(&lab.socket(0))), "{error}");
    assert!(checked(lab, 0).contains("Cluster: ctdbd is not running: "));
    let absent = Site::new();
    absent.write_config_with("ctdbd socket = /nowhere\n", "");
    let error = absent.run(&["status", "--cluster", "--json"]).fails(1);
    assert!(error.contains("/nowhere: ctdbd is not running: "), "{error}");
}
