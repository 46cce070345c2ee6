use super::{DfsReferralFlags, DfsReferralRequest, DfsReferralResponse};

fn response(version: u16) -> DfsReferralResponse {
    DfsReferralResponse {
        version,
        flags: DfsReferralFlags::STORAGE_SERVERS,
        is_root: false,
        time_to_live: 600,
        dfs_path: "\\server\\dfs\\link".to_owned(),
        targets: vec!["\\one\\share".to_owned(), "\\two\\share\\deep".to_owned()],
    }
}

#[test]
fn requests_round_trip() {
    let request = DfsReferralRequest {
        max_referral_level: 4,
        request_file_name: "\\server\\dfs\\link".to_owned(),
    };
    let mut bytes = Vec::new();
    request.encode(&mut bytes);
    assert_eq!(DfsReferralRequest::decode(&bytes), Ok(request));
    assert!(DfsReferralRequest::decode(&bytes[..1]).is_err(), "it is cut");
}

#[test]
fn an_extended_request_says_how_long_its_path_is() {
    let mut bytes = vec![4, 0, 1, 0, 10, 0, 0, 0, 4, 0];
    bytes.extend_from_slice(b"\\\0a\0\0\0");
    let request = DfsReferralRequest::decode_extended(&bytes).expect("well-formed");
    assert_eq!((request.max_referral_level, &*request.request_file_name), (4, "\\a"));
    bytes[8] = 40;
    assert!(DfsReferralRequest::decode_extended(&bytes).is_err(), "it is not so long");
}

#[test]
fn responses_of_all_forms_round_trip() {
    for version in 2..=4 {
        let mut bytes = Vec::new();
        response(version).encode(&mut bytes);
        assert_eq!(DfsReferralResponse::decode(&bytes), Ok(response(version)));
        for len in 0..bytes.len() {
            // No prefix panics; the last strings may end early.
            let _ = DfsReferralResponse::decode(&bytes[..len]);
        }
    }
}

/// [MS-DFSC] 2.2.4, 2.2.5.3.
#[test]
fn an_entry_of_the_third_form_has_34_bytes() {
    let one = DfsReferralResponse {
        dfs_path: "\\a".to_owned(),
        targets: vec!["\\b".to_owned()],
        ..response(3)
    };
    let mut bytes = Vec::new();
    one.encode(&mut bytes);
    let head = [4, 0, 1, 0, 2, 0, 0, 0];
    let entry = [3, 0, 34, 0, 0, 0, 0, 0, 0x58, 2, 0, 0, 34, 0, 34, 0, 40, 0];
    let strings = b"\\\0a\0\0\0\\\0b\0\0\0";
    assert_eq!(bytes, [&head[..], &entry, &[0; 16], strings].concat());
}

#[test]
fn targets_that_do_not_fit_are_left_out_whole() {
    let mut all = Vec::new();
    response(3).encode(&mut all);
    assert_eq!(response(3).fitting(all.len()).as_ref(), Some(&all));
    let fewer = response(3).fitting(all.len() - 1).expect("one fits");
    assert_eq!(DfsReferralResponse::decode(&fewer).expect("whole").targets, ["\\one\\share"]);
    assert_eq!(response(3).fitting(40), None);
}
