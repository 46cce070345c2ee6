//! Health of the membership, for `choro check --domain`.

use std::ffi::c_char;
use std::ptr::null;

use dtyp::Sid;

use super::table::DomainSid;
use super::{Connection, Owned, SIDS_MAX, SUCCESS, WinbindError, text};

impl Connection {
    /// Checks the machine's password with a controller, as `wbinfo -t` does.
    ///
    /// # Errors
    /// The controller knows another password, or does not answer.
    pub fn check_trust(&mut self) -> Result<(), WinbindError> {
        let mut error = Owned::null(self.functions);
        // SAFETY: the output is freed by its owner.
        let status = unsafe {
            (self.functions.wbcCtxCheckTrustCredentials)(self.handle, null(), &raw mut error.0)
        };
        if status == SUCCESS { Ok(()) } else { Err(self.error(status, error.get())) }
    }

    /// Returns the DNS name of the controller that winbindd uses.
    ///
    /// # Errors
    /// No controller answers.
    pub fn controller(&mut self) -> Result<String, WinbindError> {
        let mut error = Owned::null(self.functions);
        let mut controller = Owned::<c_char>::null(self.functions);
        // SAFETY: the outputs are freed by their owners.
        let status = unsafe {
            (self.functions.wbcCtxPingDc2)(
                self.handle,
                null(),
                &raw mut error.0,
                &raw mut controller.0,
            )
        };
        if status != SUCCESS {
            return Err(self.error(status, error.get()));
        }
        // SAFETY: the library's texts end with NUL.
        Ok(unsafe { text(controller.0) })
    }

    /// Returns the SIDs of a user's groups in the domain.
    ///
    /// # Errors
    /// winbindd knows no such user, or cannot ask.
    pub fn groups_of(&mut self, user: &Sid) -> Result<Vec<Sid>, WinbindError> {
        let user = DomainSid::of(user);
        let mut count = 0;
        let mut sids = Owned::<DomainSid>::null(self.functions);
        // SAFETY: the SID lives until the call returns; the output is freed by its owner.
        let status = unsafe {
            (self.functions.wbcCtxLookupUserSids)(
                self.handle,
                &raw const user,
                true,
                &raw mut count,
                &raw mut sids.0,
            )
        };
        if status != SUCCESS {
            return Err(self.error(status, None));
        }
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        if sids.0.is_null() || count > SIDS_MAX {
            return Ok(Vec::new());
        }
        // SAFETY: the library gives the number of the SIDs.
        let sids = unsafe { std::slice::from_raw_parts(sids.0, count) };
        Ok(sids.iter().filter_map(|sid| sid.to_sid()).collect())
    }
}
