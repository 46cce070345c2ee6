//! Operations that fail on request of a test.

use dtyp::NtStatus;
use object::ObjectOp;

use super::MemoryStore;

macro_rules! op_kinds {
    ($($name:ident,)*) => {
        /// Kinds of operations of a store.
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        pub enum OpKind {
            $(#[doc = concat!("`ObjectOp::", stringify!($name), "`.")] $name,)*
        }

        impl OpKind {
            /// Returns the kind of an operation.
            #[must_use]
            pub fn of(op: &ObjectOp) -> Self {
                match op {
                    $(ObjectOp::$name { .. } => Self::$name,)*
                }
            }
        }
    };
}

op_kinds! {
    Open, Overwrite, Close, CloseAndUnlinkFile, Read, Write, Flush, QueryMetadata, SetBasic,
    SetEndOfFile, SetAllocation, FindReferral,
    Rename, Link, ReadDirectory, IsEmpty, ListStreams, ReadExtendedAttributes,
    WriteExtendedAttributes, ReadSecurity, WriteSecurity, QueryVolume, ZeroRange, AllocatedRanges,
    SetSparse, CopyRange, CopyStreams, DuplicateExtents, SetCompression, Trim, Relocate,
    ListSnapshots, ReadReparsePoint, WriteReparsePoint, DeleteReparsePoint, Lookup,
    QueryShortName, Lock, Unlock, Claim, EndLease, Quotas,
}

/// A failure that a test has requested.
#[derive(Debug)]
pub(super) struct Fault {
    kind: Option<OpKind>,
    /// Number of matching operations that succeed before it.
    skip: u64,
    status: NtStatus,
}

impl MemoryStore {
    /// Makes the `nth` operation from now (the next is 0) fail, of any kind.
    pub fn fail_nth(&mut self, nth: u64, status: NtStatus) {
        self.faults.push(Fault { kind: None, skip: nth, status });
    }

    /// Makes the `nth` operation of a kind from now (the next is 0) fail.
    pub fn fail_nth_of(&mut self, kind: OpKind, nth: u64, status: NtStatus) {
        self.faults.push(Fault { kind: Some(kind), skip: nth, status });
    }

    pub(super) fn take_fault(&mut self, kind: OpKind) -> Option<NtStatus> {
        let mut due = None;
        for (index, fault) in self.faults.iter_mut().enumerate() {
            if fault.kind.is_some_and(|wanted| wanted != kind) {
                continue;
            }
            match fault.skip.checked_sub(1) {
                Some(skip) => fault.skip = skip,
                None => due = due.or(Some(index)),
            }
        }
        due.map(|index| self.faults.remove(index).status)
    }
}
