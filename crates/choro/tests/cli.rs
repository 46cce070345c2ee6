//! The commands, run as a user runs them.

mod choro;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use choro::{Site, text};

#[test]
fn a_user_is_added_listed_and_removed() {
    let site = Site::new();
    site.run_with_input(
        &["user", "add", "Alice", "--full-name", "A. Liddell", "--password-stdin"],
        "x y\n",
    )
    .succeeds();
    let listed = site.run(&["user", "list", "--json"]).succeeds();
    let listed: serde_json::Value = serde_json::from_str(&listed).expect("it is JSON");
    assert_eq!(
        listed,
        serde_json::json!([{"name": "Alice", "enabled": true, "full_name": "A. Liddell"}])
    );
    site.run(&["user", "remove", "ALICE"]).succeeds();
    assert_eq!(site.run(&["user", "list", "--json"]).succeeds().trim(), "[]");
}

#[test]
fn adding_a_user_reports_the_result_and_a_missing_system_user() {
    let site = Site::new();
    let add = |name: &str| {
        site.run_with_input(&["user", "add", name, "--password-stdin"], "x\n").succeeds()
    };
    let output = add("no-such-person");
    assert!(
        output.starts_with("Added no-such-person to ") && output.contains("can log on"),
        "{output}"
    );
    assert!(output.contains("no user no-such-person") && output.contains("useradd "), "{output}");
    let output = add("daemon");
    assert_eq!(output.lines().count(), 1, "every Linux has the user: {output}");
}

#[test]
fn check_names_shares_with_a_missing_folder() {
    let site = Site::new();
    let gone = text(&site.path("gone"));
    site.write_config(&format!("[data]\npath = {gone}\n"));
    let outcome = site.run(&["check"]);
    let error = outcome.error();
    outcome.succeeds();
    let output = format!("Path: {gone} does not exist, so clients cannot connect to [data]\n");
    assert!(error.contains(&output), "{error}");
    let rows = site.run(&["check", "--json"]).succeeds();
    assert!(rows.contains("\"kind\":\"path\"") || rows.contains("\"kind\": \"path\""), "{rows}");
}

#[test]
fn check_names_a_username_map_that_cannot_be_read() {
    let site = Site::new();
    let map = site.path("names");
    site.write_config(&format!("username map = {}\n", text(&map)));
    let outcome = site.run(&["check"]);
    let error = outcome.error();
    outcome.succeeds();
    let output = format!("Users: username map {}: ", text(&map));
    assert!(error.contains(&output) && error.contains("nobody can log on with a name"), "{error}");
    let rows = site.run(&["check", "--json"]).succeeds();
    assert!(rows.contains("\"users\""), "{rows}");
    fs::write(&map, "anna = ann\n").expect("it is ours");
    let error = site.run(&["check"]).error();
    assert!(!error.contains("Users: "), "{error}");
}

#[test]
fn one_parameter_places_all_directories_of_a_server() {
    let site = Site::new();
    let base = text(&site.path("base"));
    site.write_config("");
    let config = fs::read_to_string(site.path("smb.conf")).expect("it was written");
    let rest: Vec<&str> = config.lines().filter(|line| !line.contains("dir")).collect();
    let config = format!("{}\nbase directory = {base}\n", rest.join("\n"));
    fs::write(site.path("smb.conf"), config).expect("it is ours");
    let _server = site.serve();
    for name in ["state", "private", "cache", "run"] {
        assert!(site.path("base").join(name).is_dir(), "{name}");
    }
}

/// The NT hash of "Password": [MS-NLMP] 4.2.2.1.2.
#[test]
fn the_stored_hash_is_the_published_one_and_the_password_is_nowhere() {
    let site = Site::new();
    site.run_with_input(&["user", "add", "bob", "--password-stdin"], "Password\r\n").succeeds();
    let users = fs::read_to_string(site.path("private/users")).expect("it was written");
    assert!(users.contains("bob:a4f49c406510bdcab6824ee7c30fd852:enabled:"), "{users}");
    assert!(!users.contains("Password"));
}

