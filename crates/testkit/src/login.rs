//! How a peer logs on.

use auth::Framing;
use wire::negotiate::SecurityMode;
use wire::session_setup::SessionSetupFlags;

use crate::accounts::WORKGROUP;

/// A logon.
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
}

impl Login {
    /// A user with a password.
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
        }
    }

    /// Nobody in particular.
    #[must_use]
    pub fn anonymous() -> Self {
        Self { password: None, domain: String::new(), ..Self::user("", "") }
    }

    /// Tokens in another wrapping.
    #[must_use]
    pub fn framing(self, framing: Framing) -> Self {
        Self { framing, ..self }
    }

    /// The service that the client means to log on to, `cifs/server` say.
    #[must_use]
    pub fn target_name(self, target_name: &str) -> Self {
        Self { target_name: target_name.into(), ..self }
    }

    /// The session that the client had before.
    #[must_use]
    pub fn previous_session(self, previous_session_id: u64) -> Self {
        Self { previous_session_id, ..self }
    }

    /// The client insists on signatures.
    #[must_use]
    pub fn signing_required(mut self) -> Self {
        self.security_mode |= SecurityMode::SIGNING_REQUIRED;
        self
    }

    /// Other flags of SESSION_SETUP.
    #[must_use]
    pub fn flags(self, flags: SessionSetupFlags) -> Self {
        Self { flags, ..self }
    }

    /// Of a session that exists already.
    #[must_use]
    pub fn again(self, session_id: u64) -> Self {
        Self { reauthenticate: session_id, ..self }
    }
}
