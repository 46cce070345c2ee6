use super::*;

#[track_caller]
fn check(allow: &str, deny: &str, client: &str, want: bool) {
    let allow: Vec<&str> = allow.split_whitespace().collect();
    let deny: Vec<&str> = deny.split_whitespace().collect();
    let address = client.parse().expect("test addresses are well formed");
    assert_eq!(allows(&allow, &deny, address), want, "{allow:?} {deny:?} {client}");
}

#[test]
fn without_lists_everyone_may() {
    check("", "", "10.1.2.3", true);
}

#[test]
fn an_allow_list_alone_shuts_everyone_else_out() {
    check("10.0.0.0/8", "", "10.1.2.3", true);
    check("10.0.0.0/8", "", "11.1.2.3", false);
}

#[test]
fn a_deny_list_alone_lets_everyone_else_in() {
    check("", "10.0.0.0/8", "10.1.2.3", false);
    check("", "10.0.0.0/8", "11.1.2.3", true);
}

#[test]
fn allow_outweighs_deny() {
    check("10.1.2.3", "ALL", "10.1.2.3", true);
    check("10.1.2.3", "ALL", "10.1.2.4", false);
    check("10.1.2.3", "10.0.0.0/8", "11.0.0.1", true);
}

#[test]
fn loopback_may_unless_denied_explicitly() {
    check("10.0.0.0/8", "", "127.0.0.1", true);
    check("10.0.0.0/8", "", "::1", true);
    check("", "127.0.0.1", "127.0.0.1", false);
    check("", "ALL", "127.0.0.1", false);
    check("127.", "ALL", "127.0.0.1", true);
    check("", "10.0.0.0/8", "::ffff:127.0.0.1", true);
}

#[test]
fn networks_have_bits_or_masks() {
    for word in ["150.203.15.0/255.255.255.0", "150.203.15.0/24", "150.203.15.77/24", "150.203.15."]
    {
        check(word, "", "150.203.15.1", true);
        check(word, "", "150.203.16.1", false);
    }
    check("0.0.0.0/0", "", "9.9.9.9", true);
    check("10.0.0.1/32", "", "10.0.0.1", true);
    check("10.0.0.1/32", "", "10.0.0.2", false);
    check("fe80::/10", "", "fe80::1", true);
    check("fe80::/10", "", "fec0::1", false);
    check("::/0", "", "fec0::1", true);
    check("::/0", "", "10.0.0.1", false);
}

#[test]
fn a_prefix_ends_at_a_dot_and_not_inside_a_number() {
    check("150.203.", "", "150.203.6.7", true);
    check("150.203.", "", "150.20.3.7", false);
    check("1.", "", "10.0.0.1", false);
}

#[test]
fn an_ipv4_client_on_an_ipv6_socket_is_an_ipv4_client() {
    check("10.0.0.0/8", "", "::ffff:10.1.2.3", true);
    check("10.1.2.3", "", "::ffff:10.1.2.3", true);
}

#[test]
fn names_match_no_client() {
    for name in ["PC1.example.org", ".example.org", "LOCAL", "10.0.0", "10.0.0.1.", "010.", "pc."] {
        check(name, "", "10.0.0.1", false);
        check("", name, "10.0.0.1", true);
    }
}

#[test]
fn except_removes_from_the_entries_before_it() {
    check("150.203. EXCEPT 150.203.6.66", "", "150.203.6.7", true);
    check("150.203. EXCEPT 150.203.6.66", "", "150.203.6.66", false);
    check("ALL EXCEPT 10. EXCEPT 10.1.", "", "10.2.0.1", false);
    check("ALL EXCEPT 10. EXCEPT 10.1.", "", "10.1.0.1", true);
    check("", "ALL EXCEPT 10.", "10.0.0.1", true);
    check("", "ALL EXCEPT 10.", "11.0.0.1", false);
    check("EXCEPT 10.0.0.1", "", "10.0.0.1", false);
}

#[test]
fn malformed_words_match_nobody_and_are_named() {
    let words = [
        "10.0.0.0/99",
        "10.0.0.0/::",
        "x/24",
        "@pcs",
        "10.0.0.0/8",
        "pc1",
        "fe80::/129",
        "::ffff:10.0.0.0/104",
    ];
    assert_eq!(
        malformed(&words),
        ["10.0.0.0/99", "10.0.0.0/::", "x/24", "@pcs", "fe80::/129", "::ffff:10.0.0.0/104"]
    );
    check("10.0.0.0/99", "", "10.0.0.1", false);
    check("10.0.0.0/33 /", "", "10.0.0.1", false);
}

#[test]
fn every_word_that_matches_by_nothing_but_a_name_is_named() {
    assert_eq!(names(&["ALL", "except", "10.", "10.1.2.", "10.0.0.0/8", "::1", "@pcs"]), []);
    for word in ["pc1", ".example.org", "LOCAL", ".", "10", "1.2.3.4.", "010.", "256.", "%m"] {
        assert_eq!(names(&["ALL", word]), [Name { word, is_excepted: false }]);
        assert_eq!(names(&["ALL", "EXCEPT", word]), [Name { word, is_excepted: true }]);
        assert_eq!(
            names(&["ALL", "EXCEPT", "10.", "except", word]),
            [Name { word, is_excepted: false }]
        );
    }
}
