//! Processes of idle priority and the locks of a table, for which users wait.

use std::thread;

use confinement::priority::{
    Priority, is_idle_priority, is_normal_priority, set_thread_priority, take_idle_priority,
};
use tdb::{Change, Tdb};

#[test]
fn a_thread_of_idle_priority_holds_locks_of_a_table_at_normal_priority() {
    let dir = tempfile::tempdir().expect("a folder");
    let table = Tdb::create(&dir.path().join("table.tdb"), 7).expect("a new file");
    let access = move || {
        take_idle_priority().expect("less is always allowed");
        if set_thread_priority(0, Priority::Normal).is_err() {
            // It may not return here.
            return Vec::new();
        }
        take_idle_priority().expect("less is always allowed");
        let store = |_: Option<&[u8]>| (Change::Store(b"value".to_vec()), is_normal_priority());
        let keep = |_: Option<&[u8]>| (Change::Keep, is_normal_priority());
        let mut seen = vec![
            table.with_record(b"key", store),
            table.try_with_record(b"key", keep),
            table.get(b"key", |_| is_normal_priority()).map(|it| it == Some(true)),
        ];
        let for_each = table.for_each(|_, _| seen.push(Ok(is_normal_priority())));
        seen.extend([for_each.map(|damaged| damaged == 0), Ok(is_idle_priority())]);
        seen.extend([table.insert(b"other", b"").map(|()| is_idle_priority())]);
        seen.extend([table.delete(b"other").map(|was_there| was_there && is_idle_priority())]);
        seen
    };
    let seen = thread::spawn(access).join().expect("it ends");
    assert!(seen.iter().all(|it| *it == Ok(true)), "{seen:?}");
    assert!(seen.is_empty() || seen.len() == 8, "{seen:?}");
}
