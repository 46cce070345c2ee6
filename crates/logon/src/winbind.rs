//! The domain, through Samba's winbindd: it has the machine's password, finds controllers, follows
//! trusts and gives ids to SIDs.
//!
//! A call may wait for a controller, for a minute if none answers.

mod membership;
mod names;
#[expect(non_snake_case, reason = "the library has these names")]
mod table;

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt;
use std::ptr::{null, null_mut};

use dtyp::{NtStatus, Sid};
use zeroize::{Zeroize, Zeroizing};

use crate::LibraryError;
use crate::gss::Pac;
pub use names::DomainName;
use table::{
    AuthErrorInfo, AuthUserInfo, AuthUserParams, Blob, DomainSid, Functions, Handle,
    InterfaceDetails, Password, Response, UnixId,
};

// The library.
#[derive(Clone, Copy, Debug)]
pub struct Winbind(Functions);

/// A connection to winbindd, for one thread at a time.
#[derive(Debug)]
pub struct Connection {
    functions: Functions,
    handle: Handle,
}

// SAFETY: a context of the library is a buffer and a socket, which belong to no thread;
// `&mut self` excludes other calls.
unsafe impl Send for Connection {}

/// An NTLM response for the domain, with the names as the client sent them: it covers them.
#[derive(Clone, Copy)]
pub struct NtlmResponse<'a> {
    // User name.
    pub user: &'a str,
    // Domain; may be empty.
    pub domain: &'a str,
    /// Name of the client machine.
    pub workstation: &'a str,
    // The server's challenge.
    pub challenge: [u8; 8],
    // NtChallengeResponse of [MS-NLMP] 2.2.1.3.
    pub nt_response: &'a [u8],
}

impl fmt::Debug for NtlmResponse<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NtlmResponse").field("user", &self.user).finish_non_exhaustive()
    }
}

/// A user whom the domain has verified.
#[derive(Debug)]
pub struct Verified {
    /// Short name of the domain.
    pub domain: String,
    // SID of the user.
    pub sid: Sid,
    /// SIDs of the groups, the primary one first.
    pub groups: Vec<Sid>,
    /// SessionBaseKey of an NTLM response.
    pub session_base_key: Zeroizing<[u8; 16]>,
}

/// A user as this system has it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SystemUser {
    // Name, such as `ADLAB\alice`.
    pub name: String,
    // User id.
    pub uid: u32,
    /// Id of the primary group.
    pub gid: u32,
}

/// Names of this member in the domain.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Details {
    /// NetBIOS name of this machine.
    pub netbios_name: String,
    /// Short name of the domain.
    pub netbios_domain: String,
    /// DNS name of the domain.
    pub dns_domain: String,
}

/// Why the domain gave no answer, or no.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum WinbindError {
    /// winbindd does not run, or has no connection to the domain.
    #[error("winbindd cannot be reached: {0}")]
    Unavailable(String),
    /// The domain refuses the user.
    #[error("the domain answers {status:?}")]
    Refused {
        // Reason of the domain.
        status: NtStatus,
        /// False if the domain does not know the user, who may be one of this machine.
        is_authoritative: bool,
    },
    /// The answer makes no sense, or the question had none.
    #[error("winbindd: {0}")]
    Other(String),
}

impl Winbind {
    /// Opens the library.
    ///
    /// # Errors
    /// It is missing, or too old.
    pub fn open() -> Result<Self, LibraryError> {
        Functions::open().map(Self)
    }

    /// Makes a connection, which is opened with the first question.
    ///
    /// # Errors
    /// There is no memory.
    pub fn connection(&self) -> Result<Connection, WinbindError> {
        // SAFETY: the function has no arguments.
        let handle = unsafe { (self.0.wbcCtxCreate)() };
        if handle.is_null() {
            return Err(WinbindError::Other("no memory for a connection".to_owned()));
        }
        Ok(Connection { functions: self.0, handle })
    }
}

