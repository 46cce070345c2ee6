mod operations;
mod transports;

use std::cell::RefCell;
use std::sync::{Arc, Mutex};

use dtyp::{FileTime, Sid};

use super::INTERFACE;
use crate::handles::Handles;
use crate::interface::Environment;
use crate::ndr::Writer;
use crate::pdu::Fault;
use crate::{
    Caller, Catalogue, FileEntry, Outcome, Principal, ServerEntry, SessionEntry, ShareChange,
    ShareEntry, Task, TaskFailure, TreeConnectEntry,
};

const CONNECTION_ENUM: u16 = 8;
const FILE_ENUM: u16 = 9;
const FILE_GET_INFO: u16 = 10;
const FILE_CLOSE: u16 = 11;
const SESSION_ENUM: u16 = 12;
const SESSION_DEL: u16 = 13;
const SHARE_ADD: u16 = 14;
const SHARE_GET_INFO: u16 = 16;
const SHARE_ENUM: u16 = 15;
const SHARE_ENUM_STICKY: u16 = 36;
const SHARE_SET_INFO: u16 = 17;
const SHARE_DEL: u16 = 18;
const SERVER_SET_INFO: u16 = 22;

const ACCESS_DENIED: u32 = 5;
const NOT_SUPPORTED: u32 = 50;
const INVALID_LEVEL: u32 = 124;
const MORE_DATA: u32 = 234;

/// A server whose worker answers as `outcome`, and keeps the tasks.
struct House {
    outcome: Option<Outcome>,
    tasks: Mutex<Vec<Task>>,
}

impl House {
    fn new(outcome: Outcome) -> Self {
        Self { outcome: Some(outcome), tasks: Mutex::default() }
    }

    /// Calls an operation, as an administrator unless the user is `jo` or `guest`.
    fn call(&self, user: &str, opnum: u16, stub: &[u8]) -> Result<Vec<u8>, Fault> {
        self.calls(user).call(opnum, stub)
    }

    /// A pipe of a user.
    fn calls(&self, user: &str) -> Calls<'_> {
        let caller =
            Caller { user: user.to_owned(), is_guest: user == "guest", ..Caller::default() };
        Calls { house: self, caller, handles: Handles::default() }
    }

    fn tasks(&self) -> Vec<Task> {
        self.tasks.lock().expect("nothing panics while it is held").clone()
    }
}

/// Calls by one pipe, with its handles.
struct Calls<'a> {
    house: &'a House,
    caller: Caller,
    handles: Handles,
}

impl Calls<'_> {
    fn call(&mut self, opnum: u16, stub: &[u8]) -> Result<Vec<u8>, Fault> {
        let Self { house, caller, handles } = self;
        INTERFACE.call(opnum, stub, &mut Environment { catalogue: *house, caller, handles })
    }
}

impl Catalogue for House {
    fn shares(&self, _: &Caller) -> Arc<[ShareEntry]> {
        let (name, path) = ("films".to_owned(), "/srv/films".to_owned());
        [ShareEntry { name, path, offline_caching: 2, ..ShareEntry::default() }].into()
    }

    fn is_administrator(&self, caller: &Caller) -> bool {
        !matches!(caller.user.as_str(), "jo" | "guest")
    }

    fn share_security(&self, _: &str) -> Option<Vec<u8>> {
        Some(b"descriptor!".to_vec())
    }

    fn carry_out(&self, task: Task) -> Option<Outcome> {
        self.tasks.lock().expect("nothing panics while it is held").push(task);
        self.outcome.clone()
    }

    fn server(&self) -> ServerEntry {
        ServerEntry {
            name: "Choro".to_owned(),
            aliases: vec!["FILMS-PC".to_owned()],
            domain: "HOUSE".to_owned(),
            ..ServerEntry::default()
        }
    }

    fn domain_sid(&self) -> Sid {
        Sid::new(5, &[21, 1, 2, 3])
    }

    fn find_user(&self, _: &str) -> Option<Principal> {
        None
    }

    fn find_group(&self, _: &str) -> Option<Principal> {
        None
    }

    fn find_sid(&self, _: &Sid) -> Option<Principal> {
        None
    }

    fn now(&self) -> FileTime {
        FileTime::ZERO
    }
}

/// A stub that begins with a server's name, which is null.
struct Stub(RefCell<Writer>);

impl Stub {
    fn new() -> Self {
        let mut writer = Writer::default();
        writer.null();
        Self(RefCell::new(writer))
    }

