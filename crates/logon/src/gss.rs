//! Tickets, checked by MIT Kerberos: GSS-API, RFC 2743, RFC 4121 and MIT's extensions.
//!
//! Acceptance needs no other machine: the keytab, the replay cache and krb5.conf are all that is
//! read.

mod initiate;
mod table;

use std::ffi::{CString, c_int, c_void};
use std::fmt;
use std::path::Path;
use std::ptr::null_mut;

use zeroize::Zeroizing;

use crate::LibraryError;
use table::{Buffer, BufferSet, CredStore, CredStoreElement, Functions, Handle, Oid, OidSet};

// The library.
#[derive(Clone, Copy, Debug)]
pub struct Gss {
    functions: Functions,
    /// Seconds by which the clocks of client and server may differ: `clockskew` of krb5.conf.
    clock_skew: u32,
}

/// Keys of the service, and the cache of authenticators that were used already.
#[derive(Debug)]
pub struct Keys {
    functions: Functions,
    clock_skew: u32,
    credential: Handle,
}

// SAFETY: MIT's library keeps no state of a credential in a thread.
unsafe impl Send for Keys {}

/// An accepted ticket: keys for MICs.
#[derive(Debug)]
pub struct Context {
    functions: Functions,
    context: Handle,
}

// SAFETY: MIT's library keeps no state of a context in a thread; `&mut self` excludes other calls.
unsafe impl Send for Context {}

/// Result of a valid ticket.
#[derive(Debug)]
pub struct Accepted {
    // Keys for MICs.
    pub context: Context,
    /// The AP-REP; empty if the client does not ask for it.
    pub token: Vec<u8>,
    /// Key that both sides share: the acceptor's subkey, if there is one.
    pub session_key: Zeroizing<Vec<u8>>,
    /// Name of the user as text, with `\` before special characters.
    pub principal: String,
    /// Seconds until the end of the ticket.
    pub lifetime: u32,
    /// The PAC, if it has a valid signature of the service's key and is complete.
    pub pac: Option<Pac>,
}

/// A verified PAC: [MS-PAC]. Only the ticket that it came with makes one.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Pac {
    bytes: Vec<u8>,
    has_logon_info: bool,
}

impl Pac {
    // The whole PAC.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// True if it has KERB_VALIDATION_INFO, with the user's SIDs: it is a domain's.
    #[must_use]
    pub fn has_logon_info(&self) -> bool {
        self.has_logon_info
    }
}

/// Why a ticket was not accepted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Refusal {
    /// KRB-ERROR for the client; may be empty.
    pub token: Vec<u8>,
    // Messages of the library.
    pub reason: String,
}

impl Gss {
    /// Opens the library.
    ///
    /// # Errors
    /// It is missing, or too old.
    pub fn open() -> Result<Self, LibraryError> {
        let functions = Functions::open()?;
        Ok(Self { functions, clock_skew: functions.clock_skew() })
    }

    /// Takes the keys of the service from a keytab (the system's, if it is `None`). All processes
    /// with one `replay_cache` refuse an authenticator that another one has accepted.
    ///
    /// # Errors
    /// The keytab cannot be read.
    pub fn keys(&self, keytab: Option<&str>, replay_cache: &Path) -> Result<Keys, String> {
        let functions = self.functions;
        let text = |text: &str| CString::new(text).map_err(|_| "a path with NUL".to_owned());
        let keytab = keytab.map(text).transpose()?;
        let replay_cache = text(&format!("file2:{}", replay_cache.display()))?;
        let mut elements =
            vec![CredStoreElement { key: c"rcache".as_ptr(), value: replay_cache.as_ptr() }];
        if let Some(keytab) = &keytab {
            elements.push(CredStoreElement { key: c"keytab".as_ptr(), value: keytab.as_ptr() });
        }
        let count = u32::try_from(elements.len()).expect("two at most");
        let store = CredStore { count, elements: elements.as_mut_ptr() };
        let mut mechanism = Oid::of(KERBEROS);
        let mechanisms = OidSet { count: 1, elements: &raw mut mechanism };
        let (mut minor, mut credential) = (0, null_mut());
        // SAFETY: all structures live until the call returns, and have the counts of their lists.
        let major = unsafe {
            (functions.gss_acquire_cred_from)(
                &raw mut minor,
                null_mut(),
                u32::MAX,
                &raw const mechanisms,
                ACCEPT,
                &raw const store,
                &raw mut credential,
                null_mut(),
                null_mut(),
            )
        };
        if is_error(major) {
            return Err(functions.describe(major, minor));
        }
        Ok(Keys { functions, clock_skew: self.clock_skew, credential })
    }
}

