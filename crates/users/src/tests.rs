//! The user database on a real file system.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use auth::NtHash;
use dtyp::Sid;
use tempfile::TempDir;

use super::{Identity, ImportOutcome, UserDatabase, UserEntry, UsersError, import};

fn user(name: &str) -> UserEntry {
    let full_name = "Full: Name".to_owned();
    UserEntry { full_name, ..UserEntry::new(name, NtHash::of_password("secret")) }
}

fn database_with(names: &[&str]) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("there is space");
    let path = directory.path().join("private/users");
    UserDatabase::update(&path, |database| {
        names.iter().try_for_each(|name| database.add(user(name)))
    })
    .expect("it can be written");
    (directory, path)
}

#[test]
fn a_user_keeps_ids_of_its_own() {
    let directory = tempfile::tempdir().expect("there is space");
    let path = directory.path().join("private/users");
    let identity = Some(Identity::new(1_001, vec![100, 44]).expect("ids"));
    let with_ids = UserEntry { identity: identity.clone(), ..user("anna") };
    UserDatabase::update(&path, |database| database.add(with_ids)).expect("it can be written");
    let text = fs::read_to_string(&path).expect("it exists");
    assert!(text.contains(":enabled 1001 100,44:Full: Name\n"), "{text}");
    let found = UserDatabase::open(&path).and_then(|mut database| database.find("anna"));
    assert_eq!(found.expect("it can be read").expect("it is there").identity, identity);
    write_private(&path, &text.replace(" 1001 ", " 0 "));
    UserDatabase::open(&path).expect_err("nobody is root");
}

fn write_private(path: &PathBuf, text: &str) {
    fs::write(path, text).expect("it is ours");
    fs::set_permissions(path, Permissions::from_mode(0o600)).expect("it is ours");
}

#[test]
fn a_written_user_is_found_in_any_case() {
    let (_directory, path) = database_with(&["Änne"]);
    let found = UserDatabase::open(&path).and_then(|mut database| database.find("ÄNNE"));
    let found = found.expect("it can be read").expect("it is there");
    assert_eq!(found.name, "Änne");
    assert_eq!(found.full_name, "Full: Name");
    assert_eq!(found.nt_hash.as_bytes(), NtHash::of_password("secret").as_bytes());
    assert!(found.enabled);
}

/// The hash of "secret" as every NT system has it.
#[test]
fn the_file_has_the_documented_form_and_mode() {
    let (_directory, path) = database_with(&["bob", "Alice"]);
    let text = fs::read_to_string(&path).expect("it exists");
    let hash = "878d8014606cda29677a44efa1353fc7";
    assert_eq!(
        text,
        format!(
            "# choro users 1\nAlice:{hash}:enabled:Full: Name\nbob:{hash}:enabled:Full: Name\n"
        )
    );
    let mode = |path| fs::metadata(path).expect("it exists").permissions().mode() & 0o777;
    assert_eq!(mode(path.as_path()), 0o600);
    assert_eq!(mode(path.parent().expect("it has one")), 0o700);
}

#[test]
fn names_are_unique_without_regard_to_case() {
    let (_directory, path) = database_with(&["bob"]);
    let outcome = UserDatabase::update(&path, |database| database.add(user("BOB")));
    assert!(matches!(outcome, Err(UsersError::Exists(name)) if name == "BOB"));
}

#[test]
fn a_file_that_others_can_read_is_refused() {
    let (_directory, path) = database_with(&["bob"]);
    for mode in [0o640, 0o604, 0o620] {
        fs::set_permissions(&path, Permissions::from_mode(mode)).expect("it is ours");
        let outcome = UserDatabase::open(&path);
        assert!(matches!(outcome, Err(UsersError::NotPrivate { mode: got, .. }) if got == mode));
    }
}

#[test]
fn a_change_by_another_process_is_seen() {
    let (_directory, path) = database_with(&["bob"]);
    let mut reader = UserDatabase::open(&path).expect("it can be read");
    UserDatabase::update(&path, |database| {
        database.remove("bob")?;
        database.add(user("carol"))
    })
    .expect("it can be written");
    assert!(reader.find("bob").expect("it can be read").is_none());
    assert!(reader.find("carol").expect("it can be read").is_some());
    fs::remove_file(&path).expect("it is ours");
    assert!(reader.find("carol").expect("absence is no error").is_none());
}

#[test]
fn a_refused_change_leaves_the_file_as_it_was() {
    let (_directory, path) = database_with(&["bob"]);
    let before = fs::read(&path).expect("it exists");
    let outcome = UserDatabase::update(&path, |database| {
        database.add(user("carol"))?;
        database.remove("nobody")
    });
    assert!(matches!(outcome, Err(UsersError::NoSuchUser(_))));
    assert_eq!(fs::read(&path).expect("it exists"), before);
}