impl Connection {
    /// Has an NTLM response checked by a controller of the user's domain.
    ///
    /// # Errors
    /// The response is wrong, or no controller answers.
    pub fn verify_response(
        &mut self,
        response: &NtlmResponse<'_>,
    ) -> Result<Verified, WinbindError> {
        let [user, domain, workstation] =
            [response.user, response.domain, response.workstation].map(CString::new);
        let (Ok(user), Ok(domain), Ok(workstation)) = (user, domain, workstation) else {
            let status = NtStatus::NO_SUCH_USER;
            return Err(WinbindError::Refused { status, is_authoritative: true });
        };
        let len = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let data = |bytes: &[u8]| bytes.as_ptr().cast_mut();
        let password = Password {
            response: Response {
                challenge: response.challenge,
                nt_len: len(response.nt_response),
                nt_data: data(response.nt_response),
                lm_len: 0,
                lm_data: null_mut(),
            },
        };
        self.authenticate(&AuthUserParams {
            account_name: user.as_ptr(),
            domain_name: domain.as_ptr(),
            workstation_name: workstation.as_ptr(),
            flags: 0,
            parameter_control: ALLOW_SERVER_TRUST_ACCOUNT | ALLOW_WORKSTATION_TRUST_ACCOUNT,
            level: LEVEL_RESPONSE,
            password,
        })
    }

    /// Returns the user of a PAC. winbindd does not verify it, and answers also where a PAC was
    /// changed: so it has to be a [`Pac`], which only a verified ticket has.
    ///
    /// # Errors
    /// winbindd does not run, or its configuration excludes the user's domain.
    pub fn user_of_pac(&mut self, pac: &Pac) -> Result<Verified, WinbindError> {
        let data = pac.as_bytes().as_ptr().cast_mut();
        let password = Password { pac: Blob { data, len: pac.as_bytes().len() } };
        self.authenticate(&AuthUserParams {
            account_name: null(),
            domain_name: null(),
            workstation_name: null(),
            flags: 0,
            parameter_control: 0,
            level: LEVEL_PAC,
            password,
        })
    }

    fn authenticate(&mut self, params: &AuthUserParams) -> Result<Verified, WinbindError> {
        let functions = self.functions;
        let (mut info, mut error) = (Owned::null(functions), Owned::null(functions));
        // SAFETY: what the parameters point to lives until the call returns; the outputs are freed
        // by their owners.
        let status = unsafe {
            (functions.wbcCtxAuthenticateUserEx)(
                self.handle,
                params,
                &raw mut info.0,
                &raw mut error.0,
            )
        };
        if status != SUCCESS {
            return Err(self.error(status, error.get()));
        }
        let info = info.get_mut().ok_or_else(|| WinbindError::Other("no answer".to_owned()))?;
        // The library frees its memory without erasing it.
        let session_base_key = Zeroizing::new(std::mem::take(&mut info.user_session_key));
        info.lm_session_key.zeroize();
        // A controller that takes unknown users for guests has proven nothing, and a key of zeros
        // is one that everybody knows.
        let has_known_key = params.level == LEVEL_RESPONSE && *session_base_key == [0; 16];
        if info.user_flags & USER_FLAGS_GUEST != 0 || has_known_key {
            let status = NtStatus::LOGON_FAILURE;
            return Err(WinbindError::Refused { status, is_authoritative: true });
        }
        let count = usize::try_from(info.num_sids).unwrap_or(usize::MAX);
        if count > SIDS_MAX {
            return Err(WinbindError::Other(format!("a user with more than {SIDS_MAX} SIDs")));
        }
        let sids = if info.sids.is_null() {
            &[][..]
        } else {
            // SAFETY: the library gives the number of the SIDs.
            unsafe { std::slice::from_raw_parts(info.sids, count) }
        };
        let (sid, groups) = user_and_groups(sids)?;
        Ok(Verified {
            // SAFETY: the library's texts end with NUL.
            domain: unsafe { text(info.domain_name) },
            sid,
            groups,
            session_base_key,
        })
    }

