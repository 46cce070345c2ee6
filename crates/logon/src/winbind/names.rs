//! Names of SIDs and SIDs of names.

use std::ffi::{CString, c_char, c_int};

use dtyp::Sid;

use super::table::DomainSid;
use super::{Connection, NOT_AVAILABLE, Owned, SUCCESS, WinbindError, text};

/// A user, a group or a domain that winbindd knows.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DomainName {
    // SID_NAME_USE of [MS-LSAT] 2.2.13, whose values the library has.
    pub kind: u16,
    /// Short name of the domain.
    pub domain: String,
    /// Name within the domain, without it.
    pub name: String,
    // SID of the principal.
    pub sid: Sid,
}

impl Connection {
    /// Returns the name of a SID; none if the domain does not know it, or cannot be asked: winbindd
    /// does not tell them apart.
    ///
    /// # Errors
    /// winbindd does not run.
    pub fn name_of(&mut self, sid: &Sid) -> Result<Option<DomainName>, WinbindError> {
        let of = DomainSid::of(sid);
        let mut domain = Owned::<c_char>::null(self.functions);
        let mut name = Owned::<c_char>::null(self.functions);
        let mut kind: c_int = 0;
        // SAFETY: the SID lives until the call returns; the outputs are freed by their owners.
        let status = unsafe {
            (self.functions.wbcCtxLookupSid)(
                self.handle,
                &raw const of,
                &raw mut domain.0,
                &raw mut name.0,
                &raw mut kind,
            )
        };
        if !self.is_found(status)? {
            return Ok(None);
        }
        // SAFETY: the library's texts end with NUL.
        let [domain, name] = [domain.0, name.0].map(|it| unsafe { text(it) });
        Ok(known(kind, domain, name, sid.clone()))
    }

    /// Returns the SID of a name, as for [`Connection::name_of`]. The name comes back as the domain
    /// writes it.
    ///
    /// # Errors
    /// winbindd does not run.
    pub fn sid_of(&mut self, domain: &str, name: &str) -> Result<Option<DomainName>, WinbindError> {
        let (Ok(domain), Ok(name)) = (CString::new(domain), CString::new(name)) else {
            return Ok(None);
        };
        let mut sid =
            DomainSid { revision: 0, count: 0, authority: [0; 6], subauthorities: [0; 15] };
        let mut kind: c_int = 0;
        // SAFETY: the names live until the call returns; the outputs are ours.
        let status = unsafe {
            (self.functions.wbcCtxLookupName)(
                self.handle,
                domain.as_ptr(),
                name.as_ptr(),
                &raw mut sid,
                &raw mut kind,
            )
        };
        if !self.is_found(status)? {
            return Ok(None);
        }
        match sid.to_sid() {
            Some(sid) => self.name_of(&sid),
            None => Ok(None),
        }
    }

    fn is_found(&self, status: c_int) -> Result<bool, WinbindError> {
        match status {
            SUCCESS => Ok(true),
            NOT_AVAILABLE => Err(self.error(status, None)),
            _ => Ok(false),
        }
    }
}

/// A name that can be shown: winbindd has kinds for deleted and unknown ones, too.
fn known(kind: c_int, domain: String, name: String, sid: Sid) -> Option<DomainName> {
    let kind = u16::try_from(kind).ok()?;
    let has_name = kind == DOMAIN || !name.is_empty();
    has_name.then_some(DomainName { kind, domain, name, sid })
}

// SidTypeDomain.
const DOMAIN: u16 = 3;