#[test]
fn files_left_by_a_killed_writer_hinder_no_other_writer() {
    let (_directory, path) = database_with(&["bob"]);
    fs::write(path.with_extension("new"), "half a line").expect("it is ours");
    UserDatabase::update(&path, |database| database.add(user("carol"))).expect("it can be written");
    assert!(!path.with_extension("new").exists());
}

/// Two processes that add at once both succeed: the second reads what the first wrote.
#[test]
fn users_are_found_by_name_after_additions_and_removals() {
    let (_directory, path) = database_with(&["anna", "Bob", "carol"]);
    let mut database = UserDatabase::open(&path).expect("ours");
    database.remove("ANNA").expect("it is there");
    database.add(user("dora")).expect("it is new");
    for (name, found) in [("anna", None), ("bob", Some("Bob")), ("Dora", Some("dora"))] {
        let user = database.get_mut(name).ok().map(|user| user.name.clone());
        assert_eq!(user.as_deref(), found);
    }
}

#[test]
fn writers_exclude_each_other() {
    let (_directory, path) = database_with(&[]);
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let path = &path;
            scope.spawn(move || {
                for number in 0..8 {
                    let name = format!("user{writer}x{number}");
                    UserDatabase::update(path, |database| database.add(user(&name)))
                        .expect("it can be written");
                }
            });
        }
    });
    assert_eq!(UserDatabase::open(&path).expect("it can be read").users().len(), 32);
}

#[test]
fn unfit_names_are_refused() {
    let (_directory, path) = database_with(&[]);
    for name in ["", "a:b", "a\\b", "a@b", " a", "a\n", "#a", &"x".repeat(257)] {
        let outcome = UserDatabase::update(&path, |database| database.add(user(name)));
        assert!(matches!(outcome, Err(UsersError::UnfitName { .. })), "{name:?}");
    }
    UserDatabase::update(&path, |database| database.add(user(&"x".repeat(256))))
        .expect("the longest name fits");
}

#[test]
fn a_broken_line_is_named_by_its_number_and_never_shown() {
    let (_directory, path) = database_with(&[]);
    let hash = "878d8014606cda29677a44efa1353fc7";
    for (line, reason) in [
        ("bob", "expected name:hash:state:full name"),
        (&format!("bob:{hash}x:enabled:"), "the hash is not 32 hexadecimal digits"),
        (&format!("bob:{}:enabled:", &hash[1..]), "the hash is not 32 hexadecimal digits"),
        (&format!("bob:{hash}:on:"), "the state is neither 'enabled' nor 'disabled'"),
        (&format!("b@b:{hash}:enabled:"), "the name cannot be a user's"),
    ] {
        write_private(&path, &format!("# comment\n\n{line}\n"));
        let error = UserDatabase::open(&path).expect_err("it is broken").to_string();
        assert_eq!(error, format!("{}, line 3: {reason}", path.display()));
    }
}

#[test]
fn debug_output_holds_no_hash() {
    let text = format!("{:?}", user("bob"));
    assert!(text.contains("bob") && !text.contains("878d"), "{text}");
}

const PDBEDIT: &str = "\
bob:1000:XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX:\
878D8014606CDA29677A44EFA1353FC7:[U          ]:LCT-65A1B2C3:
carol:1001:XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX:\
878D8014606CDA29677A44EFA1353FC7:[DU         ]:LCT-65A1B2C3:
pc$:1002:XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX:\
878D8014606CDA29677A44EFA1353FC7:[W          ]:LCT-65A1B2C3:
dave:1003:XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX:\
XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX:[U          ]:LCT-00000000:
erin:1004:NO PASSWORDXXXXXXXXXXXXXXXXXXXXX:\
NO PASSWORDXXXXXXXXXXXXXXXXXXXXX:[NU         ]:LCT-00000000:

# a comment
nonsense
";

fn import_text(path: &Path, text: &[u8]) -> Vec<(usize, String, ImportOutcome)> {
    UserDatabase::update(path, |database| import(database, text))
        .expect("it can be written")
        .into_iter()
        .map(|imported| (imported.line, imported.name, imported.outcome))
        .collect()
}

#[test]
fn users_that_samba_has_locked_or_disabled_are_imported_disabled() {
    let (_directory, path) = database_with(&["bob"]);
    let line = PDBEDIT.lines().next().expect("bob's");
    for flags in ["[UL         ]", "[DU         ]", "[DUL        ]"] {
        import_text(&path, line.replace("[U          ]", flags).as_bytes());
        let user = UserDatabase::open(&path).expect("ours").find("bob").expect("ours");
        assert!(!user.expect("it is there").enabled, "{flags}");
    }
}