    /// Returns name and ids of a user of the domain.
    ///
    /// # Errors
    /// The user has no ids in this system, or winbindd does not run.
    pub fn system_user(&mut self, sid: &Sid) -> Result<SystemUser, WinbindError> {
        let mut sid = DomainSid::of(sid);
        let mut entry = Owned::<libc::passwd>::null(self.functions);
        // SAFETY: the SID lives until the call returns; the output is freed by its owner.
        let status =
            unsafe { (self.functions.wbcCtxGetpwsid)(self.handle, &raw mut sid, &raw mut entry.0) };
        if status != SUCCESS {
            return Err(self.error(status, None));
        }
        let entry = entry.get().ok_or_else(|| WinbindError::Other("no answer".to_owned()))?;
        // SAFETY: the library's texts end with NUL.
        let name = unsafe { text(entry.pw_name) };
        Ok(SystemUser { name, uid: entry.pw_uid, gid: entry.pw_gid })
    }

    /// Returns the group id of each SID; none for a SID without one, and for one whose id cannot be
    /// found out just now: winbindd does not tell them apart.
    ///
    /// # Errors
    /// winbindd does not run, or has failed.
    pub fn group_ids(&mut self, sids: &[Sid]) -> Result<Vec<Option<u32>>, WinbindError> {
        if sids.is_empty() {
            return Ok(Vec::new());
        }
        let sids: Vec<DomainSid> = sids.iter().map(DomainSid::of).collect();
        let count = u32::try_from(sids.len()).unwrap_or(u32::MAX);
        let mut ids = vec![UnixId::default(); sids.len()];
        // SAFETY: both lists have `count` elements and live until the call returns.
        let status = unsafe {
            (self.functions.wbcCtxSidsToUnixIds)(
                self.handle,
                sids.as_ptr(),
                count,
                ids.as_mut_ptr(),
            )
        };
        if status != SUCCESS {
            return Err(self.error(status, None));
        }
        Ok(ids.iter().map(|id| matches!(id.kind, ID_GID | ID_BOTH).then_some(id.id)).collect())
    }

    /// Asks a controller of the domain for a sign of life.
    ///
    /// # Errors
    /// No controller answers.
    pub fn ping_controller(&mut self) -> Result<(), WinbindError> {
        let functions = self.functions;
        let mut error = Owned::null(functions);
        let mut controller = Owned::<c_char>::null(functions);
        // SAFETY: the outputs are freed by their owners.
        let status = unsafe {
            (functions.wbcCtxPingDc2)(self.handle, null(), &raw mut error.0, &raw mut controller.0)
        };
        if status == SUCCESS { Ok(()) } else { Err(self.error(status, error.get())) }
    }

    /// Returns the names of this member.
    ///
    /// # Errors
    /// winbindd does not run.
    pub fn details(&mut self) -> Result<Details, WinbindError> {
        let mut details = Owned::<InterfaceDetails>::null(self.functions);
        // SAFETY: the output is freed by its owner.
        let status =
            unsafe { (self.functions.wbcCtxInterfaceDetails)(self.handle, &raw mut details.0) };
        if status != SUCCESS {
            return Err(self.error(status, None));
        }
        let details = details.get().ok_or_else(|| WinbindError::Other("no answer".to_owned()))?;
        // SAFETY: the library's texts end with NUL.
        let [netbios_name, netbios_domain, dns_domain] =
            [details.netbios_name, details.netbios_domain, details.dns_domain]
                .map(|it| unsafe { text(it) });
        Ok(Details { netbios_name, netbios_domain, dns_domain })
    }