impl Keys {
    /// Checks a ticket. A delegated ticket in it is ignored.
    ///
    /// # Errors
    /// It is not valid, or has no key that a session could use.
    pub fn accept(&self, token: &[u8]) -> Result<Accepted, Refusal> {
        let functions = self.functions;
        let mut context = Context { functions, context: null_mut() };
        let mut name = Name { functions, name: null_mut() };
        let mut answer = Owned::new(functions);
        let (mut minor, mut lifetime) = (0, 0);
        let input = Buffer::of(token);
        // SAFETY: the input lives until the call returns; outputs are owned by the types above,
        // which release them in any case.
        let major = unsafe {
            (functions.gss_accept_sec_context)(
                &raw mut minor,
                &raw mut context.context,
                self.credential,
                &raw const input,
                null_mut(),
                &raw mut name.name,
                null_mut(),
                &raw mut answer.0,
                null_mut(),
                &raw mut lifetime,
                null_mut(),
            )
        };
        let refusal = |answer: &Owned, reason: String| Refusal { token: answer.to_vec(), reason };
        if is_error(major) {
            return Err(refusal(&answer, functions.describe(major, minor)));
        }
        // Kerberos is done after one token, but for the dialect of DCE, which SMB does not use.
        if major & CONTINUE_NEEDED != 0 {
            let reason = "a ticket in the form of DCE/RPC".to_owned();
            return Err(Refusal { token: Vec::new(), reason });
        }
        let session_key =
            context.session_key().map_err(|reason| Refusal { token: Vec::new(), reason })?;
        let principal = name.text().map_err(|reason| Refusal { token: Vec::new(), reason })?;
        let token = answer.to_vec();
        let pac = name.pac();
        // The library goes on with a context for that long after the end of its ticket.
        let lifetime = lifetime.saturating_sub(self.clock_skew);
        Ok(Accepted { context, token, session_key, principal, lifetime, pac })
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        let mut minor = 0;
        // SAFETY: `Keys` owns the credential, and this is its last use.
        unsafe { (self.functions.gss_release_cred)(&raw mut minor, &raw mut self.credential) };
    }
}

impl Context {
    /// Returns the session key: the acceptor's subkey, or the key of the ticket.
    fn session_key(&self) -> Result<Zeroizing<Vec<u8>>, String> {
        let functions = self.functions;
        let (mut minor, mut set) = (0, null_mut::<BufferSet>());
        let oid = Oid::of(INQUIRE_SESSION_KEY);
        // SAFETY: the context is complete, and the set is released below.
        let major = unsafe {
            (functions.gss_inquire_sec_context_by_oid)(
                &raw mut minor,
                self.context,
                &raw const oid,
                &raw mut set,
            )
        };
        if is_error(major) {
            return Err(functions.describe(major, minor));
        }
        // The second element is the OID of the encryption type, which nobody needs.
        // SAFETY: the library filled the set, or left it null.
        let buffers = unsafe { BufferSet::buffers(set) };
        let key = buffers.first().map(|key| Zeroizing::new(key.to_vec()));
        // SAFETY: the set is the library's, and no reference into it is left.
        unsafe { (functions.gss_release_buffer_set)(&raw mut minor, &raw mut set) };
        match key {
            Some(key) if key.len() >= KEY_BYTES_MIN => Ok(key),
            _ => Err("the ticket has no session key".to_owned()),
        }
    }

    /// Returns the MIC of a text.
    ///
    /// # Errors
    /// The context has ended.
    pub fn mic(&mut self, text: &[u8]) -> Result<Vec<u8>, String> {
        let functions = self.functions;
        let (mut minor, input, mut mic) = (0, Buffer::of(text), Owned::new(functions));
        // SAFETY: the context is complete, and the input lives until the call returns.
        let major = unsafe {
            (functions.gss_get_mic)(
                &raw mut minor,
                self.context,
                0,
                &raw const input,
                &raw mut mic.0,
            )
        };
        if is_error(major) { Err(functions.describe(major, minor)) } else { Ok(mic.to_vec()) }
    }

