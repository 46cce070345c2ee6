//! Descriptors that a library keeps open are noticed. Alone in its process: other tests open files,
//! too.

use std::fs::File;

use process::leaves_nothing_open;

#[test]
fn an_open_descriptor_is_noticed_and_a_closed_one_is_not() {
    let mut kept = Vec::new();
    let open = || File::open("/dev/null").expect("it is there");
    assert!(leaves_nothing_open(|| ()).expect("/proc is there"));
    assert!(leaves_nothing_open(|| drop(open())).expect("/proc is there"));
    assert!(!leaves_nothing_open(|| kept.push(open())).expect("/proc is there"));
    assert!(leaves_nothing_open(|| ()).expect("/proc is there"), "it was open before");
}
