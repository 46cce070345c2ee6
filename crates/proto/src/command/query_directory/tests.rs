//! QUERY_DIRECTORY, with the test in place of the store.

use dtyp::fscc::directory::decode_directory_list;
use dtyp::fscc::{DirectoryEntryFields, FileInformationClass};
use dtyp::name_expression::NameExpression;
use dtyp::{AccessMask, FileAttributes, NtStatus, utf16};
use model::request_id::RequestId;
use object::{DirectoryEntry, EntryDetail, FileIdentity, Metadata, ObjectOp, ObjectReply};
use testkit::Outcome;
use trace::Reason;
use wire::query_directory::{QueryDirectoryFlags, QueryDirectoryRequest, QueryDirectoryResponse};
use wire::{Command, FileId};

use crate::scene::{Answer, PIPES, Scene, TRANSACT_MAX};

const NONE: QueryDirectoryFlags = QueryDirectoryFlags::empty();
const SINGLE: QueryDirectoryFlags = QueryDirectoryFlags::RETURN_SINGLE_ENTRY;
const RESTART: QueryDirectoryFlags = QueryDirectoryFlags::RESTART_SCANS;
const REOPEN: QueryDirectoryFlags = QueryDirectoryFlags::REOPEN;
const CLASS: FileInformationClass = FileInformationClass::ID_BOTH_DIRECTORY;

const LONG: &str = "a longer name.text";
const SHORT: &str = "A12345~6.TEX";

/// An open directory, and the names in it.
struct Listing {
    scene: Scene,
    file_id: FileId,
    names: Vec<String>,
    /// Position of the store in the names.
    next: usize,
    /// Requests to the store so far: restart, detail and limit.
    asked: Vec<(bool, EntryDetail, u32)>,
}

/// Differences of one request from the usual one.
#[derive(Clone, Copy)]
struct Query<'p> {
    flags: QueryDirectoryFlags,
    pattern: &'p str,
    length: u32,
    class: FileInformationClass,
}

const ALL: Query<'static> = Query { flags: NONE, pattern: "*", length: 0x1_0000, class: CLASS };

impl Listing {
    fn of(names: &[&str]) -> Self {
        let names = [".", ".."].iter().chain(names).map(|name| (*name).to_owned()).collect();
        let mut scene = Scene::new();
        let file_id = scene.open_directory("directory");
        Self { scene, file_id, names, next: 0, asked: Vec::new() }
    }

    fn send(&mut self, query: Query<'_>) {
        let pattern = utf16::to_bytes(query.pattern);
        let request = QueryDirectoryRequest {
            file_information_class: query.class,
            flags: query.flags,
            file_index: 0,
            file_id: self.file_id,
            output_buffer_length: query.length,
            file_name: &pattern,
        };
        self.scene.send(Command::QUERY_DIRECTORY, &request);
    }

    /// Sends a request, and replies in place of the store until there is a response.
    fn query(&mut self, query: Query<'_>) -> Answer {
        self.send(query);
        loop {
            if let Some(answer) = self.scene.receive() {
                return answer;
            }
            let (id, op) = self.scene.op();
            self.serve(id, &op);
        }
    }

    fn serve(&mut self, id: Option<RequestId>, op: &ObjectOp) {
        let ObjectOp::ReadDirectory { restart, detail, entries_max, .. } = *op else {
            panic!("{op:?} does not list")
        };
        self.asked.push((restart, detail, entries_max));
        if restart {
            self.next = 0;
        }
        let count = usize::try_from(entries_max).expect("a small number");
        let batch = self.names.iter().enumerate().skip(self.next).take(count);
        let batch: Vec<_> = batch.map(|(index, name)| entry(index, name, detail)).collect();
        self.next += batch.len();
        self.scene.reply(id, Ok(ObjectReply::Entries(batch)));
    }