    /// Returns whether the peer has made this MIC of a text.
    pub fn verify_mic(&mut self, text: &[u8], mic: &[u8]) -> bool {
        let (mut minor, text, mic) = (0, Buffer::of(text), Buffer::of(mic));
        // SAFETY: the context is complete, and the inputs live until the call returns.
        let major = unsafe {
            (self.functions.gss_verify_mic)(
                &raw mut minor,
                self.context,
                &raw const text,
                &raw const mic,
                null_mut(),
            )
        };
        // Also a MIC that came twice or too late is wrong: there is one only.
        major == 0
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        let mut minor = 0;
        // SAFETY: the context is ours or null.
        unsafe {
            (self.functions.gss_delete_sec_context)(
                &raw mut minor,
                &raw mut self.context,
                null_mut(),
            )
        };
    }
}

/// Name of a client, with the attributes of its ticket.
struct Name {
    functions: Functions,
    name: Handle,
}

impl Name {
    fn text(&self) -> Result<String, String> {
        let (mut minor, mut text) = (0, Owned::new(self.functions));
        // SAFETY: the name is the library's, and not null after an accepted ticket.
        let major = unsafe {
            (self.functions.gss_display_name)(
                &raw mut minor,
                self.name,
                &raw mut text.0,
                null_mut(),
            )
        };
        if is_error(major) {
            return Err(self.functions.describe(major, minor));
        }
        String::from_utf8(text.to_vec()).map_err(|_| "a name that is not UTF-8".to_owned())
    }

    /// Returns the PAC, if it is authenticated and complete.
    fn pac(&self) -> Option<Pac> {
        let bytes = self.attribute("urn:mspac:")?;
        let has_logon_info = self.attribute("urn:mspac:logon-info").is_some();
        Some(Pac { bytes, has_logon_info })
    }

    /// Returns the value of an attribute whose signature the library has verified.
    fn attribute(&self, attribute: &str) -> Option<Vec<u8>> {
        let functions = self.functions;
        let attribute = Buffer::of(attribute.as_bytes());
        let (mut value, mut shown) = (Owned::new(functions), Owned::new(functions));
        let (mut minor, mut authenticated, mut complete): (u32, c_int, c_int) = (0, 0, 0);
        // No further values; -1 begins.
        let mut more: c_int = -1;
        // SAFETY: the name is the library's; the attribute lives until the call returns.
        let major = unsafe {
            (functions.gss_get_name_attribute)(
                &raw mut minor,
                self.name,
                &raw const attribute,
                &raw mut authenticated,
                &raw mut complete,
                &raw mut value.0,
                &raw mut shown.0,
                &raw mut more,
            )
        };
        (!is_error(major) && authenticated != 0 && complete != 0).then(|| value.to_vec())
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        let mut minor = 0;
        // SAFETY: the name is ours or null.
        unsafe { (self.functions.gss_release_name)(&raw mut minor, &raw mut self.name) };
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Name(..)")
    }
}

/// A buffer that the library filled.
struct Owned(Buffer, Functions);

impl Owned {
    fn new(functions: Functions) -> Self {
        Self(Buffer::EMPTY, functions)
    }

    fn to_vec(&self) -> Vec<u8> {
        self.0.to_vec()
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        let mut minor = 0;
        // SAFETY: the library filled the buffer, or left it empty.
        unsafe { (self.1.gss_release_buffer)(&raw mut minor, &raw mut self.0) };
    }
}

impl Functions {
    /// Returns `clockskew` of krb5.conf in seconds, or MIT's default.
    fn clock_skew(&self) -> u32 {
        let (mut context, mut profile) = (null_mut(), null_mut());
        let mut clock_skew = CLOCK_SKEW_DEFAULT;
        // SAFETY: what a call makes is used only if it has not failed, and released once.
        unsafe {
            if (self.krb5_init_context)(&raw mut context) != 0 {
                return CLOCK_SKEW_DEFAULT.unsigned_abs();
            }
            if (self.krb5_get_profile)(context, &raw mut profile) == 0 {
                (self.profile_get_integer)(
                    profile,
                    c"libdefaults".as_ptr(),
                    c"clockskew".as_ptr(),
                    std::ptr::null(),
                    CLOCK_SKEW_DEFAULT,
                    &raw mut clock_skew,
                );
                (self.profile_release)(profile);
            }
            (self.krb5_free_context)(context);
        }
        u32::try_from(clock_skew).unwrap_or_default()
    }

