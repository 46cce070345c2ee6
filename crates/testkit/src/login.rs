//! Logon of a peer with NTLM.

use auth::{Credentials, Framing};
use client::Logon;
use wire::negotiate::SecurityMode;
use wire::session_setup::SessionSetupFlags;

use crate::accounts::WORKGROUP;

/// Options of a logon by SESSION_SETUP.
#[derive(Clone, Debug)]
pub struct Login {
    pub(crate) user: String,
    pub(crate) password: Option<String>,
    pub(crate) domain: String,
    pub(crate) framing: Framing,
    pub(crate) target_name: String,
    pub(crate) previous_session_id: u64,
    pub(crate) security_mode: SecurityMode,
    pub(crate) flags: SessionSetupFlags,
    pub(crate) reauthenticate: u64,
    pub(crate) keeps_keys: bool,
}

impl Login {
    /// Creates a logon of a user with a password.
    #[must_use]
    pub fn user(user: &str, password: &str) -> Self {
        Self {
            user: user.into(),
            password: Some(password.into()),
            domain: WORKGROUP.into(),
            framing: Framing::Spnego,
            target_name: String::new(),
            previous_session_id: 0,
            security_mode: SecurityMode::SIGNING_ENABLED,
            flags: SessionSetupFlags::empty(),
            reauthenticate: 0,
            keeps_keys: false,
        }
    }

    /// Creates a logon as anonymous.
    #[must_use]
    pub fn anonymous() -> Self {
        Self { password: None, domain: String::new(), ..Self::user("", "") }
    }

    /// Creates a logon as anonymous that signs and seals with the keys of the session, which
    /// anybody can derive.
    #[must_use]
    pub fn anonymous_with_keys() -> Self {
        Self { keeps_keys: true, ..Self::anonymous() }
    }

    /// Returns the names and the password for NTLM.
    pub(crate) fn credentials(&self) -> Credentials {
        let credentials = match &self.password {
            Some(password) => Credentials::password(&self.user, &self.domain, password),
            None => Credentials::anonymous(),
        };
        credentials.for_target(&self.target_name)
    }

    /// Sets the fields of the requests of a logon.
    pub(crate) fn apply(&self, logon: &mut Logon) {
        logon.flags = self.flags;
        logon.security_mode = self.security_mode;
        logon.previous_session_id = self.previous_session_id;
    }

    /// Sets another wrapping of the tokens.
    #[must_use]
    pub fn framing(self, framing: Framing) -> Self {
        Self { framing, ..self }
    }

    /// Sets the service that the client names, such as `cifs/server`.
    #[must_use]
    pub fn target_name(self, target_name: &str) -> Self {
        Self { target_name: target_name.into(), ..self }
    }

    /// Sets PreviousSessionId, for a reconnect.
    #[must_use]
    pub fn previous_session(self, previous_session_id: u64) -> Self {
        Self { previous_session_id, ..self }
    }

    /// Makes the client require signatures.
    #[must_use]
    pub fn signing_required(mut self) -> Self {
        self.security_mode |= SecurityMode::SIGNING_REQUIRED;
        self
    }

    /// Sets other flags of SESSION_SETUP.
    #[must_use]
    pub fn flags(self, flags: SessionSetupFlags) -> Self {
        Self { flags, ..self }
    }

    /// Reauthenticates an existing session of the user.
    #[must_use]
    pub fn again(self, session_id: u64) -> Self {
        Self { reauthenticate: session_id, ..self }
    }
}
