//! Functions and structures of libwbclient, from wbclient.h of version 0.14 and later.

use std::ffi::{c_char, c_int, c_void};

use crate::library::functions;

/// struct wbcContext: the library alone knows what is behind it.
pub(super) type Handle = *mut c_void;

// struct wbcDomainSid.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct DomainSid {
    pub(super) revision: u8,
    pub(super) count: u8,
    pub(super) authority: [u8; 6],
    pub(super) subauthorities: [u32; 15],
}

// struct wbcSidWithAttr.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct SidWithAttributes {
    pub(super) sid: DomainSid,
    pub(super) attributes: u32,
}

// struct wbcAuthUserParams.
#[repr(C)]
pub(super) struct AuthUserParams {
    pub(super) account_name: *const c_char,
    pub(super) domain_name: *const c_char,
    pub(super) workstation_name: *const c_char,
    pub(super) flags: u32,
    pub(super) parameter_control: u32,
    pub(super) level: c_int,
    pub(super) password: Password,
}

/// The union in struct wbcAuthUserParams.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) union Password {
    pub(super) plaintext: *const c_char,
    pub(super) hash: [u8; 32],
    pub(super) response: Response,
    pub(super) pac: Blob,
}

/// The response in the union.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Response {
    pub(super) challenge: [u8; 8],
    pub(super) nt_len: u32,
    pub(super) nt_data: *mut u8,
    pub(super) lm_len: u32,
    pub(super) lm_data: *mut u8,
}

// struct wbcBlob.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Blob {
    pub(super) data: *mut u8,
    pub(super) len: usize,
}

// struct wbcAuthUserInfo.
#[repr(C)]
pub(super) struct AuthUserInfo {
    pub(super) user_flags: u32,
    pub(super) account_name: *mut c_char,
    pub(super) user_principal: *mut c_char,
    pub(super) full_name: *mut c_char,
    pub(super) domain_name: *mut c_char,
    pub(super) dns_domain_name: *mut c_char,
    pub(super) acct_flags: u32,
    pub(super) user_session_key: [u8; 16],
    pub(super) lm_session_key: [u8; 8],
    pub(super) logon_count: u16,
    pub(super) bad_password_count: u16,
    /// Logon, logoff, kickoff, and three times of the password.
    pub(super) times: [u64; 6],
    /// Server, script, profile path, home directory and drive.
    pub(super) texts: [*mut c_char; 5],
    pub(super) num_sids: u32,
    pub(super) sids: *mut SidWithAttributes,
}

// struct wbcAuthErrorInfo.
#[repr(C)]
pub(super) struct AuthErrorInfo {
    pub(super) nt_status: u32,
    pub(super) nt_string: *mut c_char,
    pub(super) pam_error: i32,
    pub(super) display_string: *mut c_char,
    pub(super) authoritative: u8,
}

// struct wbcInterfaceDetails.
#[repr(C)]
pub(super) struct InterfaceDetails {
    pub(super) interface_version: u32,
    pub(super) winbind_version: *mut c_char,
    pub(super) winbind_separator: c_char,
    pub(super) netbios_name: *mut c_char,
    pub(super) netbios_domain: *mut c_char,
    pub(super) dns_domain: *mut c_char,
}

// struct wbcUnixId.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct UnixId {
    pub(super) kind: c_int,
    pub(super) id: u32,
}

functions! {
    /// The functions that are used.
    Functions of "libwbclient.so.0" in "libwbclient0" {
        wbcCtxCreate: fn() -> Handle;
        wbcCtxFree: fn(Handle);
        wbcCtxAuthenticateUserEx: fn(
            Handle, *const AuthUserParams, *mut *mut AuthUserInfo, *mut *mut AuthErrorInfo,
        ) -> c_int;
        wbcCtxCheckTrustCredentials: fn(
            Handle, *const c_char, *mut *mut AuthErrorInfo,
        ) -> c_int;
        wbcCtxGetpwsid: fn(Handle, *mut DomainSid, *mut *mut libc::passwd) -> c_int;
        wbcCtxInterfaceDetails: fn(Handle, *mut *mut InterfaceDetails) -> c_int;
        wbcCtxLookupName: fn(
            Handle, *const c_char, *const c_char, *mut DomainSid, *mut c_int,
        ) -> c_int;
        wbcCtxLookupSid: fn(
            Handle, *const DomainSid, *mut *mut c_char, *mut *mut c_char, *mut c_int,
        ) -> c_int;
        wbcCtxLookupUserSids: fn(
            Handle, *const DomainSid, bool, *mut u32, *mut *mut DomainSid,
        ) -> c_int;
        wbcCtxPingDc2: fn(
            Handle, *const c_char, *mut *mut AuthErrorInfo, *mut *mut c_char,
        ) -> c_int;
        wbcCtxSidsToUnixIds: fn(Handle, *const DomainSid, u32, *mut UnixId) -> c_int;
        wbcErrorString: fn(c_int) -> *const c_char;
        wbcFreeMemory: fn(*mut c_void);
    }
}
