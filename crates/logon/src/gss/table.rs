//! Functions and structures of libgssapi_krb5, from gssapi.h and gssapi_ext.h, and of libkrb5,
//! which comes with it, from krb5.h and profile.h.

use std::ffi::{c_char, c_int, c_long, c_void};

use crate::library::functions;

/// A credential, context or name: the library alone knows what is behind it.
pub(super) type Handle = *mut c_void;

// gss_buffer_desc.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Buffer {
    pub(super) len: usize,
    pub(super) value: *mut c_void,
}

// gss_buffer_set_desc.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct BufferSet {
    pub(super) count: usize,
    pub(super) elements: *mut Buffer,
}

// gss_OID_desc.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Oid {
    pub(super) len: u32,
    pub(super) content: *mut c_void,
}

// gss_OID_set_desc.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct OidSet {
    pub(super) count: usize,
    pub(super) elements: *mut Oid,
}

// gss_key_value_element_desc.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct CredStoreElement {
    pub(super) key: *const c_char,
    pub(super) value: *const c_char,
}

// gss_key_value_set_desc.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct CredStore {
    pub(super) count: u32,
    pub(super) elements: *mut CredStoreElement,
}

functions! {
    /// The functions that are used.
    Functions of "libgssapi_krb5.so.2" in "libgssapi-krb5-2" {
        gss_accept_sec_context: fn(
            *mut u32, *mut Handle, Handle, *const Buffer, *mut c_void, *mut Handle,
            *mut *mut Oid, *mut Buffer, *mut u32, *mut u32, *mut Handle,
        ) -> u32;
        gss_acquire_cred_from: fn(
            *mut u32, Handle, u32, *const OidSet, c_int, *const CredStore, *mut Handle,
            *mut *mut OidSet, *mut u32,
        ) -> u32;
        gss_delete_sec_context: fn(*mut u32, *mut Handle, *mut Buffer) -> u32;
        gss_display_name: fn(*mut u32, Handle, *mut Buffer, *mut *mut Oid) -> u32;
        gss_display_status: fn(
            *mut u32, u32, c_int, *const Oid, *mut u32, *mut Buffer,
        ) -> u32;
        gss_get_mic: fn(*mut u32, Handle, u32, *const Buffer, *mut Buffer) -> u32;
        gss_get_name_attribute: fn(
            *mut u32, Handle, *const Buffer, *mut c_int, *mut c_int, *mut Buffer,
            *mut Buffer, *mut c_int,
        ) -> u32;
        gss_import_name: fn(*mut u32, *const Buffer, *const Oid, *mut Handle) -> u32;
        gss_init_sec_context: fn(
            *mut u32, Handle, *mut Handle, Handle, *const Oid, u32, u32, *mut c_void,
            *const Buffer, *mut *mut Oid, *mut Buffer, *mut u32, *mut u32,
        ) -> u32;
        gss_inquire_sec_context_by_oid: fn(
            *mut u32, Handle, *const Oid, *mut *mut BufferSet,
        ) -> u32;
        gss_release_buffer: fn(*mut u32, *mut Buffer) -> u32;
        gss_release_buffer_set: fn(*mut u32, *mut *mut BufferSet) -> u32;
        gss_release_cred: fn(*mut u32, *mut Handle) -> u32;
        gss_release_name: fn(*mut u32, *mut Handle) -> u32;
        gss_verify_mic: fn(*mut u32, Handle, *const Buffer, *const Buffer, *mut u32) -> u32;
        krb5_free_context: fn(Handle);
        krb5_get_profile: fn(Handle, *mut Handle) -> i32;
        krb5_init_context: fn(*mut Handle) -> i32;
        profile_get_integer: fn(
            Handle, *const c_char, *const c_char, *const c_char, c_int, *mut c_int,
        ) -> c_long;
        profile_release: fn(Handle);
    }
}
