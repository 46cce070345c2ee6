//! Requirements of smbtorture's tests: those that apply to a server, their share, options and time
//! limits.
//!
//! A pattern is the name of a test, or its beginning with a `*` behind it. In each table the first
//! matching pattern counts.

use super::{OTHER_USER, PASSWORD};

/// A share for tests that need another than the plain one of their suite.
#[derive(Clone, Copy, Debug)]
pub struct SpecialShare {
    pub name: &'static str,
    /// Lines of its section; `%FOLDER` stands for its folder.
    pub lines: &'static str,
}

/// Tests that say nothing about this server, and why.
const NOT_RUN: [(&str, &str); 27] = [
    ("smb2.bench.*", "a benchmark"),
    ("smb2.create.bench-path-contention-shared", "a benchmark, which runs until it is stopped"),
    (
        "smb2.change_notify_disabled.*",
        "is for servers with `change notify = no`: see smbtorture_apart.rs",
    ),
    ("smb2.check-sharemode", "a tool to be used by hand"),
    ("smb2.durable-open-disconnect.*", "leaves a durable open behind for another program"),
    ("smb2.hold-oplock", "keeps an open for another program, for minutes"),
    ("smb2.hold-sharemode", "keeps an open for another program, for minutes"),
    ("smb2.kernel-oplocks.*", "runs beside the server, on its local files"),
    ("smb2.multichannel.bugs.bug_15346", "connects to port 445: see smbtorture_apart.rs"),
    ("smb2.oplock.bench*", "a benchmark"),
    ("smb2.rename.rename_dir_bench", "a benchmark"),
    ("smb2.samba3misc.*", "runs beside the server, on its local files"),
    ("smb2.scan.*", "tries all codes and has no opinion on the answers"),
    (
        "smb2.session-require-signing.*",
        "is for servers with `server signing = required`: see smbtorture_apart.rs",
    ),
    ("smb2.set-sparse-ioctl", "a tool to be used by hand"),
    ("smb2.timestamp_resolution.*", "is for file systems with times of whole seconds"),
    ("smb2.twrp.*", "is told the names of snapshots that a script has made"),
    ("smb2.zero-data-ioctl", "a tool to be used by hand"),
    // These reach their time limit without a delay.
    ("smb2.aio_delay.*", "is for a share on which every read and write takes two seconds"),
    ("smb2.compound_async.read_read", DELAYED),
    ("smb2.compound_async.write_write", DELAYED),
    ("smb2.create.path-length", "is to be run by hand"),
    ("smb2.lock.open-brlock-deadlock", "is told how long to wait for a lock of a cluster"),
    (
        "smb2.persistent-open-reconnect-contended.*",
        "takes up to eight minutes, or is for a cluster",
    ),
    ("smb2.durable-v2-regressions.*", "is driven by a script that makes a share fail"),
    ("smb2.persistent-open-failover.*", "is for a cluster"),
    ("vfs.unfruit.unconvert", "calls Samba's `net`"),
];

/// Reason for tests of `smbtorture_apart.rs`.
const DELAYED: &str = "is for a share on which every read and write takes two seconds";

/// Shares for single tests; all others are on one that is named like their suite.
const SHARES_OF_TESTS: [(&str, SpecialShare); 12] = [
    ("smb2.create.quota-fake-file", QUOTA),
    ("smb2.durable-v2-open.persistent-open-lease", AVAILABLE),
    ("smb2.durable-v2-open.persistent-open-oplock", AVAILABLE),
    ("smb2.getinfo.fsinfo", QUOTA),
    ("smb2.ioctl.dup_extents*", SpecialShare { name: CLONES_SHARE, lines: "" }),
    ("smb2.replay.replay5", AVAILABLE),
    ("smb2.acls-ignore-sysacl.*", WINDOWS_ACLS),
    // ACCESSBASED sees the same folder through a second share.
    ("smb2.acls-with-sysacl.*", SpecialShare { name: "acls", lines: "" }),
    ("smb2.persistent-open.directory-leaselevels-so*", SCALE_OUT),
    ("smb2.persistent-open.leaselevels_so", SCALE_OUT),
    ("smb2.persistent-open.*", FAILOVER),
    ("smb2.session.reauth4", WINDOWS_ACLS),
];

/// Share whose opens outlive the server.
const AVAILABLE: SpecialShare = SpecialShare {
    name: "available",
    lines: "continuous availability = yes\nsmb3 ca:max lease mask = RWH",
};

/// As that, announced as a cluster's of which one node serves it at a time.
const FAILOVER: SpecialShare = SpecialShare {
    name: "ca_fo_max_rwh",
    lines: "continuous availability = yes\nsmb3 share cap:CLUSTER = yes\n\
            smb3 ca:max lease mask = RWH",
};

/// As that, announced as a cluster's of which all nodes serve it.
const SCALE_OUT: SpecialShare = SpecialShare {
    name: "ca_so",
    lines: "continuous availability = yes\nsmb3 share cap:CLUSTER = yes\n\
            smb3 share cap:SCALE OUT = yes",
};

