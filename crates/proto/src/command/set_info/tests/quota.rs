//! Changes of quotas, with the test in place of the store and of the command.

use dtyp::Sid;
use dtyp::fscc::{
    EntryListWriter, FileFsControlInformation, FileQuotaInformation, FsInformationClass,
};
use engine::effect::Reply;
use model::share::QuotaCommands;
use object::{NewQuota, QuotaChange, QuotaLimits, QuotaOp, QuotaState, QuotaSubject, QuotaUser};

use super::*;

const NO_LIMIT: u64 = FileQuotaInformation::NO_LIMIT;

fn send(scene: &mut Scene, file_id: FileId, limits: &[(u32, u64, u64)]) {
    let of = |(uid, threshold, limit): &(u32, u64, u64)| (Sid::unix_user(*uid), *threshold, *limit);
    send_of_sids(scene, file_id, limits.iter().map(of).collect());
}

fn send_of_sids(scene: &mut Scene, file_id: FileId, limits: Vec<(Sid, u64, u64)>) {
    let mut list = Vec::new();
    let mut writer = EntryListWriter::new(&mut list, usize::MAX, 8);
    for (sid, quota_threshold, quota_limit) in limits {
        let information = FileQuotaInformation {
            change_time: FileTime::ZERO,
            quota_used: 0,
            quota_threshold,
            quota_limit,
            sid,
        };
        assert!(writer.push(|out| information.encode(out)));
    }
    send_buffer(scene, file_id, (InfoType::QUOTA, 0), &list);
}

fn send_buffer(scene: &mut Scene, file_id: FileId, of: (InfoType, u8), buffer: &[u8]) {
    let request = SetInfoRequest {
        info_type: of.0,
        file_info_class: of.1,
        additional_information: 0,
        file_id,
        buffer,
    };
    scene.send(Command::SET_INFO, &request);
}

fn send_state(scene: &mut Scene, file_id: FileId, flags: u32, default_quota_limit: u64) {
    let mut buffer = Vec::new();
    FileFsControlInformation {
        default_quota_threshold: NO_LIMIT,
        default_quota_limit,
        file_system_control_flags: flags,
        ..FileFsControlInformation::default()
    }
    .encode(&mut buffer);
    let of = (InfoType::FILESYSTEM, FsInformationClass::CONTROL.0);
    send_buffer(scene, file_id, of, &buffer);
}

/// A file, on a share whose command sets quotas if `set`; another command tells them.
fn file_of_share_with_commands(set: bool) -> (Scene, FileId) {
    let mut scene = Scene::new();
    let file_id = scene.open("file");
    scene.change_share(|share| share.quota_commands = QuotaCommands { get: true, set });
    (scene, file_id)
}

fn limits(soft_bytes: Option<u64>, hard_bytes: Option<u64>) -> QuotaLimits {
    QuotaLimits { soft_bytes, hard_bytes }
}

fn is_verification(op: &ObjectOp) -> bool {
    matches!(op, ObjectOp::Quotas { op: QuotaOp::FindUsers { to_change: true, .. }, .. })
}

#[test]
fn limits_are_set_by_the_store_and_a_quota_that_is_deleted_has_none() {
    let mut scene = Scene::new();
    let file_id = scene.open("file");
    let deleted = FileQuotaInformation::DELETED;
    send(&mut scene, file_id, &[(7, 10, 20), (8, NO_LIMIT, 0), (9, 5, deleted)]);
    let op = store_does(&mut scene);
    let ObjectOp::Quotas { op: QuotaOp::Set(quotas), .. } = op else { panic!("{op:?}") };
    let new = |uid, limits| NewQuota { sid: Sid::unix_user(uid), limits };
    let want = [
        new(7, limits(Some(10), Some(20))),
        new(8, limits(None, Some(0))),
        new(9, QuotaLimits::default()),
    ];
    assert_eq!(quotas, want);
    assert_eq!(outcome(&mut scene), NtStatus::SUCCESS);
}

#[test]
fn a_user_without_the_right_is_refused_by_the_store() {
    let mut scene = Scene::new();
    let file_id = scene.open("file");
    send(&mut scene, file_id, &[(7, 10, 20)]);
    store_says(&mut scene, Err(NtStatus::ACCESS_DENIED));
    assert_eq!(outcome(&mut scene), NtStatus::ACCESS_DENIED);
}

/// `force user = root` makes an administrator of a guest, whom the store would not refuse.
#[test]
fn a_tree_connect_without_the_right_to_write_changes_no_quotas() {
    for set in [false, true] {
        let (mut scene, file_id) = file_of_share_with_commands(set);
        scene.limit_tree_connects(FILE_ALL - AccessMask::WRITE_DATA);
        send(&mut scene, file_id, &[(7, 10, 20)]);
        assert_eq!(outcome(&mut scene), Reason::AccessNotGranted);
        send_state(&mut scene, file_id, 2, NO_LIMIT);
        assert_eq!(outcome(&mut scene), Reason::AccessNotGranted);
        scene.limit_tree_connects(AccessMask::WRITE_DATA);
        send(&mut scene, file_id, &[(7, 10, 20)]);
        store_says(&mut scene, Err(NtStatus::ACCESS_DENIED));
        assert_eq!(outcome(&mut scene), NtStatus::ACCESS_DENIED);
    }
}

