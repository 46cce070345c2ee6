use super::*;

fn substitutions() -> Substitutions {
    Substitutions {
        user: "bob".to_owned(),
        group: "staff".to_owned(),
        client_name: "pc1".to_owned(),
        client_address: "fe80::1".to_owned(),
        server_name: "SRV".to_owned(),
        share: "data".to_owned(),
        path: "/srv/data".to_owned(),
        home: "/home/bob".to_owned(),
        pid: 42,
        domain: "DOM".to_owned(),
        requested_user: "Bob".to_owned(),
        arch: "Win10".to_owned(),
        dialect: "SMB3_11".to_owned(),
        hostname: "srv.example".to_owned(),
        time: "2026/11/20 12:00:00".to_owned(),
        version: "9".to_owned(),
        interface: "10.0.0.1".to_owned(),
        environment: Arc::new(BTreeMap::from([("HOME".to_owned(), "/root".to_owned())])),
    }
}

#[track_caller]
fn check(text: &str, want: &str) {
    assert_eq!(substitutions().expand(text), want);
}

#[track_caller]
fn path_of(requested_user: &str, text: &str, want: &str) {
    let hostile = Substitutions { requested_user: requested_user.to_owned(), ..substitutions() };
    assert_eq!(hostile.expand_path(text), want, "{requested_user:?} in {text}");
}

#[test]
fn every_letter_has_its_value() {
    check("%u %g %G %m %M %I %J", "bob staff staff pc1 fe80::1 fe80::1 fe80__1");
    check("%L %N %S %P %H %d %D%w%U", "SRV SRV data /srv/data /home/bob 42 DOM\\Bob");
    check("%a %R %h %T %t", "Win10 SMB3_11 srv.example 2026/11/20 12:00:00 20261120_120000");
    check("%v %V %i %j %$(HOME)", "9 9 10.0.0.1 10_0_0_1 /root");
}

#[test]
fn a_percent_sign_without_a_known_letter_stays() {
    check("100% %x %", "100% %x %");
    check("%$(HOME", "%$(HOME");
    check("%$(NONE)!", "!");
    check("%é", "%é");
}

#[test]
fn two_percent_signs_are_one() {
    check("50%%U %%%U", "50%U %Bob");
}

#[test]
fn letters_are_those_of_variables() {
    let letters = |text| Substitutions::letters(text).collect::<String>();
    assert_eq!(letters("/etc/%m.%U/%$(HOME)/100%%U%x%I"), "mUI");
    assert_eq!(letters("%"), "");
}

#[test]
fn values_are_never_expanded_again() {
    let hostile = Substitutions {
        requested_user: "%$(HOME)%u".to_owned(),
        client_name: "%".to_owned(),
        ..substitutions()
    };
    assert_eq!(hostile.expand("<%U> %mu"), "<%$(HOME)%u> %u");
}

#[test]
fn a_name_never_leaves_its_component_of_a_path() {
    path_of("bob", "/srv/%U", "/srv/bob");
    path_of("../../etc", "/srv/%U", "/srv/____etc");
    path_of("..", "/srv/%U/x", "/srv/_/x");
    path_of(".", "/srv/%U", "/srv/_");
    path_of("", "/srv/%U/secret", "/srv/_/secret");
    path_of(".", "/srv/.%U", "/srv/._");
    path_of("", "/srv/.%U", "/srv/_");
    path_of("a/b\0c", "/srv/%U", "/srv/a_b_c");
    path_of("...", "/srv/%U", "/srv/_.");
}

#[test]
fn the_operators_own_dots_and_folders_stay() {
    path_of("bob", "/srv/../%U/./x//y", "/srv/../bob/./x//y");
    path_of("bob", "%H/smb", "/home/bob/smb");
    path_of("bob", "%$(HOME)/%U", "/root/bob");
}

#[test]
fn a_missing_client_name_leaves_the_rest_of_a_file_name() {
    let none = Substitutions { client_name: String::new(), ..substitutions() };
    assert_eq!(none.expand_path("/var/log/log.%m"), "/var/log/log.");
}

#[test]
fn the_result_is_bounded() {
    let long = Substitutions { user: "é".repeat(10_000), ..Substitutions::default() };
    let expanded = long.expand(&"%u".repeat(LINE_BYTES_MAX / 2));
    assert!(expanded.len() <= LINE_BYTES_MAX);
}