    fn number(self, value: u32) -> Self {
        self.0.borrow_mut().u32(value);
        self
    }

    fn text(self, text: &str) -> Self {
        self.0.borrow_mut().string(text);
        self
    }

    fn unique_text(self, text: &str) -> Self {
        self.0.borrow_mut().referent();
        self.text(text)
    }

    fn bytes(self, bytes: &[u8]) -> Self {
        self.0.borrow_mut().bytes(bytes);
        self
    }

    /// Level, empty container, preferred length, and resume handle.
    fn enumeration(self, level: u32, preferred: u32, resume: u32) -> Vec<u8> {
        let container = self.number(level).number(level).number(1).number(0).number(0);
        container.number(preferred).number(1).number(resume).end()
    }

    fn end(self) -> Vec<u8> {
        self.0.into_inner().finish_status(dtyp::NtStatus(0xEEEE_EEEE))
    }
}

#[track_caller]
fn result(stub: Result<Vec<u8>, Fault>) -> u32 {
    let stub = stub.expect("no fault");
    u32::from_le_bytes(*stub.last_chunk().expect("a result"))
}

fn contains(stub: &[u8], text: &str) -> bool {
    let wanted = dtyp::utf16::to_bytes(text);
    stub.windows(wanted.len()).any(|it| it == wanted)
}

fn files() -> Outcome {
    let file = |id, path: &str, user: &str| FileEntry {
        id,
        permissions: FileEntry::READ,
        locks: 1,
        path: path.to_owned(),
        user: user.to_owned(),
    };
    Outcome::Files(vec![file(7, "C:\\srv\\A.txt", "anna"), file(9, "C:\\data\\b", "bob")])
}

#[test]
fn nobody_but_an_administrator_lists_or_changes_anything() {
    let share = Stub::new().text("films").number(0);
    let requests = [
        (CONNECTION_ENUM, Stub::new().unique_text("films").enumeration(1, u32::MAX, 0)),
        (FILE_ENUM, Stub::new().number(0).number(0).enumeration(3, u32::MAX, 0)),
        (FILE_GET_INFO, Stub::new().number(7).number(3).end()),
        (FILE_CLOSE, Stub::new().number(7).end()),
        (SESSION_ENUM, Stub::new().number(0).number(0).enumeration(10, u32::MAX, 0)),
        (SESSION_DEL, Stub::new().unique_text("\\\\pc").number(0).end()),
        (SHARE_ADD, add("new", "C:\\srv\\new")),
        (
            SHARE_SET_INFO,
            Stub::new().text("films").number(1006).number(1006).number(1).number(3).number(0).end(),
        ),
        (SHARE_DEL, share.end()),
        (SERVER_SET_INFO, Stub::new().number(101).end()),
    ];
    for (opnum, stub) in requests {
        let house = House::new(Outcome::Done);
        assert_eq!(result(house.call("jo", opnum, &stub)), ACCESS_DENIED, "{opnum}");
        assert_eq!(house.tasks(), [], "{opnum}");
    }
}

#[test]
fn open_files_are_listed_by_user_and_path_and_closed_by_number() {
    let house = House::new(files());
    let list = |base: Option<&str>, user: Option<&str>| {
        let stub = Stub::new();
        let stub = base.map_or_else(|| Stub::new().number(0), |it| stub.unique_text(it));
        let stub = match user {
            Some(user) => stub.unique_text(user),
            None => stub.number(0),
        };
        house.call("anna", FILE_ENUM, &stub.enumeration(3, u32::MAX, 0)).expect("no fault")
    };
    let all = list(None, None);
    assert!(contains(&all, "A.txt") && contains(&all, "C:\\data\\b") && contains(&all, "bob"));
    let of_bob = list(None, Some("BOB"));
    assert!(!contains(&of_bob, "A.txt") && contains(&of_bob, "C:\\data\\b"));
    let below = list(Some("c:\\SRV"), None);
    assert!(contains(&below, "A.txt") && !contains(&below, "C:\\data\\b"));
    let one = house.call("anna", FILE_GET_INFO, &Stub::new().number(9).number(3).end());
    assert!(contains(&one.expect("no fault"), "C:\\data\\b"));
    let none = house.call("anna", FILE_GET_INFO, &Stub::new().number(8).number(3).end());
    assert_eq!(result(none), 2314);
    let unknown = Stub::new().number(0).number(0).enumeration(4, u32::MAX, 0);
    assert_eq!(result(house.call("anna", FILE_ENUM, &unknown)), INVALID_LEVEL);
    let house = House::new(Outcome::Done);
    assert_eq!(result(house.call("anna", FILE_CLOSE, &Stub::new().number(7).end())), 0);
    assert_eq!(house.tasks(), [Task::CloseFile(7)]);
}