/// Share whose rights are those of Windows' lists alone.
const WINDOWS_ACLS: SpecialShare = SpecialShare {
    name: "windows_acls",
    lines: "vfs objects = acl_xattr\nacl_xattr:ignore system acls = yes\n\
            acl_xattr:default acl style = windows",
};

/// Share whose user sees all quotas.
const QUOTA: SpecialShare = SpecialShare { name: "quota", lines: "admin users = tester" };

/// Shares that tests connect to by themselves.
const SHARES_BY_NAME: [SpecialShare; 8] = [
    SpecialShare { name: DYNAMIC_SHARE, lines: "path = %FOLDER/%t" },
    // The folder of the suite `acls`, whose test looks at it in both ways.
    SpecialShare { name: "hideunread", lines: "path = %FOLDER/../acls\nhide unreadable = yes" },
    SpecialShare { name: FORBIDDEN_SHARE, lines: "" },
    SpecialShare { name: "ca_fo", lines: FAILOVER_OF_READS },
    SpecialShare { name: NO_APPLE, lines: "path = %FOLDER/../fruit\nvfs objects = streams_xattr" },
    SpecialShare {
        name: CONVERTING,
        lines: "path = %FOLDER/../fruit_conversion\nvfs objects = fruit streams_xattr",
    },
    SpecialShare { name: "fo", lines: "smb3 share cap:CLUSTER = yes" },
    SpecialShare {
        name: "so",
        lines: "smb3 share cap:CLUSTER = yes\nsmb3 share cap:SCALE OUT = yes",
    },
];

/// As `ca_fo_max_rwh`, with the leases that such a share has by default. The test removes its file
/// over the other share.
const FAILOVER_OF_READS: &str = "path = %FOLDER/../ca_fo_max_rwh\n\
    continuous availability = yes\nsmb3 share cap:CLUSTER = yes";

/// The share on a file system whose files can share blocks.
pub const CLONES_SHARE: &str = "clones";

/// The share of which each tree connect leads to another folder, named after the time.
pub const DYNAMIC_SHARE: &str = "dynamic_share";

/// The share that can be connected to, and nobody may enter its folder.
pub const FORBIDDEN_SHARE: &str = "noperm";

/// The folder of the suite `fruit` for other clients than Apple's.
const NO_APPLE: &str = "no_fruit";

/// The folder of the suite `fruit_conversion` for Apple's clients; its own share is for others.
const CONVERTING: &str = "converting_fruit";

/// A share for Apple's clients, with Samba's defaults.
const APPLE: &str = "vfs objects = fruit streams_xattr";

/// Share settings of the suites.
const SHARES_OF_SUITES: [(&str, &str); 14] = [
    ("acls_non_canonical", "acl flag inherited canonicalization = no"),
    ("create_no_streams", "named streams = no"),
    ("dosmode", "hide files = /hidefile/"),
    ("durable-open", DURABLE),
    ("durable-v2-delay", DURABLE),
    ("durable-v2-open", DURABLE),
    ("ea", "vfs objects = acl_xattr\nacl_xattr:security_acl_name = user.hackme"),
    ("replay", DURABLE),
    ("fruit", APPLE),
    ("fruit_conversion", "vfs objects = streams_xattr"),
    ("fruit_file_id", APPLE),
    ("fruit_netatalk", APPLE),
    (
        "fruit_timemachine",
        "vfs objects = fruit streams_xattr\nfruit:time machine = yes\n\
         fruit:time machine max size = 32K",
    ),
    ("fruit_validate_afpinfo", APPLE),
];

/// No local program can interfere, which is when Samba grants durable handles.
const DURABLE: &str = "kernel share modes = no\nkernel oplocks = no\nposix locking = no";

/// Additional options of smbtorture for some tests.
const OPTIONS: [(&str, &str); 6] = [
    // Two of them authenticate anew and expect that what is signed stays valid.
    ("smb2.notify.*", "--client-protection=sign"),
    ("smb2.oplock.*", "--client-protection=sign"),
    ("smb2.ea.*", "--option=torture:acl_xattr_name=hackme"),
    // A second share of the same folder.
    ("vfs.fruit.*", "--option=torture:share2=no_fruit"),
    ("vfs.fruit_netatalk.*", "--option=torture:share2=fruit_netatalk"),
    ("vfs.fruit_conversion.*", "--option=torture:share2=converting_fruit"),
];

