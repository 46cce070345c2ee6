//! A ticket for a service of this machine itself, to see whether the domain knows the service and
//! the keys fit.

use std::ffi::CString;
use std::ptr::{null, null_mut};

use super::table::{Buffer, CredStore, CredStoreElement, Handle, Oid, OidSet};
use super::{Context, Gss, KERBEROS, Keys, Name, Owned, is_error};

// GSS_C_INITIATE.
const INITIATE: i32 = 1;
/// 1.2.840.113554.1.2.2.1, GSS_KRB5_NT_PRINCIPAL_NAME: names are taken as they are, and no name
/// service is asked for another form.
const PRINCIPAL_NAME: &[u8] = &[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x12, 0x01, 0x02, 0x02, 0x01];

impl Gss {
    /// Fetches a ticket for `service` from a controller, as the principal `client` whose key is in
    /// a keytab (the system's, if it is `None`). The ticket is kept nowhere.
    ///
    /// # Errors
    /// No controller answers, or it knows no such client, key or service.
    pub fn ticket_for(
        &self,
        keytab: Option<&str>,
        client: &str,
        service: &str,
    ) -> Result<Vec<u8>, String> {
        let functions = self.functions;
        let client = self.principal(client)?;
        let service = self.principal(service)?;
        let keytab = keytab.map(CString::new).transpose();
        let keytab = keytab.map_err(|_| "a path with NUL".to_owned())?;
        let cache = c"MEMORY:";
        let mut elements =
            vec![CredStoreElement { key: c"ccache".as_ptr(), value: cache.as_ptr() }];
        if let Some(keytab) = &keytab {
            elements
                .push(CredStoreElement { key: c"client_keytab".as_ptr(), value: keytab.as_ptr() });
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
                client.name,
                u32::MAX,
                &raw const mechanisms,
                INITIATE,
                &raw const store,
                &raw mut credential,
                null_mut(),
                null_mut(),
            )
        };
        if is_error(major) {
            return Err(functions.describe(major, minor));
        }
        let credential = Keys { functions, clock_skew: self.clock_skew, credential };
        let mut context = Context { functions, context: null_mut() };
        let mut token = Owned::new(functions);
        // SAFETY: inputs live until the call returns; outputs are owned by the types above.
        let major = unsafe {
            (functions.gss_init_sec_context)(
                &raw mut minor,
                credential.credential,
                &raw mut context.context,
                service.name,
                &raw const mechanism,
                0,
                0,
                null_mut(),
                null(),
                null_mut(),
                &raw mut token.0,
                null_mut(),
                null_mut(),
            )
        };
        if is_error(major) {
            return Err(functions.describe(major, minor));
        }
        Ok(token.to_vec())
    }

    fn principal(&self, name: &str) -> Result<Name, String> {
        let functions = self.functions;
        let (mut minor, mut handle): (u32, Handle) = (0, null_mut());
        let (text, kind) = (Buffer::of(name.as_bytes()), Oid::of(PRINCIPAL_NAME));
        // SAFETY: the inputs live until the call returns.
        let major = unsafe {
            (functions.gss_import_name)(
                &raw mut minor,
                &raw const text,
                &raw const kind,
                &raw mut handle,
            )
        };
        let name = Name { functions, name: handle };
        if is_error(major) { Err(functions.describe(major, minor)) } else { Ok(name) }
    }
}
