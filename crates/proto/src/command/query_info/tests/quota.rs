//! Quotas, with the test in place of the store and of the command.

use dtyp::fscc::{
    EntryListWriter, FileFsControlInformation, FileQuotaInformation, QuotaList,
    encode_get_quota_entry,
};
use dtyp::{NtStatus, Sid};
use engine::effect::{Effect, Reply};
use model::share::QuotaCommands;
use object::{
    ObjectOp, ObjectReply, Quota, QuotaLimits, QuotaOp, QuotaQuery, QuotaStart, QuotaState,
    QuotaSubject, QuotaUser, ToldQuota, UserQuota,
};
use trace::Reason;
use wire::query_info::{InfoType, QueryInfoRequest};
use wire::query_quota::{QueryQuotaInfo, QuotaUsers};
use wire::{Command, FileId};

use super::{FsInformationClass, request};
use crate::scene::{Answer, Scene};

const MIB: u64 = 1 << 20;

fn quota_of(uid: u32) -> Quota {
    let limits = QuotaLimits { soft_bytes: None, hard_bytes: Some(MIB) };
    Quota { used_bytes: uid.into(), limits, is_out_of_files: false }
}

fn user(uid: u32) -> QuotaUser {
    QuotaUser { sid: Sid::unix_user(uid), uid }
}

fn quotas(uids: &[u32]) -> ObjectReply {
    let quota = |uid: &u32| UserQuota { user: user(*uid), quota: quota_of(*uid) };
    ObjectReply::Quotas(uids.iter().map(quota).collect())
}

fn list_of(uids: impl IntoIterator<Item = u32>) -> Vec<u8> {
    let mut list = Vec::new();
    let mut writer = EntryListWriter::new(&mut list, usize::MAX, 4);
    for uid in uids {
        assert!(writer.push(|out| encode_get_quota_entry(&Sid::unix_user(uid), out)));
    }
    list
}

/// Sends a query of quotas.
fn send(scene: &mut Scene, file_id: FileId, query: QueryQuotaInfo<'_>, output_buffer_length: u32) {
    let mut input = Vec::new();
    query.encode(&mut input);
    let request = QueryInfoRequest {
        output_buffer_length,
        input_buffer: &input,
        ..request(file_id, InfoType::QUOTA, 0)
    };
    scene.send(Command::QUERY_INFO, &request);
}

