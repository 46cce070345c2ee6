use std::time::Duration;

use arbitration::records::Disconnected;
use arbitration::{
    Durability, DurabilityKind, FileKey, FileRecord, FileRecords, OpenEntry, OpenId, RecordsError,
    RequestedCaching, WorkersToNotify,
};

use super::super::tests::{KEY, OTHER, WORKER, ask, durability, remove_worker};
use super::{DISCONNECTED_OF_USER_MAX, FILES_PER_TURN_MAX, count_key, count_key_of_all};
use crate::MemoryFiles;
use crate::files::FileTable;
use crate::memory::MemoryTable;
use crate::table::Table;

const KEPT: Duration = Duration::from_secs(60);

fn user(number: u64) -> String {
    format!("S-1-5-21-{number}")
}

/// Adds opens to a file, connected to their worker.
fn enter(files: &FileTable<MemoryTable>, file: FileKey, owners: &[String]) {
    let enter = &mut |record: &mut FileRecord| {
        let id = ask(WORKER, 0, RequestedCaching::Nothing).id;
        record.admit(
            &mut ask(WORKER, 0, RequestedCaching::Nothing),
            None,
            &mut WorkersToNotify::default(),
        );
        // One client may not have that many opens, but several may.
        let one = record.opens.remove(0);
        for (number, owner) in (1..).zip(owners) {
            let durability = Durability {
                kind: DurabilityKind::Resilient,
                owner: owner.clone(),
                create_guid: dtyp::Guid(u128::from(number).to_le_bytes()),
                timeout: KEPT,
                ..durability()
            };
            let mut entry = one.clone();
            entry.id = OpenId { number, ..id };
            entry.facts.persistent = file.inode << 48 | number;
            entry.durability = Some(durability);
            record.opens.push(entry);
        }
        true
    };
    files.change(file, enter).expect("room");
}

fn opens(files: &FileTable<MemoryTable>) -> Vec<OpenEntry> {
    let mut opens = Vec::new();
    files.for_each(&mut |_, record| opens.extend(record.opens)).expect("readable");
    opens
}

/// Counts of disconnected opens: of all users together, and of one.
fn counted(tables: &MemoryFiles, owner: &str) -> (u32, u32) {
    let number = |key: &[u8]| tables.disconnected.get(key, super::number).expect("readable");
    (number(&count_key_of_all()).unwrap_or(0), number(&count_key(owner)).unwrap_or(0))
}

#[test]
fn thousands_of_disconnected_opens_cost_no_look_before_they_are_due_and_one_a_file_then() {
    let tables = MemoryFiles::default();
    let files = tables.handle();
    let owners: Vec<String> = (0..4_096).map(|number| user(number % 8)).collect();
    enter(&files, KEY, &owners);
    remove_worker(&files, WORKER, OTHER, Duration::ZERO).expect("readable");
    assert_eq!(opens(&files).len(), 4_096);
    let before = tables.files.visits();
    for seconds in (0..60).step_by(10) {
        files.scavenge(OTHER, Duration::from_secs(seconds)).expect("readable");
    }
    assert_eq!(tables.files.visits(), before, "nothing was due");
    files.scavenge(OTHER, KEPT).expect("readable");
    assert_eq!(tables.files.visits(), before + 1);
    assert_eq!(opens(&files), []);
    assert_eq!(tables.disconnected.len(), 0, "notes or numbers are left");
}

#[test]
fn files_that_are_due_are_looked_at_a_few_in_a_turn() {
    let tables = MemoryFiles::default();
    let files = tables.handle();
    for inode in 1..=40 {
        enter(&files, FileKey { device: 1, inode }, &[user(inode)]);
    }
    remove_worker(&files, WORKER, OTHER, Duration::ZERO).expect("readable");
    let mut turns = Vec::new();
    loop {
        let before = tables.files.visits();
        let has_more = files.scavenge(OTHER, KEPT).expect("readable").has_more;
        turns.push(tables.files.visits() - before);
        if !has_more {
            break;
        }
    }
    let most = FILES_PER_TURN_MAX as u64;
    assert_eq!(turns, [most, most, 40 - 2 * most]);
    assert_eq!(opens(&files), []);
}

#[test]
fn a_user_leaves_no_more_opens_than_their_part_and_another_user_still_can() {
    let tables = MemoryFiles::default();
    let files = tables.handle();
    let part = usize::try_from(DISCONNECTED_OF_USER_MAX).expect("few");
    let mut owners = vec![user(1); part + 10];
    owners.push(user(2));
    enter(&files, KEY, &owners);
    remove_worker(&files, WORKER, OTHER, Duration::ZERO).expect("readable");
    let left = opens(&files);
    assert!(left.iter().all(OpenEntry::is_disconnected));
    let of = |owner: String| {
        let is_own = |it: &&OpenEntry| it.durability.as_ref().is_some_and(|it| it.owner == owner);
        left.iter().filter(is_own).count()
    };
    assert_eq!((of(user(1)), of(user(2))), (part, 1));
    assert_eq!(
        counted(&tables, &user(1)),
        (DISCONNECTED_OF_USER_MAX + 1, DISCONNECTED_OF_USER_MAX)
    );
    // A reconnected open makes room for another.
    let at = |persistent, owner| Disconnected {
        persistent,
        file: KEY,
        create_guid: Default::default(),
        owner,
    };
    let put = |number: u64| files.put_disconnected(&at(number, user(1)), KEPT);
    assert_eq!(put(1), Err(RecordsError::Full));
    files.remove_disconnected(&at(left[0].facts.persistent, user(1)));
    assert_eq!((put(1), put(1), put(2)), (Ok(()), Ok(()), Err(RecordsError::Full)));
}

#[test]
fn a_number_that_a_killed_worker_has_left_wrong_is_set_right() {
    let tables = MemoryFiles::default();
    let files = tables.handle();
    enter(&files, KEY, &[user(1), user(1)]);
    remove_worker(&files, WORKER, OTHER, Duration::ZERO).expect("readable");
    for owner in [user(1), user(2)] {
        files.count_up(&count_key(&owner), u32::MAX).expect("room");
    }
    assert_eq!((counted(&tables, &user(1)), counted(&tables, &user(2))), ((2, 3), (2, 1)));
    files.scavenge(OTHER, Duration::ZERO).expect("readable");
    assert_eq!((counted(&tables, &user(1)), counted(&tables, &user(2))), ((2, 2), (2, 0)));
}

#[test]
fn an_open_that_is_kept_longer_than_its_note_says_is_noted_anew() {
    let tables = MemoryFiles::default();
    let files = tables.handle();
    enter(&files, KEY, &[user(1)]);
    remove_worker(&files, WORKER, OTHER, Duration::ZERO).expect("readable");
    let entry = opens(&files).remove(0);
    let at = Disconnected::of(&entry, KEY);
    files.put_disconnected(&at, Duration::ZERO).expect("it is there");
    let before = tables.files.visits();
    for _ in 0..2 {
        files.scavenge(OTHER, Duration::ZERO).expect("readable");
    }
    assert_eq!(tables.files.visits(), before + 1);
    assert_eq!(files.find_disconnected(at.persistent), Some(KEY));
    files.scavenge(OTHER, KEPT).expect("readable");
    assert_eq!((opens(&files), tables.disconnected.len()), (Vec::new(), 0));
}