#[test]
fn an_enumeration_goes_on_where_its_resume_handle_says() {
    let house = House::new(files());
    let stub = Stub::new().number(0).number(0).enumeration(3, 1, 0);
    let first = house.call("anna", FILE_ENUM, &stub).expect("no fault");
    assert!(contains(&first, "A.txt") && !contains(&first, "C:\\data\\b"));
    assert_eq!(result(Ok(first)), MORE_DATA);
    let stub = Stub::new().number(0).number(0).enumeration(3, 1, 1);
    let second = house.call("anna", FILE_ENUM, &stub).expect("no fault");
    assert!(!contains(&second, "A.txt") && contains(&second, "C:\\data\\b"));
    assert_eq!(result(Ok(second)), 0);
}

#[test]
fn sessions_are_listed_in_every_level_and_ended_by_client_or_user() {
    let session = |client: &str, user: &str| SessionEntry {
        client: client.to_owned(),
        user: user.to_owned(),
        ..SessionEntry::default()
    };
    let house = House::new(Outcome::Sessions(vec![session("pc", "anna"), session("mac", "bob")]));
    for level in [0, 1, 2, 10, 502] {
        let stub = Stub::new().unique_text("\\\\PC").number(0).enumeration(level, u32::MAX, 0);
        let listed = house.call("anna", SESSION_ENUM, &stub).expect("no fault");
        assert!(contains(&listed, "pc") && !contains(&listed, "mac"), "{level}");
        assert_eq!(result(Ok(listed)), 0, "{level}");
    }
    let house = House::new(Outcome::Failed(TaskFailure::NoSuchSession));
    let neither = Stub::new().number(0).number(0).end();
    assert_eq!(result(house.call("anna", SESSION_DEL, &neither)), 87);
    let of_user = Stub::new().unique_text("\\\\pc").unique_text("bob").end();
    assert_eq!(result(house.call("anna", SESSION_DEL, &of_user)), 2312);
    let (client, user) = (Some("pc".to_owned()), Some("bob".to_owned()));
    assert_eq!(house.tasks(), [Task::CloseSessions { client, user }]);
}

#[test]
fn tree_connects_are_listed_by_share_or_by_client() {
    let entry = TreeConnectEntry {
        share: "films".to_owned(),
        client: "pc".to_owned(),
        user: "bob".to_owned(),
        ..TreeConnectEntry::default()
    };
    let house = House::new(Outcome::TreeConnects(vec![entry]));
    for (qualifier, shown) in [("Films", "pc"), ("\\\\PC", "films")] {
        let stub = Stub::new().unique_text(qualifier).enumeration(1, u32::MAX, 0);
        let listed = house.call("anna", CONNECTION_ENUM, &stub).expect("no fault");
        assert!(contains(&listed, shown) && contains(&listed, "bob"), "{qualifier}");
    }
    let other = Stub::new().unique_text("other").enumeration(1, u32::MAX, 0);
    assert!(!contains(&house.call("anna", CONNECTION_ENUM, &other).expect("no fault"), "bob"));
}

/// SHARE_INFO_502 with a descriptor of three bytes.
fn add(name: &str, path: &str) -> Vec<u8> {
    let fixed = Stub::new().number(502).number(502).number(1);
    let fixed = fixed.number(1).number(0).number(1).number(0).number(5).number(0).number(1);
    let fixed = fixed.number(0).number(3).number(1);
    let texts = fixed.text(name).text("Old ones").text(path);
    texts.number(3).bytes(b"sec").number(1).number(0).end()
}

#[test]
fn a_share_is_added_with_the_path_of_the_host_and_its_descriptor() {
    let house = House::new(Outcome::Done);
    let added = house.call("anna", SHARE_ADD, &add("films", "C:\\srv\\films")).expect("no fault");
    // ParmErr was passed, and comes back.
    assert_eq!(added.len(), 12);
    assert_eq!(result(Ok(added)), 0);
    let change = ShareChange {
        comment: Some("Old ones".to_owned()),
        path: Some("/srv/films".to_owned()),
        max_users: Some(5),
        offline_caching: None,
        security: Some(b"sec".to_vec()),
    };
    assert_eq!(house.tasks(), [Task::AddShare { name: "films".to_owned(), change }]);
    let failing = House::new(Outcome::Failed(TaskFailure::DuplicateShare));
    assert_eq!(result(failing.call("anna", SHARE_ADD, &add("a", "/b"))), 2118);
}