fn query(users: QuotaUsers<'_>) -> QueryQuotaInfo<'_> {
    QueryQuotaInfo { return_single: false, restart_scan: false, users }
}

/// Answers the query that the store gets next, and returns it.
#[track_caller]
fn store_tells(scene: &mut Scene, uids: &[u32]) -> QuotaQuery {
    let (id, op) = scene.op();
    let ObjectOp::Quotas { op: QuotaOp::Query(query), .. } = op else { panic!("{op:?}") };
    scene.reply(id, Ok(quotas(uids)));
    query
}

fn listed(answer: &Answer) -> Vec<FileQuotaInformation> {
    let list = super::output(answer);
    QuotaList(&list).iter().map(|it| it.expect("whole")).collect()
}

fn uids(answer: &Answer) -> Vec<u64> {
    listed(answer).iter().map(|it| it.quota_used).collect()
}

#[test]
fn users_of_a_list_are_told_with_their_limits() {
    let mut scene = Scene::new();
    let file_id = scene.open("file");
    let list = list_of([7, 8]);
    send(&mut scene, file_id, query(QuotaUsers::Listed(&list)), 0x1_0000);
    let asked = store_tells(&mut scene, &[7, 8]);
    assert_eq!(asked, QuotaQuery::Named(vec![Sid::unix_user(7), Sid::unix_user(8)]));
    let answer = scene.receive().expect("the store has told them");
    assert_eq!(answer.status(), NtStatus::SUCCESS);
    let first = &listed(&answer)[0];
    assert_eq!((&first.sid, first.quota_used), (&Sid::unix_user(7), 7));
    assert_eq!(first.quota_threshold, FileQuotaInformation::NO_LIMIT);
    assert_eq!(first.quota_limit, MIB);
    assert_eq!(uids(&answer), [7, 8]);
}

#[test]
fn a_scan_goes_on_behind_its_last_user_and_ends() {
    let mut scene = Scene::new();
    let file_id = scene.open("file");
    let scan = |scene: &mut Scene, restart_scan, told: &[u32]| {
        let query = QueryQuotaInfo { restart_scan, ..query(QuotaUsers::All) };
        // Room for two entries of 56 bytes.
        send(scene, file_id, query, 112);
        let QuotaQuery::Scan { start: QuotaStart::Uid(start), count_max } =
            store_tells(scene, told)
        else {
            panic!("it is a scan")
        };
        assert!(count_max >= 2);
        (start, scene.receive().expect("the store has told them"))
    };
    let (start, answer) = scan(&mut scene, false, &[0, 5, 9]);
    assert_eq!((start, uids(&answer), answer.status()), (0, vec![0, 5], NtStatus::SUCCESS));
    let (start, answer) = scan(&mut scene, false, &[9]);
    assert_eq!((start, uids(&answer)), (6, vec![9]));
    let (start, answer) = scan(&mut scene, false, &[]);
    assert_eq!((start, answer.outcome()), (10, Reason::NoMoreQuotas.into()));
    let (start, answer) = scan(&mut scene, true, &[u32::MAX]);
    assert_eq!((start, uids(&answer)), (0, vec![u32::MAX.into()]));
    send(&mut scene, file_id, query(QuotaUsers::All), 112);
    let answer = scene.receive().expect("there can be no further user");
    assert_eq!(answer.outcome(), Reason::NoMoreQuotas);
}

#[test]
fn a_scan_may_begin_with_a_user_and_return_a_single_one() {
    let mut scene = Scene::new();
    let file_id = scene.open("file");
    let mut sid = Vec::new();
    Sid::unix_user(5).encode(&mut sid);
    let single = QueryQuotaInfo { return_single: true, ..query(QuotaUsers::From(&sid)) };
    send(&mut scene, file_id, single, 0x1_0000);
    let asked = store_tells(&mut scene, &[5, 6]);
    let start = QuotaStart::Sid(Sid::unix_user(5));
    assert_eq!(asked, QuotaQuery::Scan { start, count_max: 1 });
    assert_eq!(uids(&scene.receive().expect("told")), [5]);
    send(&mut scene, file_id, query(QuotaUsers::All), 0x1_0000);
    let asked = store_tells(&mut scene, &[6]);
    assert!(matches!(asked, QuotaQuery::Scan { start: QuotaStart::Uid(6), .. }), "{asked:?}");
}

#[test]
fn a_list_that_does_not_fit_is_cut_with_buffer_overflow_and_one_entry_has_to_fit() {
    let list = list_of([7, 8]);
    for (room, status, count) in [
        (55, NtStatus::BUFFER_TOO_SMALL, 0),
        (56, NtStatus::BUFFER_OVERFLOW, 1),
        (111, NtStatus::BUFFER_OVERFLOW, 1),
        (112, NtStatus::SUCCESS, 2),
    ] {
        let mut scene = Scene::new();
        let file_id = scene.open("file");
        send(&mut scene, file_id, query(QuotaUsers::Listed(&list)), room);
        store_tells(&mut scene, &[7, 8]);
        let answer = scene.receive().expect("the store has told them");
        assert_eq!(answer.status(), status, "{room}");
        if count > 0 {
            assert_eq!(listed(&answer).len(), count, "{room}");
        }
    }
}

#[test]
fn input_that_is_no_query_of_quotas_is_refused() {
    let mut scene = Scene::new();
    let file_id = scene.open("file");
    let mut refused = |input: &[u8]| {
        let request =
            QueryInfoRequest { input_buffer: input, ..request(file_id, InfoType::QUOTA, 0) };
        super::ask(&mut scene, &request).reason
    };
    assert_eq!(refused(&[]), Reason::Malformed);
    assert_eq!(refused(&[0; 15]), Reason::Malformed);
    let encoded = |users| {
        let mut out = Vec::new();
        query(users).encode(&mut out);
        out
    };
    assert_eq!(refused(&encoded(QuotaUsers::From(&[1; 4]))), Reason::QuotaListInvalid);
    assert_eq!(refused(&encoded(QuotaUsers::Listed(&[1; 24]))), Reason::QuotaListInvalid);
    let many = list_of(0..1_025);
    assert_eq!(refused(&encoded(QuotaUsers::Listed(&many))), Reason::TooManyQuotaUsers);
}

/// Replies in place of the command; its question must have this subject.
#[track_caller]
fn command_tells(scene: &mut Scene, want: QuotaSubject, told: Option<ToldQuota>) {
    let (id, effect) = scene.server.poll_effect().expect("the command is asked");
    let Effect::FindQuota { subject, .. } = effect else { panic!("{effect:?}") };
    assert_eq!(subject, want);
    let id = id.expect("a request waits for it");
    scene.server.handle_reply(Default::default(), id, Reply::Quota(told));
}

fn told(uid: u32) -> Option<ToldQuota> {
    Some(ToldQuota { state: QuotaState::Enforced, quota: quota_of(uid) })
}

fn scene_with_command() -> (Scene, FileId) {
    let mut scene = Scene::new();
    let file_id = scene.open("file");
    scene.change_share(|share| share.quota_commands = QuotaCommands { get: true, set: true });
    (scene, file_id)
}

#[test]
fn a_command_tells_the_quota_of_each_user_that_the_store_has_found() {
    let (mut scene, file_id) = scene_with_command();
    let list = list_of([7, 8]);
    send(&mut scene, file_id, query(QuotaUsers::Listed(&list)), 0x1_0000);
    let (id, op) = scene.op();
    let ObjectOp::Quotas { op: QuotaOp::FindUsers { to_change, .. }, .. } = op else {
        panic!("{op:?}")
    };
    assert!(!to_change);
    scene.reply(id, Ok(ObjectReply::QuotaUsers(vec![user(7), user(8)])));
    command_tells(&mut scene, QuotaSubject::User(7), told(7));
    command_tells(&mut scene, QuotaSubject::User(8), told(8));
    assert_eq!(uids(&scene.receive().expect("told")), [7, 8]);

    send(&mut scene, file_id, query(QuotaUsers::Listed(&list)), 0x1_0000);
    let (id, _) = scene.op();
    scene.reply(id, Ok(ObjectReply::QuotaUsers(vec![user(7), user(8)])));
    command_tells(&mut scene, QuotaSubject::User(7), None);
    let answer = scene.receive().expect("it has failed");
    assert_eq!(answer.outcome(), Reason::QuotaCommandFailed);
}

#[test]
fn a_scan_of_a_command_has_the_requester_alone() {
    let (mut scene, file_id) = scene_with_command();
    send(&mut scene, file_id, query(QuotaUsers::All), 0x1_0000);
    let (id, op) = scene.op();
    let ObjectOp::Quotas { op: QuotaOp::FindUsers { sids, .. }, .. } = op else { panic!("{op:?}") };
    assert_eq!(sids, []);
    scene.reply(id, Ok(ObjectReply::QuotaUsers(vec![user(7)])));
    command_tells(&mut scene, QuotaSubject::User(7), told(7));
    assert_eq!(uids(&scene.receive().expect("told")), [7]);
    send(&mut scene, file_id, query(QuotaUsers::All), 0x1_0000);
    assert_eq!(scene.receive().expect("its end").outcome(), Reason::NoMoreQuotas);
}

#[test]
fn free_space_is_that_under_the_quota_that_a_command_tells() {
    for (told, units) in
        [(told(0), vec![256, 256, 1 << 27]), (None, vec![1 << 28, 1 << 26, 1 << 27])]
    {
        let (mut scene, file_id) = scene_with_command();
        let class = FsInformationClass::FULL_SIZE.0;
        scene.send(Command::QUERY_INFO, &request(file_id, InfoType::FILESYSTEM, class));
        let (id, _) = scene.op();
        scene.reply(id, Ok(ObjectReply::Volume(Box::new(super::volume()))));
        command_tells(&mut scene, QuotaSubject::Requester, told);
        let output = super::output(&scene.receive().expect("told"));
        let numbers = output.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
        assert_eq!(numbers.take(3).collect::<Vec<_>>(), units);
    }
}

#[test]
fn the_state_of_quotas_is_that_of_the_store_or_of_the_command() {
    let state = |answer: &Answer| {
        let control =
            FileFsControlInformation::decode(&super::output(answer)).expect("a structure");
        (control.file_system_control_flags, control.default_quota_limit)
    };
    let control = FsInformationClass::CONTROL.0;
    let no_limit = FileQuotaInformation::NO_LIMIT;
    for (of_store, flags) in
        [(QuotaState::Off, 0), (QuotaState::Tracked, 1), (QuotaState::Enforced, 2)]
    {
        let mut scene = Scene::new();
        let file_id = scene.open("file");
        scene.send(Command::QUERY_INFO, &request(file_id, InfoType::FILESYSTEM, control));
        let (id, op) = scene.op();
        assert!(matches!(op, ObjectOp::Quotas { op: QuotaOp::QueryState, .. }), "{op:?}");
        scene.reply(id, Ok(ObjectReply::QuotaState(of_store)));
        assert_eq!(state(&scene.receive().expect("told")), (flags, no_limit));
    }
    let mut scene = Scene::new();
    let file_id = scene.open("file");
    scene.send(Command::QUERY_INFO, &request(file_id, InfoType::FILESYSTEM, control));
    let (id, _) = scene.op();
    scene.reply(id, Err(NtStatus::NOT_SUPPORTED));
    assert_eq!(state(&scene.receive().expect("no quotas")), (0, no_limit));
    let (mut scene, file_id) = scene_with_command();
    scene.send(Command::QUERY_INFO, &request(file_id, InfoType::FILESYSTEM, control));
    command_tells(&mut scene, QuotaSubject::Defaults, told(0));
    assert_eq!(state(&scene.receive().expect("told")), (2, MIB));
}