    /// Describes an error in the library's words, of the call and of the mechanism.
    fn describe(&self, major: u32, minor: u32) -> String {
        let texts = [(major, GSS_CODE), (minor, MECH_CODE)].map(|(code, kind)| {
            let (mut ignored, mut more, mut text) = (0, 0, Owned::new(*self));
            let mechanism = Oid::of(KERBEROS);
            // SAFETY: the outputs live until the call returns.
            let status = unsafe {
                (self.gss_display_status)(
                    &raw mut ignored,
                    code,
                    kind,
                    &raw const mechanism,
                    &raw mut more,
                    &raw mut text.0,
                )
            };
            if is_error(status) { code.to_string() } else { lossy(&text.to_vec()) }
        });
        let [call, mechanism] = texts;
        if mechanism.is_empty() || minor == 0 { call } else { format!("{call}: {mechanism}") }
    }
}

/// Seconds of `clockskew` without a line in krb5.conf.
const CLOCK_SKEW_DEFAULT: c_int = 300;

fn lossy(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

/// True for a routine error or a calling error, which are in the upper half.
fn is_error(major: u32) -> bool {
    major & 0xFFFF_0000 != 0
}

/// Shortest key that a session may have.
const KEY_BYTES_MIN: usize = 8;
// GSS_C_ACCEPT.
const ACCEPT: c_int = 2;
// GSS_S_CONTINUE_NEEDED.
const CONTINUE_NEEDED: u32 = 1;
// GSS_C_GSS_CODE.
const GSS_CODE: c_int = 1;
// GSS_C_MECH_CODE.
const MECH_CODE: c_int = 2;
// 1.2.840.113554.1.2.2, Kerberos.
const KERBEROS: &[u8] = &[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x12, 0x01, 0x02, 0x02];
// 1.2.840.113554.1.2.2.5.5, GSS_C_INQ_SSPI_SESSION_KEY.
const INQUIRE_SESSION_KEY: &[u8] =
    &[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x12, 0x01, 0x02, 0x02, 0x05, 0x05];

impl Buffer {
    const EMPTY: Self = Self { len: 0, value: null_mut() };

    fn of(bytes: &[u8]) -> Self {
        Self { len: bytes.len(), value: bytes.as_ptr().cast::<c_void>().cast_mut() }
    }

    fn to_vec(self) -> Vec<u8> {
        if self.value.is_null() {
            return Vec::new();
        }
        // SAFETY: buffers are made by `of`, or filled by the library, with their length.
        unsafe { std::slice::from_raw_parts(self.value.cast::<u8>(), self.len) }.to_vec()
    }
}

impl Oid {
    fn of(content: &'static [u8]) -> Self {
        let len = u32::try_from(content.len()).expect("identifiers are short");
        Self { len, content: content.as_ptr().cast::<c_void>().cast_mut() }
    }
}

impl BufferSet {
    /// The buffers of a set.
    ///
    /// # Safety
    /// The set is null, or filled by the library and not yet released.
    unsafe fn buffers<'a>(set: *const Self) -> &'a [Buffer] {
        if set.is_null() {
            return &[];
        }
        // SAFETY: the caller's promise.
        let Self { count, elements } = unsafe { &*set };
        if *count == 0 || elements.is_null() {
            return &[];
        }
        // SAFETY: the library gives the number of elements.
        unsafe { std::slice::from_raw_parts(*elements, *count) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn garbage_is_refused_and_its_reason_reported() {
        let Ok(gss) = Gss::open() else { return };
        let folder = std::env::temp_dir().join(format!("choro-gss-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("there is space");
        let missing = folder.join("missing.keytab");
        let error = gss.keys(missing.to_str(), &folder.join("replay")).expect_err("no keytab");
        assert!(error.contains("missing.keytab") || error.contains("keytab"), "{error}");
        std::fs::remove_dir_all(&folder).expect("ours");
    }
}