#[test]
fn pdbedits_output_is_imported_line_by_line() {
    let (_directory, path) = database_with(&["BOB"]);
    let outcomes = import_text(&path, PDBEDIT.as_bytes());
    let skipped = ImportOutcome::Skipped;
    assert_eq!(
        outcomes,
        [
            (1, "bob".to_owned(), ImportOutcome::Updated),
            (2, "carol".to_owned(), ImportOutcome::Added),
            (3, "pc$".to_owned(), skipped("a machine or trust account")),
            (4, "dave".to_owned(), skipped("it has no NT hash")),
            (5, "erin".to_owned(), skipped("an account that needs no password")),
            (8, "nonsense".to_owned(), skipped("not a line of `pdbedit -Lw` or `pdbedit -Lv`")),
        ]
    );
    let mut database = UserDatabase::open(&path).expect("it can be read");
    let bob = database.find("bob").expect("it can be read").expect("he was there");
    assert_eq!((bob.name.as_str(), bob.full_name.as_str()), ("BOB", "Full: Name"));
    let carol = database.find("carol").expect("it can be read").expect("she is new");
    assert!(!carol.enabled);
}

/// As `pdbedit -Lv` prints two users and a machine.
const VERBOSE: &str = "\
---------------
Unix username:        Bob
NT username:          
Account Flags:        [U          ]
User SID:             S-1-5-21-3070023528-4161081916-1662123358-1001
Primary Group SID:    S-1-5-21-3070023528-4161081916-1662123358-513
Full Name:            Bob: a name
Logon time:           0
Password last set:    Sat, 28 Nov 2026 10:00:00 UTC
---------------
Unix username:        ghost
User SID:             S-1-5-21-3070023528-4161081916-1662123358-1002
---------------
Unix username:        pc$
User SID:             S-1-5-21-3070023528-4161081916-1662123358-1003
---------------
Unix username:        bob
User SID:             S-1-5-32-544
";

#[test]
fn sids_of_sambas_users_are_imported_with_their_passwords_or_after_them() {
    let (_directory, path) = database_with(&[]);
    let bobs_line = PDBEDIT.lines().next().expect("his");
    let outcomes = import_text(&path, format!("{bobs_line}\n{VERBOSE}{bobs_line}\n").as_bytes());
    let skipped = ImportOutcome::Skipped;
    assert_eq!(
        outcomes,
        [
            (1, "bob".to_owned(), ImportOutcome::Added),
            (6, "Bob".to_owned(), ImportOutcome::Identified),
            (13, "ghost".to_owned(), skipped("it has a SID and no password: import both")),
            (19, "bob".to_owned(), skipped("the SID is no user's")),
            (20, "bob".to_owned(), ImportOutcome::Updated),
        ]
    );
    let mut database = UserDatabase::open(&path).expect("it can be read");
    let bob = database.find("bob").expect("it can be read").expect("he was added");
    let sid = Sid::new(5, &[21, 3_070_023_528, 4_161_081_916, 1_662_123_358, 1_001]);
    assert_eq!(bob.samba_sid, Some(sid), "his password was imported again");
}

#[test]
fn a_line_has_ids_or_a_sid_or_both() {
    let (_directory, path) = database_with(&[]);
    let identity = Identity::parse("1001", "100,44").ok();
    let samba_sid = Sid::parse("S-1-5-21-1-2-3-1000");
    let with_sid = UserEntry { samba_sid: samba_sid.clone(), ..user("anna") };
    let with_both = UserEntry { identity, samba_sid, ..user("bob") };
    let users = [with_sid, with_both];
    for user in users.clone() {
        UserDatabase::update(&path, |database| database.add(user)).expect("it can be written");
    }
    let text = fs::read_to_string(&path).expect("it exists");
    assert!(text.contains(":enabled S-1-5-21-1-2-3-1000:Full: Name\n"), "{text}");
    assert!(text.contains(":enabled 1001 100,44 S-1-5-21-1-2-3-1000:Full: Name\n"), "{text}");
    let database = UserDatabase::open(&path).expect("it can be read");
    for (read, written) in database.users().iter().zip(&users) {
        assert_eq!((&read.identity, &read.samba_sid), (&written.identity, &written.samba_sid));
    }
    for sid in ["S-1-5-32-544", "S-1-1-0", "S-1-5-21-1-2-3-512", "S-1-22-1-0", "S-1-x"] {
        write_private(&path, &text.replace("S-1-5-21-1-2-3-1000", sid));
        UserDatabase::open(&path).expect_err("it stands for others, too");
    }
}

#[test]
fn an_endless_line_and_foreign_bytes_do_no_harm() {
    let (_directory, path) = database_with(&[]);
    let mut text = vec![b'x'; 100_000];
    text.extend(b"\n\xff\xfe\n");
    let outcomes = import_text(&path, &text);
    assert!(outcomes.iter().all(|(_, _, outcome)| matches!(outcome, ImportOutcome::Skipped(_))));
    assert!(UserDatabase::open(&path).expect("it can be read").users().is_empty());
}