    fn error(&self, status: c_int, info: Option<&AuthErrorInfo>) -> WinbindError {
        if status == AUTH_ERROR
            && let Some(info) = info
        {
            let (status, is_authoritative) = (NtStatus(info.nt_status), info.authoritative != 0);
            return match status {
                NtStatus::NO_LOGON_SERVERS | DOMAIN_CONTROLLER_NOT_FOUND | IO_TIMEOUT => {
                    WinbindError::Unavailable("no controller of the domain answers".to_owned())
                }
                _ => WinbindError::Refused { status, is_authoritative },
            };
        }
        // SAFETY: the function returns a constant text for any number.
        let reason = unsafe { text((self.functions.wbcErrorString)(status).cast_mut()) };
        match status {
            NOT_AVAILABLE => WinbindError::Unavailable(reason),
            _ => WinbindError::Other(reason),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: `Connection` owns the handle, and this is its last use.
        unsafe { (self.functions.wbcCtxFree)(self.handle) };
    }
}

impl DomainSid {
    fn of(sid: &Sid) -> Self {
        let mut subauthorities = [0; 15];
        let from = sid.subauthorities();
        subauthorities[..from.len()].copy_from_slice(from);
        let [_, _, authority @ ..] = sid.authority().to_be_bytes();
        let count = u8::try_from(from.len()).expect("at most 15");
        Self { revision: 1, count, authority, subauthorities }
    }

    fn to_sid(self) -> Option<Sid> {
        let [a0, a1, a2, a3, a4, a5] = self.authority;
        let authority = u64::from_be_bytes([0, 0, a0, a1, a2, a3, a4, a5]);
        let subauthorities = self.subauthorities.get(..usize::from(self.count))?;
        (self.revision == 1).then(|| Sid::new(authority, subauthorities))
    }
}

/// Returns the SIDs of a user and of its groups. The user is refused unless all groups can be kept:
/// entries that deny something to a group left out would not count.
fn user_and_groups(sids: &[table::SidWithAttributes]) -> Result<(Sid, Vec<Sid>), WinbindError> {
    let to_sid = |it: &table::SidWithAttributes| {
        it.sid
            .to_sid()
            .ok_or_else(|| WinbindError::Other(format!("a SID that is none: {:?}", it.sid)))
    };
    let (user, groups) = sids
        .split_first()
        .ok_or_else(|| WinbindError::Other("an answer without a SID".to_owned()))?;
    let groups = groups.iter().map(to_sid).collect::<Result<Vec<_>, _>>()?;
    if let Some(group) = sids.iter().find(|it| it.attributes & USE_FOR_DENY_ONLY != 0) {
        // No access check here knows such memberships, and the kernel's cannot.
        let reason = format!("{:?} counts for denials only, which is not supported", group.sid);
        return Err(WinbindError::Other(reason));
    }
    Ok((to_sid(user)?, groups))
}

// Memory of the library.
struct Owned<T>(*mut T, Functions);

impl<T> Owned<T> {
    fn null(functions: Functions) -> Self {
        Self(null_mut(), functions)
    }

    fn get(&self) -> Option<&T> {
        // SAFETY: null, or filled by the library and freed by `drop` alone.
        unsafe { self.0.as_ref() }
    }