    #[track_caller]
    fn listed(&mut self, query: Query<'_>) -> Vec<String> {
        let answer = self.query(query);
        assert_eq!(answer.outcome(), NtStatus::SUCCESS);
        names(&answer, query.class)
    }

    #[track_caller]
    fn check(&mut self, query: Query<'_>, want: &[&str]) {
        assert_eq!(self.listed(query), want);
    }

    #[track_caller]
    fn refused(&mut self, query: Query<'_>, want: impl Into<Outcome>) {
        let want = want.into();
        assert_eq!(self.query(query).outcome(), want);
    }
}

fn entry(index: usize, name: &str, detail: EntryDetail) -> DirectoryEntry {
    let inode = 100 + u64::try_from(index).expect("a small number");
    let metadata = Metadata {
        identity: FileIdentity { device: 1, inode, birth: 1, stream: 0 },
        attributes: FileAttributes::ARCHIVE,
        ea_size: if detail == EntryDetail::MetadataAndEaSize { 12 } else { 0 },
        ..Metadata::default()
    };
    let metadata = (detail > EntryDetail::Name).then_some(metadata);
    // The store of these tests has a short name for one name only.
    let short_name = (name == LONG).then(|| SHORT.to_owned());
    DirectoryEntry { name: name.to_owned(), short_name, metadata, apple: None }
}

fn fields(answer: &Answer, class: FileInformationClass) -> Vec<DirectoryEntryFields<'static>> {
    let QueryDirectoryResponse { output_buffer } = answer.body();
    decode_directory_list(class, output_buffer).expect("whole entries")
}

fn names(answer: &Answer, class: FileInformationClass) -> Vec<String> {
    fields(answer, class).into_iter().map(|fields| fields.file_name.into_owned()).collect()
}

#[test]
fn the_dots_come_first_and_the_end_is_no_more_files() {
    let mut listing = Listing::of(&["a", "b"]);
    listing.check(ALL, &[".", "..", "a", "b"]);
    listing.refused(ALL, Reason::NoMoreEntries);
    listing.refused(ALL, Reason::NoMoreEntries);
}

#[test]
fn nothing_that_matches_is_no_such_file_at_first() {
    let mut listing = Listing::of(&["a"]);
    listing.refused(Query { pattern: "x*", ..ALL }, Reason::NoMatchingEntry);
    listing.check(Query { pattern: "a*", flags: REOPEN, ..ALL }, &["a"]);
    listing.refused(ALL, Reason::NoMoreEntries);
    // As for the first request of all.
    listing.refused(Query { pattern: "x*", flags: REOPEN, ..ALL }, Reason::NoMatchingEntry);
}

#[test]
fn the_pattern_is_that_of_the_request_that_began() {
    let mut listing = Listing::of(&["a1", "b", "A2"]);
    listing.check(Query { pattern: "a*", flags: SINGLE, ..ALL }, &["a1"]);
    listing.check(Query { pattern: "b", ..ALL }, &["A2"]);
    listing.check(Query { pattern: "", flags: RESTART, ..ALL }, &["a1", "A2"]);
    listing.check(Query { pattern: "b", flags: REOPEN, ..ALL }, &["b"]);
}

/// [MS-FSA] 2.1.5.6.3: a pattern may match either name, and the response has both.
#[test]
fn a_short_name_is_reported_and_matches() {
    for pattern in [LONG, SHORT, "a12345~?.tex", "*.text"] {
        let mut listing = Listing::of(&["other", LONG]);
        let answer = listing.query(Query { pattern, ..ALL });
        let entries = fields(&answer, CLASS);
        let names: Vec<_> = entries.iter().map(|it| (&*it.file_name, &*it.short_name)).collect();
        assert_eq!(names, [(LONG, SHORT)], "{pattern}");
    }
    let mut listing = Listing::of(&["other", LONG]);
    listing.refused(Query { pattern: "A12345~7.TEX", ..ALL }, Reason::NoMatchingEntry);
}