#[test]
fn the_database_is_for_its_owner_alone() {
    let site = Site::new();
    site.run_with_input(&["user", "add", "bob", "--password-stdin"], "secret\n").succeeds();
    let mode =
        |path| fs::metadata(site.path(path)).expect("it exists").permissions().mode() & 0o777;
    assert_eq!(mode("private"), 0o700);
    assert_eq!(mode("private/users"), 0o600);
    fs::set_permissions(site.path("private/users"), Permissions::from_mode(0o644)).expect("ours");
    let error = site.run(&["user", "list"]).fails(1);
    assert!(error.starts_with("choro: ") && error.contains("mode 0644"), "{error}");
}

#[test]
fn passwd_changes_the_hash_of_an_existing_user_only() {
    let site = Site::new();
    site.run_with_input(&["user", "add", "bob", "--password-stdin"], "one\n").succeeds();
    let before = fs::read(site.path("private/users")).expect("it exists");
    site.run_with_input(&["user", "passwd", "BOB", "--password-stdin"], "two\n").succeeds();
    assert_ne!(fs::read(site.path("private/users")).expect("it exists"), before);
    let error = site.run_with_input(&["user", "passwd", "eve", "--password-stdin"], "x\n").fails(1);
    assert_eq!(error, "choro: there is no user 'eve'\n");
}

#[test]
fn a_disabled_user_is_enabled_again() {
    let site = Site::new();
    site.run_with_input(&["user", "add", "bob", "--password-stdin"], "one\n").succeeds();
    let before = fs::read(site.path("private/users")).expect("it exists");
    site.run(&["user", "disable", "Bob"]).succeeds();
    let listed = site.run(&["user", "list"]).succeeds();
    assert!(listed.contains("bob   disabled"), "{listed}");
    site.run(&["user", "enable", "bob"]).succeeds();
    assert_eq!(fs::read(site.path("private/users")).expect("it exists"), before);
    let error = site.run(&["user", "enable", "eve"]).fails(1);
    assert_eq!(error, "choro: there is no user 'eve'\n");
}

#[test]
fn a_failed_command_prints_the_reason_and_exits_with_1() {
    let site = Site::new();
    site.run_with_input(&["user", "add", "bob", "--password-stdin"], "secret\n").succeeds();
    let outcome = site.run_with_input(&["user", "add", "Bob", "--password-stdin"], "secret\n");
    assert_eq!(outcome.fails(1), "choro: user 'Bob' exists already\n");
    let outcome = site.run_with_input(&["user", "add", "carol", "--password-stdin"], "\n");
    assert_eq!(outcome.fails(1), "choro: the password is empty\n");
    let outcome = site.run(&["user", "add", "carol"]);
    assert!(outcome.fails(1).contains("use --password-stdin"));
    let outcome = site.run(&["user", "remove", "carol"]);
    assert_eq!(outcome.fails(1), "choro: there is no user 'carol'\n");
    let outcome = site.run_with_input(&["user", "add", "a/b", "--password-stdin"], "secret\n");
    assert!(outcome.fails(1).contains("cannot be a user name"));
}

/// Everyone can read the arguments of every process.
#[test]
fn a_password_is_never_taken_as_an_argument() {
    let site = Site::new();
    site.run(&["user", "add", "bob", "secret"]).fails(2);
    site.run(&["user", "add", "bob", "--password", "secret"]).fails(2);
    site.run(&["user", "passwd", "bob", "--password-stdin=secret"]).fails(2);
}

#[test]
fn an_unknown_argument_exits_with_2_and_names_the_program() {
    let site = Site::new();
    for arguments in [&["frobnicate"][..], &["user"], &["check", "--no-such-option"], &[]] {
        let error = site.run(arguments).fails(2);
        assert!(!error.contains("error:"), "{error}");
    }
    assert!(site.run(&["frobnicate"]).fails(2).starts_with("choro: unrecognized subcommand"));
}