    fn get_mut(&mut self) -> Option<&mut T> {
        // SAFETY: as for `get`; `&mut self` excludes other references.
        unsafe { self.0.as_mut() }
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: null, or memory of the library, which it counts by itself.
        unsafe { (self.1.wbcFreeMemory)(self.0.cast::<c_void>()) };
    }
}

/// Copies a text of the library; nothing for a null pointer.
///
/// # Safety
/// The pointer is null, or the text ends with NUL.
unsafe fn text(text: *mut c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

// WBC_AUTH_USER_LEVEL_RESPONSE.
const LEVEL_RESPONSE: c_int = 3;
// WBC_AUTH_USER_LEVEL_PAC.
const LEVEL_PAC: c_int = 4;
// WBC_MSV1_0_ALLOW_SERVER_TRUST_ACCOUNT.
const ALLOW_SERVER_TRUST_ACCOUNT: u32 = 0x20;
// WBC_MSV1_0_ALLOW_WORKSTATION_TRUST_ACCOUNT.
const ALLOW_WORKSTATION_TRUST_ACCOUNT: u32 = 0x800;
// WBC_SID_ATTR_GROUP_USEFOR_DENY_ONLY.
const USE_FOR_DENY_ONLY: u32 = 0x10;
/// WBC_AUTH_USER_INFO_GUEST: the controller took an unknown user for a guest.
const USER_FLAGS_GUEST: u32 = 1;
// WBC_ERR_SUCCESS.
const SUCCESS: c_int = 0;
// WBC_ERR_WINBIND_NOT_AVAILABLE.
const NOT_AVAILABLE: c_int = 6;
// WBC_ERR_AUTH_ERROR.
const AUTH_ERROR: c_int = 10;
// WBC_ID_TYPE_GID.
const ID_GID: c_int = 2;
// WBC_ID_TYPE_BOTH.
const ID_BOTH: c_int = 3;
// STATUS_DOMAIN_CONTROLLER_NOT_FOUND.
const DOMAIN_CONTROLLER_NOT_FOUND: NtStatus = NtStatus(0xC000_0233);
// STATUS_IO_TIMEOUT.
const IO_TIMEOUT: NtStatus = NtStatus::IO_TIMEOUT;
/// SIDs of an answer. Windows issues tickets with 1,024 at most; nested groups may add some.
const SIDS_MAX: usize = 65_536;

/// The structures are those of the library on 64-bit Linux.
const _: () = {
    assert!(size_of::<DomainSid>() == 68 && size_of::<table::SidWithAttributes>() == 72);
    assert!(size_of::<AuthUserParams>() == 80 && size_of::<AuthErrorInfo>() == 40);
    assert!(size_of::<AuthUserInfo>() == 184 && size_of::<UnixId>() == 8);
    assert!(size_of::<InterfaceDetails>() == 48);
};

#[cfg(test)]
mod tests {
    use super::*;

    fn member(sid: DomainSid, attributes: u32) -> table::SidWithAttributes {
        table::SidWithAttributes { sid, attributes }
    }

    #[test]
    fn a_user_with_a_group_that_cannot_be_kept_is_refused() {
        let [user, group] = [1_103, 513].map(|rid| Sid::new(5, &[21, 1, 2, 3, rid]));
        let [user_sid, group_sid] = [&user, &group].map(DomainSid::of);
        let good = [member(user_sid, 0), member(group_sid, 7)];
        assert_eq!(user_and_groups(&good), Ok((user, vec![group])));
        let other_revision = member(DomainSid { revision: 2, ..group_sid }, 7);
        let too_long = member(DomainSid { count: 16, ..group_sid }, 7);
        let denies_only = member(group_sid, USE_FOR_DENY_ONLY);
        for bad in [other_revision, too_long, denies_only] {
            let refused = user_and_groups(&[good[0], good[1], bad]).expect_err("a group is lost");
            assert!(matches!(refused, WinbindError::Other(_)), "{refused}");
        }
        user_and_groups(&[]).expect_err("there is no user");
    }

    #[test]
    fn sids_round_trip_through_the_library_s_form() {
        for sid in [Sid::new(5, &[21, 1, 2, 3, 1_103]), Sid::everyone(), Sid::new(22, &[])] {
            assert_eq!(DomainSid::of(&sid).to_sid(), Some(sid));
        }
        let mut wrong = DomainSid::of(&Sid::everyone());
        wrong.count = 16;
        assert_eq!(wrong.to_sid(), None);
        wrong = DomainSid { revision: 2, ..DomainSid::of(&Sid::everyone()) };
        assert_eq!(wrong.to_sid(), None);
    }
}