#[test]
fn an_empty_pattern_wants_all() {
    Listing::of(&["a"]).check(Query { pattern: "", ..ALL }, &[".", "..", "a"]);
}

#[test]
fn the_dots_are_matched_like_any_name() {
    Listing::of(&["..a", "b"]).check(Query { pattern: "..*", ..ALL }, &["..", "..a"]);
    Listing::of(&["a", "b"]).check(Query { pattern: "?", ..ALL }, &[".", "a", "b"]);
}

#[test]
fn a_single_entry_costs_no_more_than_one() {
    let mut listing = Listing::of(&["a"]);
    let single = Query { flags: SINGLE, ..ALL };
    for want in [".", "..", "a"] {
        listing.check(single, &[want]);
    }
    listing.refused(single, Reason::NoMoreEntries);
    assert!(listing.asked.iter().all(|(_, _, entries_max)| *entries_max == 1));
}

#[test]
fn entries_that_do_not_fit_come_with_the_next_request() {
    let many: Vec<String> = (0..500).map(|index| format!("file{index}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    for length in [130, 300, 1_000, 4_096] {
        let mut listing = Listing::of(&many);
        let mut listed = Vec::new();
        loop {
            let answer = listing.query(Query { length, ..ALL });
            if answer.status() == NtStatus::NO_MORE_FILES {
                break;
            }
            let QueryDirectoryResponse { output_buffer } = answer.body();
            assert!(output_buffer.len() <= usize::try_from(length).expect("small"));
            listed.extend(names(&answer, CLASS));
        }
        assert_eq!(listed, listing.names, "{length}");
    }
}

#[test]
fn an_answer_is_as_full_as_it_can_be() {
    let many: Vec<String> = (0..500).map(|index| format!("{index:03}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let mut listing = Listing::of(&many);
    let count = listing.listed(Query { length: 11_200, ..ALL }).len();
    // "." and ".." take 106 and 108 bytes, the others 110; each begins at a multiple of eight.
    assert_eq!(count, 100);
}

#[test]
fn a_large_directory_takes_few_batches() {
    let many: Vec<String> = (0..50_000).map(|index| format!("some longer name {index}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let mut listing = Listing::of(&many);
    let whole = Query { length: TRANSACT_MAX, ..ALL };
    // One credit covers only 64 KiB.
    listing.refused(whole, Reason::CreditChargeTooSmall);
    let mut count = 0;
    loop {
        let answer = listing.query(ALL);
        if answer.status() == NtStatus::NO_MORE_FILES {
            break;
        }
        count += names(&answer, CLASS).len();
    }
    assert_eq!(count, 50_002);
    assert!(listing.asked.len() < 300, "{}", listing.asked.len());
}

#[test]
fn a_buffer_below_the_fixed_part_is_a_length_mismatch() {
    let mut listing = Listing::of(&[]);
    listing.refused(Query { length: 103, ..ALL }, Reason::InformationBufferTooSmall);
    listing.refused(Query { length: 104, ..ALL }, Reason::EntryTooLong);
    // No entry is lost by that.
    listing.check(Query { length: 106, ..ALL }, &["."]);
}

#[test]
fn a_larger_class_continues_after_the_entries_of_a_smaller_one() {
    let mut listing = Listing::of(&["a", "b", "c"]);
    let names_only = Query { class: FileInformationClass::NAMES, length: 28, ..ALL };
    listing.check(names_only, &["."]);
    let answer = listing.query(ALL);
    let fields = fields(&answer, CLASS);
    let got: Vec<_> = fields.iter().map(|it| (&*it.file_name, it.file_id)).collect();
    assert_eq!(got, [("..", 0), ("a", 102), ("b", 103), ("c", 104)]);
    assert!(fields.iter().all(|it| it.ea_size == 12));
}

#[test]
fn the_store_is_asked_for_no_more_than_the_class_tells() {
    for (class, detail) in [
        (FileInformationClass::NAMES, EntryDetail::Name),
        (FileInformationClass::DIRECTORY, EntryDetail::Metadata),
        (FileInformationClass::FULL_DIRECTORY, EntryDetail::MetadataAndEaSize),
    ] {
        let mut listing = Listing::of(&[]);
        listing.check(Query { class, ..ALL }, &[".", ".."]);
        assert!(listing.asked.iter().all(|asked| asked.1 == detail), "{class:?}");
    }
}

#[test]
fn every_directory_class_is_reported() {
    for class in [1, 2, 3, 12, 37, 38, 60, 63, 78, 79, 80, 81] {
        let class = FileInformationClass(class);
        Listing::of(&["a"]).check(Query { class, ..ALL }, &[".", "..", "a"]);
    }
    for class in [0, 4, 18, 50, 99] {
        let class = FileInformationClass(class);
        Listing::of(&["a"]).refused(Query { class, ..ALL }, Reason::FileClassUnknown);
    }
}

#[test]
fn vetoed_names_are_not_shown() {
    let mut listing = Listing::of(&["desktop.ini", "secret", "a"]);
    let vetoed = ["s*", ".."].map(NameExpression::new);
    listing.scene.change_share(|share| share.veto_files = vetoed.to_vec());
    listing.check(ALL, &[".", "..", "desktop.ini", "a"]);
}

#[test]
fn a_batch_from_before_a_restart_is_not_listed() {
    let mut listing = Listing::of(&["a"]);
    // Two requests at once need the credits of an earlier response.
    listing.check(Query { flags: SINGLE, ..ALL }, &["."]);
    listing.send(ALL);
    listing.send(Query { flags: RESTART, ..ALL });
    let (first, second) = (listing.scene.op(), listing.scene.op());
    listing.serve(first.0, &first.1);
    listing.serve(second.0, &second.1);
    let mut listed = Vec::new();
    for _ in 0..2 {
        while listing.scene.server.inspect().globals.outbox.transmits.is_empty() {
            let (id, op) = listing.scene.op();
            listing.serve(id, &op);
        }
        let answer = listing.scene.receive().expect("one is there");
        if answer.status() == NtStatus::SUCCESS {
            listed.extend(names(&answer, CLASS));
        } else {
            assert_eq!(answer.outcome(), Reason::NoMoreEntries);
        }
    }
    assert_eq!(listed, [".", "..", "a"]);
}

#[test]
fn without_the_right_to_list_nothing_is_listed() {
    let mut listing = Listing::of(&["a"]);
    let access = AccessMask::FILE_ALL.difference(AccessMask::READ_DATA);
    listing.file_id = listing.scene.open_with("directory", access, true);
    listing.refused(ALL, Reason::AccessNotGranted);
}

#[test]
fn only_directories_are_listed() {
    let mut listing = Listing::of(&[]);
    listing.file_id = listing.scene.open("file");
    listing.refused(ALL, Reason::NotDirectory);
    let file_id = listing.scene.open_pipe("srvsvc");
    let request = QueryDirectoryRequest {
        file_information_class: CLASS,
        flags: NONE,
        file_index: 0,
        file_id,
        output_buffer_length: 4_096,
        file_name: &[],
    };
    let answer = listing.scene.ask_in(PIPES, Command::QUERY_DIRECTORY, &request);
    assert_eq!(answer.outcome(), Reason::NotDirectory);
}

#[test]
fn a_pattern_is_a_name_and_no_path() {
    let mut listing = Listing::of(&[]);
    for pattern in ["a\\*", "a/b"] {
        listing.refused(Query { pattern, ..ALL }, Reason::PatternInvalid);
    }
    let longest = "x".repeat(255);
    listing.refused(Query { pattern: &longest, ..ALL }, Reason::NoMatchingEntry);
    let longer = "x".repeat(256);
    listing.refused(Query { pattern: &longer, ..ALL }, Reason::PatternInvalid);
}