#[test]
fn samba_users_are_imported_with_their_state() {
    let site = Site::new();
    let hash = "A4F49C406510BDCAB6824EE7C30FD852";
    let lines = format!(
        "bob:1000:{x}:{hash}:[U          ]:LCT-65A1B2C3:\n\
         eve:1001:{x}:{hash}:[DU         ]:LCT-65A1B2C3:\n\
         pc$:1002:{x}:{hash}:[W          ]:LCT-65A1B2C3:\n",
        x = "X".repeat(32)
    );
    let report = site.run_with_input(&["user", "import"], &lines).succeeds();
    assert_eq!(
        report,
        "added bob\nadded eve\nskipped pc$ (line 3: a machine or trust account)\n\
         2 added, 0 updated, 0 identified, 1 skipped\n"
    );
    fs::write(site.path("dump"), &lines).expect("there is space");
    let dump = text(&site.path("dump"));
    let report = site.run(&["user", "import", &dump, "--json"]).succeeds();
    let report: serde_json::Value = serde_json::from_str(&report).expect("it is JSON");
    assert_eq!(report[1]["outcome"], "updated");
    assert_eq!(report[2]["reason"], "a machine or trust account");
    let listed = site.run(&["user", "list"]).succeeds();
    assert!(listed.contains("eve   disabled"), "{listed}");
    let users = fs::read_to_string(site.path("private/users")).expect("it was written");
    assert!(users.contains(&format!("bob:{}:enabled:", hash.to_lowercase())), "{users}");
}

#[test]
fn an_import_that_skips_all_lines_fails() {
    let site = Site::new();
    for arguments in [&["user", "import"][..], &["user", "import", "--json"]] {
        let outcome = site.run_with_input(arguments, "not a line of pdbedit\nnor this\n");
        let output = outcome.output();
        assert!(output.contains("skipped"), "{output}");
        assert_eq!(outcome.fails(1), "choro: no user was imported: all lines were skipped\n");
    }
    site.run_with_input(&["user", "import"], "").succeeds();
}

#[test]
fn check_shows_the_effective_configuration_and_the_nearest_name() {
    let site = Site::new();
    site.write_config("[data]\npath = /srv\nwriteable = yes\nbrowsable = no\nraed only = no\n");
    let outcome = site.run(&["check"]);
    let error = outcome.error();
    let effective = outcome.succeeds();
    assert!(effective.contains("[data]") && effective.contains("read only = No"), "{effective}");
    let line = site.config_lines();
    assert!(error.contains(&format!("smb.conf:{line}: unknown parameter `raed only`")), "{error}");
    assert!(error.contains("did you mean `read only`?"), "{error}");
}

#[test]
fn check_has_nothing_to_say_about_the_example() {
    let site = Site::new();
    site.write_config(include_str!("../../../docs/examples/smb.conf"));
    let outcome = site.run(&["check", "--verbose"]);
    let error = outcome.error();
    outcome.succeeds();
    // Its users, group and interface are none of the machine's.
    let is_fact = |line: &str| {
        ["Configuration: ", "Messages: ", "Path: "].iter().any(|it| line.starts_with(it))
            || [" names `", " names no interface"].iter().any(|it| line.contains(it))
    };
    assert!(error.lines().all(is_fact), "{error}");
}

#[test]
fn check_names_lines_about_users_groups_and_programs_that_are_not_there() {
    let site = Site::new();
    site.run_with_input(&["user", "add", "anna", "--password-stdin"], "x\n").succeeds();
    let data = text(&site.path("data"));
    site.write_config(&format!(
        "[data]\npath = {data}\nvalid users = anna ana root @roott %U DOM\\ann\n\
         force user = nobdy\nforce group = +nosuch-group\nroot preexec = /no/such/program %U\n"
    ));
    let line = site.config_lines();
    let outcome = site.run(&["check"]);
    let error = outcome.error();
    outcome.succeeds();
    let file = text(&site.path("smb.conf"));
    let user = "a user neither of this system nor of `choro user list`";
    let group = "a group that this system does not have";
    let want = [
        (3, format!("`valid users` names `ana`, {user}, did you mean `anna`?")),
        (3, format!("`valid users` names `roott`, {group}, did you mean `root`?")),
        (2, format!("`force user` names `nobdy`, {user}, did you mean `nobody`?")),
        (1, format!("`force group` names `nosuch-group`, {group}")),
        (0, "`root preexec`: /no/such/program does not exist".to_owned()),
    ];
    let want: Vec<String> =
        want.map(|(above, it)| format!("choro: {file}:{}: {it}", line - above)).into();
    let found: Vec<&str> = error.lines().filter(|it| it.starts_with("choro: ")).collect();
    assert_eq!(found, want);
    let rows = site.run(&["check", "--json"]).succeeds();
    for subject in ["unknown-name", "missing-program"] {
        assert!(rows.contains(subject), "{rows}");
    }
}