/// Seconds that tests take because they wait for something that must not, or only late, happen.
///
/// They are no part of the quick run, and their limit is a multiple of this.
const SLOW: [(&str, u32); 26] = [
    ("smb2.compound_find.compound_find_close", 15),
    ("smb2.durable-v2-delay.durable_v2_reconnect_delay_msec", 12),
    ("smb2.dirlease.*", 20),
    ("smb2.durable-v2-open.keep-disconnected*", 8),
    ("smb2.durable-v2-open.purge-disconnected*", 45),
    ("smb2.durable-v2-open.reconnect-twice", 8),
    ("smb2.lease.break", 30),
    ("smb2.lease.rename_dir_openfile", 20),
    ("smb2.lease.lock1", 8),
    ("smb2.lease.oplock", 35),
    ("smb2.lease.timeout", 40),
    ("smb2.lease.v2_request", 10),
    ("smb2.maxfid", 40),
    ("smb2.multichannel.generic.*", 20),
    ("smb2.multichannel.leases.test4", 45),
    ("smb2.multichannel.leases.*", 10),
    ("smb2.multichannel.oplocks.test3*", 45),
    ("smb2.multichannel.oplocks.*", 10),
    ("smb2.notify.mask", 75),
    ("smb2.persistent-open.*", 20),
    ("smb2.oplock.batch22a", 40),
    ("smb2.replay.dhv2-pending1n-vs-violation*", 15),
    ("smb2.replay.dhv2-pending*", 8),
    ("smb2.secleak", 30),
    ("smb2.lease.breaking4", 10),
    ("smb2.timestamps.delayed-2write", 8),
];

/// Tests that run alone: they use up something of the server, or measure times closely.
const ALONE: [&str; 6] = [
    "smb2.credits.*",
    "smb2.dir.large-files",
    "smb2.lease.dynamic_share",
    "smb2.maxfid",
    "smb2.secleak",
    "smb2.timestamps.*",
];

/// Tests that go on over another connection without waiting for the interim response to a request.
/// On a busy processor the server's process that has the one connection is then overtaken by that
/// which has the other: of 30 runs beside three busy programs, 4 failed with Samba 4.17 and 6 here.
const HASTY: [&str; 1] = ["smb2.notify.basedir"];

/// Seconds that a test may take which is not slow by design; such ones take less than six.
const LIMIT_SECONDS: u32 = 45;

/// Factor for the time of a slow test over an idle machine.
const LIMIT_FACTOR: u32 = 3;

/// Why a test is not run at all.
pub fn not_run(test: &str) -> Option<&'static str> {
    find(&NOT_RUN, test)
}

/// The share that a test is run on.
pub fn share_of(test: &str) -> &str {
    find(&SHARES_OF_TESTS, test).map_or_else(|| super::suite_of(test), |share| share.name)
}

/// Names and lines of all shares that these tests need.
pub fn shares<'a>(tests: impl IntoIterator<Item = &'a str>) -> Vec<(&'a str, &'static str)> {
    let of_tests = SHARES_OF_TESTS.iter().map(|(_, share)| share);
    let special: Vec<&SpecialShare> = of_tests.chain(&SHARES_BY_NAME).collect();
    let mut shares: Vec<(&str, &str)> = Vec::new();
    for name in tests.into_iter().map(share_of).chain(SHARES_BY_NAME.iter().map(|s| s.name)) {
        if shares.iter().any(|(known, _)| *known == name) {
            continue;
        }
        let own = special.iter().find(|share| share.name == name).map(|share| share.lines);
        shares.push((name, own.or_else(|| find(&SHARES_OF_SUITES, name)).unwrap_or_default()));
    }
    shares
}

/// Options of smbtorture for one test.
pub fn options(test: &str) -> Vec<String> {
    let mut options = vec![
        "--target=samba3".to_owned(),
        "--option=torture:progress=no".to_owned(),
        format!("--option=torture:user2name={OTHER_USER}"),
        format!("--option=torture:user2password={PASSWORD}"),
    ];
    let own = OPTIONS.iter().filter(|(pattern, _)| fits(pattern, test));
    options.extend(own.map(|(_, option)| (*option).to_owned()));
    options
}

/// Seconds that a test takes by its own design, if that is long.
pub fn slow_seconds(test: &str) -> Option<u32> {
    find(&SLOW, test)
}

/// Seconds after which a test is ended.
pub fn limit_seconds(test: &str) -> u32 {
    slow_seconds(test).map_or(LIMIT_SECONDS, |seconds| LIMIT_SECONDS.max(seconds * LIMIT_FACTOR))
}

/// Has the client to pause after each message that it sends?
pub fn is_hasty(test: &str) -> bool {
    HASTY.iter().any(|pattern| fits(pattern, test))
}

/// Does it look at the server's files by itself?
pub fn is_local(test: &str) -> bool {
    test.starts_with("vfs.")
}

/// Must nothing else run at the same time?
pub fn runs_alone(test: &str) -> bool {
    ALONE.iter().any(|pattern| fits(pattern, test))
}

fn find<T: Copy>(table: &[(&str, T)], test: &str) -> Option<T> {
    table.iter().find(|(pattern, _)| fits(pattern, test)).map(|(_, value)| *value)
}

fn fits(pattern: &str, test: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == test, |beginning| test.starts_with(beginning))
}
