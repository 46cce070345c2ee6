//! Steps that a run may take in the folder.

use proptest::prelude::*;

/// Names that are used, few enough to be met again. Directories are made and inherit under them,
/// too.
pub(crate) const PATHS: [&str; 5] = ["f", "d", "d/f", "team/f", "team/d"];

/// The users, by number: A and B, and root.
pub(crate) const USERS: usize = 3;

/// Groups that a client names: see `folder`.
pub(crate) const GROUPS: usize = 5;

/// A list of a descriptor.
#[derive(Clone, Copy, Debug)]
pub(crate) enum List {
    /// The NULL DACL, which grants everything.
    Null,
    /// Everyone has full control of the object.
    Everyone,
    /// Everyone has all but execution, which is the owner's alone.
    Bait,
    /// One that no mode says: A has full control, everyone reads and may take it.
    Named,
    /// A list with the SID S-1-5-88-3-MODE.
    Mode(u32),
}

/// A descriptor that a client gives, in part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Given {
    pub(crate) owner: Option<usize>,
    pub(crate) group: Option<usize>,
    pub(crate) list: Option<List>,
    /// By SIDs of NFS, not those of Samba.
    pub(crate) nfs: bool,
}

/// Request of a client for a name.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    Copy { from: usize },
    Create { directory: bool, mode: Option<u32>, given: Option<Given> },
    Delete,
    Link { to: usize },
    Overwrite { supersede: bool },
    Rename { to: usize },
    SetBasic,
    SetSecurity(Given),
    WriteStream,
    Write,
}

/// One step of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// A request of a client, or a few.
    Client {
        user: usize,
        path: usize,
        posix: bool,
        act: Act,
    },
    /// An open stays, with the rights that were granted.
    Keep {
        user: usize,
        path: usize,
    },
    /// A change of a descriptor by one of these opens.
    SetKept {
        pick: usize,
        given: Given,
    },
    /// A local process, whose failure is its own affair.
    Chmod {
        user: usize,
        path: usize,
        mode: u32,
    },
    Chgrp {
        user: usize,
        path: usize,
        group: usize,
    },
}

/// Modes, with dangerous bits more often than others.
fn modes() -> impl Strategy<Value = u32> {
    prop_oneof![Just(0o2766), Just(0o6755), Just(0o4777), Just(0o2777), Just(0o766), 0_u32..=0o7777]
}

fn lists() -> impl Strategy<Value = List> {
    let modes = modes().prop_map(List::Mode);
    prop_oneof![
        1 => Just(List::Null),
        2 => Just(List::Everyone),
        2 => Just(List::Bait),
        1 => Just(List::Named),
        3 => modes
    ]
}

impl Given {
    fn any() -> impl Strategy<Value = Self> {
        let (owner, group) = (prop::option::of(0..USERS), prop::option::of(0..GROUPS));
        (owner, group, prop::option::of(lists()), any::<bool>())
            .prop_map(|(owner, group, list, nfs)| Self { owner, group, list, nfs })
    }
}

impl Act {
    fn any() -> impl Strategy<Value = Self> {
        let path = 0..PATHS.len();
        prop_oneof![
            1 => path.clone().prop_map(|from| Self::Copy { from }),
            6 => (any::<bool>(), prop::option::of(modes()), prop::option::of(Given::any()))
                .prop_map(|(directory, mode, given)| Self::Create { directory, mode, given }),
            1 => Just(Self::Delete),
            1 => path.clone().prop_map(|to| Self::Link { to }),
            1 => any::<bool>().prop_map(|supersede| Self::Overwrite { supersede }),
            1 => path.prop_map(|to| Self::Rename { to }),
            1 => Just(Self::SetBasic),
            8 => Given::any().prop_map(Self::SetSecurity),
            1 => Just(Self::WriteStream),
            1 => Just(Self::Write),
        ]
    }
}

impl Step {
    pub(crate) fn any() -> impl Strategy<Value = Self> {
        let (user, path) = (0..USERS, 0..PATHS.len());
        let named = (user, path);
        prop_oneof![
            8 => (named.clone(), any::<bool>(), Act::any())
                .prop_map(|((user, path), posix, act)| Self::Client { user, path, posix, act }),
            1 => named.clone().prop_map(|(user, path)| Self::Keep { user, path }),
            2 => (any::<usize>(), Given::any())
                .prop_map(|(pick, given)| Self::SetKept { pick, given }),
            2 => (named.clone(), modes())
                .prop_map(|((user, path), mode)| Self::Chmod { user, path, mode }),
            1 => (named, 0..GROUPS)
                .prop_map(|((user, path), group)| Self::Chgrp { user, path, group }),
        ]
    }
}