#[test]
fn check_fails_where_the_server_would_not_start_for_want_of_an_interface() {
    let site = Site::new();
    site.write_config_with("interfaces = llo\n", "");
    let line = site.config_lines();
    let file = text(&site.path("smb.conf"));
    let reason = "`interfaces` matches no address of this machine: `llo`, did you mean `lo`?";
    let error = site.run(&["check"]).fails(1);
    let want = format!("choro: {file}:{line}: {reason}; the server would not start\n");
    assert!(error.ends_with(&want), "{error}");
    assert!(site.run(&["serve"]).fails(1).contains(reason));
    site.write_config_with("interfaces = lo llo\n", "");
    let outcome = site.run(&["check"]);
    let error = outcome.error();
    outcome.succeeds();
    assert!(error.contains(&format!("{file}:{line}: `interfaces` names no")), "{error}");
}

#[test]
fn check_as_json_is_flat_and_has_the_remarks() {
    let site = Site::new();
    site.write_config("[data]\npath = /srv\nraed only = no\n");
    let rows: Vec<serde_json::Map<String, serde_json::Value>> =
        serde_json::from_str(&site.run(&["check", "--json"]).succeeds()).expect("it is JSON");
    assert!(rows.iter().flat_map(|row| row.values()).all(|v| !v.is_object() && !v.is_array()));
    assert!(rows.iter().any(|row| row["kind"] == "warning"
        && row["subject"] == "unknown-parameter"
        && row["line"] == site.config_lines()));
    let messages: Vec<_> = rows.iter().filter(|row| row["kind"] == "messages").collect();
    let [messages] = messages.as_slice() else { panic!("{messages:?}") };
    assert_eq!(messages["type"], messaging::TransportKind::DEFAULT.name());
    let len = messages["max_dgram_qlen"].as_u64();
    assert_eq!(len.is_some(), messages["type"] == "dgram", "{messages:?}");
    assert!(rows.iter().any(|row| row["kind"] == "parameter"
        && row["section"] == "data"
        && row["parameter"] == "path"
        && row["value"] == "/srv"));
}

#[test]
fn check_of_a_file_that_cannot_be_served_fails() {
    let site = Site::new();
    site.run(&["check", "/no/such/file"]).fails(2); // Both --config and FILE.
    site.write_config("[data\npath = /srv\n");
    let error = site.run(&["check"]).fails(1);
    assert!(error.starts_with("choro: ") && error.contains("section header"), "{error}");
}

/// Ignoring these settings would leave the domain's users outside, or a cluster's files in danger.
#[test]
fn settings_that_must_not_be_ignored_are_refused_with_a_remedy() {
    let site = Site::new();
    for (setting, remedy) in [("security = DOMAIN", "choro user add"), ("clustering = yes", "= no")]
    {
        site.write_config(&format!("[global]\n{setting}\n"));
        for command in ["check", "serve"] {
            let error = site.run(&[command]).fails(1);
            assert!(error.contains(setting) && error.contains(remedy), "{command}: {error}");
        }
    }
}

