//! The keys that check tickets: of a keytab, or of the machine's account in the domain.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use config::Global;
use logon::gss::{Gss, Keys};

use crate::machine_keys::{KeytabInMemory, MachineKeys};

/// Source of the keys that check tickets.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum KeySource {
    /// A keytab; `None` means that of the system.
    Keytab(Option<String>),
    /// winbindd's own database of secrets.
    Secrets {
        /// Places of the database, in order.
        files: Vec<PathBuf>,
        /// Short name of the domain.
        workgroup: String,
        /// True if the keytab of the system serves where there is no database.
        or_system: bool,
    },
}

impl KeySource {
    pub(crate) fn of(global: &Global) -> Option<Self> {
        global.keytab().map(|keytab| match keytab {
            config::Keytab::File(path) => Self::Keytab(Some(path.to_owned())),
            config::Keytab::OfSystem => Self::Keytab(None),
            config::Keytab::Secrets { or_system } => Self::Secrets {
                files: global.secrets_files(),
                workgroup: global.workgroup.clone(),
                or_system,
            },
        })
    }
}

/// Keys that one thread has loaded.
#[derive(Debug)]
pub(crate) struct LoadedKeys {
    keys: Keys,
    /// The keytab of the machine's account, which the keys read at each ticket.
    of_machine: Option<Arc<KeytabInMemory>>,
}

impl LoadedKeys {
    /// Takes the keys, or those that a change of the machine's password has put in their place. A
    /// keytab needs no such look: the library reads it for each ticket.
    pub(crate) fn renew(
        loaded: Option<Self>,
        gss: Gss,
        source: &KeySource,
        machine_keys: &MachineKeys,
        replay_cache: &Path,
    ) -> Result<Self, String> {
        let (of_machine, keytab) = keytab_of(source, machine_keys)?;
        let is_same = |loaded: &Self| match (&loaded.of_machine, &of_machine) {
            (Some(old), Some(new)) => Arc::ptr_eq(old, new),
            (None, None) => true,
            _ => false,
        };
        match loaded {
            Some(loaded) if is_same(&loaded) => Ok(loaded),
            _ => {
                let keys = gss.keys(keytab.as_deref(), replay_cache)?;
                Ok(Self { keys, of_machine })
            }
        }
    }

    pub(crate) fn keys(&self) -> &Keys {
        &self.keys
    }
}

/// Returns the keytab in memory, if there is one, and the name of the keytab for the library.
fn keytab_of(
    source: &KeySource,
    machine_keys: &MachineKeys,
) -> Result<(Option<Arc<KeytabInMemory>>, Option<String>), String> {
    let (files, workgroup, or_system) = match source {
        KeySource::Keytab(keytab) => return Ok((None, keytab.clone())),
        KeySource::Secrets { files, workgroup, or_system } => (files, workgroup, or_system),
    };
    match machine_keys.current(files, workgroup)? {
        Some(keytab) => {
            let path = keytab.path();
            Ok((Some(keytab), Some(path)))
        }
        None if *or_system => Ok((None, None)),
        None => {
            let places: Vec<_> = files.iter().map(|it| it.to_string_lossy()).collect();
            Err(format!(
                "winbindd's database of secrets is not there ({}); `domain secrets` names it",
                places.join(", ")
            ))
        }
    }
}

/// The keytab that `logond` would use, for a look at it by `choro check`.
#[derive(Debug)]
pub struct OwnKeytab {
    name: Option<String>,
    _of_machine: Option<Arc<KeytabInMemory>>,
}

impl OwnKeytab {
    /// Finds the keytab of a configuration.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub fn of(global: &Global) -> Result<Self, String> {
        let source = KeySource::of(global).ok_or("there is no `realm`")?;
        let (of_machine, name) = keytab_of(&source, &MachineKeys::default())?;
        Ok(Self { name, _of_machine: of_machine })
    }

    /// Name of the keytab for the Kerberos library; `None` means that of the system.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }
}