#[test]
fn administrators_get_no_limit_by_the_store_or_by_a_command() {
    for set in [false, true] {
        let (mut scene, file_id) = file_of_share_with_commands(set);
        for (threshold, limit) in [(10, NO_LIMIT), (NO_LIMIT, 20)] {
            let administrators = (Sid::administrators(), threshold, limit);
            let user = (Sid::unix_user(7), 10, 20);
            send_of_sids(&mut scene, file_id, vec![user, administrators]);
            assert_eq!(outcome(&mut scene), Reason::QuotaOfAdministrators);
        }
        // Without a limit it is a question of rights.
        send_of_sids(&mut scene, file_id, vec![(Sid::administrators(), NO_LIMIT, NO_LIMIT)]);
        store_says(&mut scene, Err(NtStatus::ACCESS_DENIED));
        assert_eq!(outcome(&mut scene), NtStatus::ACCESS_DENIED);
    }
}

#[test]
fn negative_limits_and_too_many_users_are_refused() {
    let mut scene = Scene::new();
    let file_id = scene.open("file");
    for bad in [1 << 63, u64::MAX - 2] {
        send(&mut scene, file_id, &[(7, NO_LIMIT, bad)]);
        assert_eq!(outcome(&mut scene), Reason::QuotaLimitInvalid);
        send(&mut scene, file_id, &[(7, bad, NO_LIMIT)]);
        assert_eq!(outcome(&mut scene), Reason::QuotaLimitInvalid);
    }
    let many: Vec<_> = (0..1_025).map(|uid| (uid, NO_LIMIT, NO_LIMIT)).collect();
    send(&mut scene, file_id, &many);
    assert_eq!(outcome(&mut scene), Reason::TooManyQuotaUsers);
}

#[test]
fn the_state_of_a_file_system_stays_as_it_is() {
    for (flags, limit, want) in [
        (2, NO_LIMIT, Outcome::from(NtStatus::SUCCESS)),
        (1, NO_LIMIT, Reason::QuotaStateFixed.into()),
        (0, NO_LIMIT, Reason::QuotaStateFixed.into()),
        // QUOTA_TRACK takes precedence.
        (3, NO_LIMIT, Reason::QuotaStateFixed.into()),
        (2, 1 << 20, Reason::QuotaStateFixed.into()),
    ] {
        let mut scene = Scene::new();
        let file_id = scene.open("file");
        send_state(&mut scene, file_id, flags, limit);
        let op = store_says(&mut scene, Ok(ObjectReply::QuotaUsers(Vec::new())));
        assert!(is_verification(&op), "{op:?}");
        store_says(&mut scene, Ok(ObjectReply::QuotaState(QuotaState::Enforced)));
        assert_eq!(outcome(&mut scene), want, "{flags} {limit}");
    }
    let mut scene = Scene::new();
    let file_id = scene.open("file");
    send_state(&mut scene, file_id, 2, NO_LIMIT);
    store_says(&mut scene, Err(NtStatus::ACCESS_DENIED));
    assert_eq!(outcome(&mut scene), NtStatus::ACCESS_DENIED);
}

/// Replies in place of the command; its task must be this change.
#[track_caller]
fn command_does(scene: &mut Scene, want: QuotaChange, is_done: bool) {
    let (id, effect) = scene.server.poll_effect().expect("the command is asked");
    let Effect::ChangeQuota { change, .. } = effect else { panic!("{effect:?}") };
    assert_eq!(change, want);
    let id = id.expect("a request waits for it");
    scene.server.handle_reply(Default::default(), id, Reply::QuotaChanged(is_done));
}

#[test]
fn a_command_makes_changes_one_after_the_other_once_the_store_knows_an_administrator() {
    let (mut scene, file_id) = file_of_share_with_commands(true);
    let user = |uid| QuotaUser { sid: Sid::unix_user(uid), uid };
    let change = |uid, soft, hard| QuotaChange {
        subject: QuotaSubject::User(uid),
        state: QuotaState::Enforced,
        limits: limits(soft, hard),
    };
    for (last_is_done, want) in
        [(true, Outcome::from(NtStatus::SUCCESS)), (false, Reason::QuotaCommandFailed.into())]
    {
        send(&mut scene, file_id, &[(7, 10, 20), (8, NO_LIMIT, 30)]);
        let op = store_says(&mut scene, Ok(ObjectReply::QuotaUsers(vec![user(7), user(8)])));
        assert!(is_verification(&op), "{op:?}");
        command_does(&mut scene, change(7, Some(10), Some(20)), true);
        command_does(&mut scene, change(8, None, Some(30)), last_is_done);
        assert_eq!(outcome(&mut scene), want);
    }
    send(&mut scene, file_id, &[(7, 10, 20)]);
    store_says(&mut scene, Err(NtStatus::ACCESS_DENIED));
    assert_eq!(outcome(&mut scene), NtStatus::ACCESS_DENIED);

    send_state(&mut scene, file_id, 2, 40);
    store_says(&mut scene, Ok(ObjectReply::QuotaUsers(vec![user(0)])));
    let (subject, state) = (QuotaSubject::Defaults, QuotaState::Enforced);
    let change = QuotaChange { subject, state, limits: limits(None, Some(40)) };
    command_does(&mut scene, change, true);
    assert_eq!(outcome(&mut scene), NtStatus::SUCCESS);
}