#[test]
fn a_cluster_without_a_ctdbd_is_one_line_and_a_failure() {
    let site = Site::new();
    let socket = text(&site.path("absent"));
    for lines in ["", "clustering = yes\n"] {
        site.write_config(&format!("[global]\n{lines}ctdbd socket = {socket}\n"));
        for arguments in [&["status", "--cluster"][..], &["status", "--cluster", "--json"]] {
            let outcome = site.run(arguments);
            assert_eq!(outcome.output(), "");
            let error = outcome.fails(1);
            let end = format!(" the socket {socket}: ctdbd is not running: ");
            assert!(error.contains(&end) && error.lines().count() == 1, "{error}");
        }
    }
    // The configuration is refused all the same, and says so last.
    let outcome = site.run(&["check"]);
    let error = outcome.error();
    outcome.fails(1);
    let line = format!("Cluster: ctdbd is not running: {socket}: ");
    assert!(error.starts_with(&line) && error.contains("`clustering = yes`"), "{error}");
    let rows: serde_json::Value =
        serde_json::from_str(&site.run(&["check", "--json"]).output()).expect("it is JSON");
    assert_eq!((&rows[0]["kind"], &rows[0]["fault"]), (&"cluster".into(), &true.into()));
    assert!(site.run(&["serve"]).fails(1).contains("`choro check` shows the state"));
}

#[test]
fn status_without_a_server_fails() {
    let site = Site::new();
    fs::create_dir(site.path("lock")).expect("it is new");
    assert_eq!(site.run(&["status"]).fails(1), "choro: no server is running\n");
    assert_eq!(site.run(&["status", "--json"]).fails(1), "choro: no server is running\n");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let site = Site::new();
    let (read, write) = std::io::pipe().expect("descriptors are left");
    drop(read);
    let mut command = site.command(&["check", "--verbose"]);
    let child = command.stdout(write).stderr(Stdio::piped()).spawn().expect("it starts");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{output:?}");
    assert!(!String::from_utf8_lossy(&output.stderr).contains("choro: "), "{output:?}");
}

#[test]
fn completions_exist_for_three_shells() {
    let site = Site::new();
    for (shell, marker) in
        [("bash", "_choro()"), ("zsh", "#compdef choro"), ("fish", "complete -c choro")]
    {
        assert!(site.run(&["completions", shell]).succeeds().contains(marker), "{shell}");
    }
    site.run(&["completions", "powershell"]).fails(2);
}

#[test]
fn every_command_has_a_manual_page_and_hidden_ones_have_none() {
    let site = Site::new();
    let directory = text(&site.path("man"));
    site.run(&["man", "--out", &directory]).succeeds();
    let mut pages: Vec<String> = fs::read_dir(site.path("man"))
        .expect("it was made")
        .map(|entry| entry.expect("it can be read").file_name().to_string_lossy().into_owned())
        .collect();
    pages.sort();
    assert_eq!(
        pages,
        [
            "choro-audit-who-deleted.8",
            "choro-audit.8",
            "choro-bench-messaging.8",
            "choro-bench.8",
            "choro-check.8",
            "choro-completions.8",
            "choro-doctor-access.8",
            "choro-doctor-client.8",
            "choro-doctor-network.8",
            "choro-doctor.8",
            "choro-healthcheck.8",
            "choro-man.8",
            "choro-message-broadcast.8",
            "choro-message-close-share.8",
            "choro-message-list.8",
            "choro-message-log-level.8",
            "choro-message-ping.8",
            "choro-message-reload.8",
            "choro-message-stats.8",
            "choro-message.8",
            "choro-metrics.8",
            "choro-profile.8",
            "choro-qos-clear.8",
            "choro-qos-set.8",
            "choro-qos-show.8",
            "choro-qos-top.8",
            "choro-qos.8",
            "choro-recycle-empty.8",
            "choro-recycle-list.8",
            "choro-recycle-restore.8",
            "choro-recycle.8",
            "choro-serve.8",
            "choro-share-add.8",
            "choro-share-list.8",
            "choro-share-remove.8",
            "choro-share.8",
            "choro-status.8",
            "choro-top.8",
            "choro-trace.8",
            "choro-user-add.8",
            "choro-user-disable.8",
            "choro-user-enable.8",
            "choro-user-import.8",
            "choro-user-list.8",
            "choro-user-passwd.8",
            "choro-user-remove.8",
            "choro-user.8",
            "choro.8",
        ]
    );
    let page = fs::read_to_string(site.path("man/choro-user-add.8")).expect("it exists");
    assert!(page.contains("password\\-stdin"), "{page}");
    assert!(!fs::read_to_string(site.path("man/choro.8")).expect("it exists").contains("worker"));
}