#[test]
fn each_level_changes_its_own_properties() {
    let change = ShareChange::default;
    let texts = |text: &str| Some(text.to_owned());
    let level = |level| Stub::new().text("films").number(level).number(level).number(1);
    for (stub, wanted) in [
        (level(1004).number(1).text("new"), ShareChange { comment: texts("new"), ..change() }),
        (level(1004).number(0), change()),
        (level(1005).number(0x31), ShareChange { offline_caching: Some(3), ..change() }),
        (level(1006).number(7), ShareChange { max_users: Some(7), ..change() }),
        (
            level(1501).number(4).number(1).number(4).bytes(b"desc"),
            ShareChange { security: Some(b"desc".to_vec()), ..change() },
        ),
        (
            level(1).number(0).number(0).number(1).text("new"),
            ShareChange { comment: texts("new"), ..change() },
        ),
    ] {
        let house = House::new(Outcome::Done);
        assert_eq!(result(house.call("anna", SHARE_SET_INFO, &stub.number(0).end())), 0);
        let name = "films".to_owned();
        assert_eq!(house.tasks(), [Task::ChangeShare { name, change: wanted }]);
    }
    let house = House::new(Outcome::Done);
    assert_eq!(
        result(house.call("anna", SHARE_SET_INFO, &level(1007).number(0).end())),
        INVALID_LEVEL
    );
    let cut = level(1501).number(400).number(1).number(400).bytes(b"desc").end();
    assert_eq!(house.call("anna", SHARE_SET_INFO, &cut), Err(Fault::BadStub));
    assert_eq!(house.tasks(), []);
}

#[test]
fn only_administrators_learn_descriptors_of_shares() {
    let house = House::new(Outcome::Done);
    for level in [502, 503, 1501] {
        let stub = Stub::new().text("films").number(level).end();
        let told = house.call("anna", SHARE_GET_INFO, &stub).expect("no fault");
        assert!(told.windows(11).any(|it| it == b"descriptor!"), "{level}");
        let told = house.call("jo", SHARE_GET_INFO, &stub).expect("no fault");
        assert!(!told.windows(11).any(|it| it == b"descriptor!"), "{level}");
        assert_eq!(result(Ok(told)), ACCESS_DENIED, "{level}");
    }
    let stub = Stub::new().text("films").number(1005).end();
    let flags = house.call("jo", SHARE_GET_INFO, &stub).expect("no fault");
    assert_eq!(flags[8..12], 0x20_u32.to_le_bytes());
}

#[test]
fn each_list_of_shares_has_its_levels_and_most_are_for_administrators() {
    let house = House::new(Outcome::Done);
    for (opnum, level, of_all, of_administrators) in [
        (SHARE_ENUM, 0, 0, 0),
        (SHARE_ENUM, 1, 0, 0),
        (SHARE_ENUM, 2, ACCESS_DENIED, 0),
        (SHARE_ENUM, 501, ACCESS_DENIED, 0),
        (SHARE_ENUM, 502, ACCESS_DENIED, 0),
        (SHARE_ENUM, 1005, INVALID_LEVEL, INVALID_LEVEL),
        (SHARE_ENUM_STICKY, 1, 0, 0),
        (SHARE_ENUM_STICKY, 501, INVALID_LEVEL, INVALID_LEVEL),
        (SHARE_ENUM_STICKY, 502, ACCESS_DENIED, 0),
    ] {
        let stub = Stub::new().enumeration(level, u32::MAX, 0);
        assert_eq!(result(house.call("jo", opnum, &stub)), of_all, "{opnum} {level}");
        assert_eq!(result(house.call("anna", opnum, &stub)), of_administrators, "{opnum} {level}");
    }
}

#[test]
fn a_task_that_nobody_carries_out_is_not_supported() {
    let house = House { outcome: None, tasks: Mutex::default() };
    let stub = Stub::new().text("films").number(0).end();
    assert_eq!(result(house.call("anna", SHARE_DEL, &stub)), NOT_SUPPORTED);
    let stub = Stub::new().number(101).end();
    assert_eq!(result(house.call("anna", SERVER_SET_INFO, &stub)), NOT_SUPPORTED);
    assert_eq!(result(house.call("jo", SERVER_SET_INFO, &stub)), ACCESS_DENIED);
}
