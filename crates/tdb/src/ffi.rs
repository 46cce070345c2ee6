//! The part of libtdb's interface that is used here: `tdb.h` of libtdb 1.3.17 and later.

use std::ffi::{c_char, c_int, c_uchar, c_uint, c_void};

/// `TDB_DATA`: bytes with another owner.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct TdbData {
    pub(super) dptr: *mut c_uchar,
    pub(super) dsize: usize,
}

/// `struct tdb_context`, known by its address only.
#[repr(C)]
pub(super) struct TdbContext {
    _opaque: [u8; 0],
}

/// `tdb_traverse_func`: a result other than zero ends the traverse.
pub(super) type Visit =
    unsafe extern "C" fn(*mut TdbContext, TdbData, TdbData, *mut c_void) -> c_int;

/// The parser of `tdb_parse_record`; the call returns its result.
pub(super) type Parse = unsafe extern "C" fn(TdbData, TdbData, *mut c_void) -> c_int;

// Flags of `tdb_store`.
pub(super) const TDB_REPLACE: c_int = 1;
pub(super) const TDB_INSERT: c_int = 2;

// Flags of `tdb_open`.
pub(super) const TDB_DEFAULT: c_int = 0;
pub(super) const TDB_CLEAR_IF_FIRST: c_int = 1;
pub(super) const TDB_NOMMAP: c_int = 8;
pub(super) const TDB_NOSYNC: c_int = 64;
pub(super) const TDB_SEQNUM: c_int = 128;
pub(super) const TDB_VOLATILE: c_int = 256;
pub(super) const TDB_ALLOW_NESTING: c_int = 512;
pub(super) const TDB_DISALLOW_NESTING: c_int = 1024;
pub(super) const TDB_INCOMPATIBLE_HASH: c_int = 2048;
pub(super) const TDB_MUTEX_LOCKING: c_int = 4096;

// `enum TDB_ERROR`.
pub(super) const TDB_SUCCESS: c_int = 0;
pub(super) const TDB_ERR_LOCK: c_int = 3;
pub(super) const TDB_ERR_OOM: c_int = 4;
pub(super) const TDB_ERR_EXISTS: c_int = 5;
pub(super) const TDB_ERR_NOLOCK: c_int = 6;
pub(super) const TDB_ERR_LOCK_TIMEOUT: c_int = 7;
pub(super) const TDB_ERR_NOEXIST: c_int = 8;
pub(super) const TDB_ERR_RDONLY: c_int = 10;

unsafe extern "C" {
    pub(super) fn tdb_open(
        name: *const c_char,
        hash_size: c_int,
        tdb_flags: c_int,
        open_flags: c_int,
        mode: libc::mode_t,
    ) -> *mut TdbContext;
    pub(super) fn tdb_reopen(tdb: *mut TdbContext) -> c_int;
    pub(super) fn tdb_close(tdb: *mut TdbContext) -> c_int;
    pub(super) fn tdb_error(tdb: *mut TdbContext) -> c_int;
    pub(super) fn tdb_fd(tdb: *mut TdbContext) -> c_int;
    pub(super) fn tdb_hash_size(tdb: *mut TdbContext) -> c_int;
    pub(super) fn tdb_runtime_check_for_robust_mutexes() -> bool;

    pub(super) fn tdb_chainlock(tdb: *mut TdbContext, key: TdbData) -> c_int;
    pub(super) fn tdb_chainlock_nonblock(tdb: *mut TdbContext, key: TdbData) -> c_int;
    pub(super) fn tdb_chainunlock(tdb: *mut TdbContext, key: TdbData) -> c_int;
    pub(super) fn tdb_fetch(tdb: *mut TdbContext, key: TdbData) -> TdbData;
    pub(super) fn tdb_parse_record(
        tdb: *mut TdbContext,
        key: TdbData,
        parser: Parse,
        private_data: *mut c_void,
    ) -> c_int;
    pub(super) fn tdb_store(
        tdb: *mut TdbContext,
        key: TdbData,
        value: TdbData,
        flag: c_int,
    ) -> c_int;
    pub(super) fn tdb_delete(tdb: *mut TdbContext, key: TdbData) -> c_int;
    pub(super) fn tdb_check(
        tdb: *mut TdbContext,
        check: Option<Parse>,
        private_data: *mut c_void,
    ) -> c_int;
    pub(super) fn tdb_lockall(tdb: *mut TdbContext) -> c_int;
    pub(super) fn tdb_unlockall(tdb: *mut TdbContext) -> c_int;
    pub(super) fn tdb_wipe_all(tdb: *mut TdbContext) -> c_int;
    pub(super) fn tdb_traverse_chain(
        tdb: *mut TdbContext,
        chain: c_uint,
        visit: Visit,
        private_data: *mut c_void,
    ) -> c_int;
}
