//! The keys that check tickets: of a keytab, or of the machine's account in the domain.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use config::Global;
use logon::gss::{Gss, Keys};

use crate::machine_keys::{KeytabInMemory, MachineKeys};

/// Source of the keys.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum KeySource {
    /// A keytab; `None` means that of the system.
    Keytab(Option<String>),
    /// winbindd's database of secrets.
    Secrets {
        /// Places of the database.
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

/// Keys of one thread.
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
        let (of_machine, keytab) = match source {
            KeySource::Keytab(keytab) => (None, keytab.clone()),
            KeySource::Secrets { files, workgroup, or_system } => {
                match machine_keys.current(files, workgroup)? {
                    Some(keytab) => (Some(Arc::clone(&keytab)), Some(keytab.path())),
                    None if *or_system => (None, None),
                    None => {
                        let places: Vec<_> = files.iter().map(|it| it.to_string_lossy()).collect();
                        return Err(format!(
                            "winbindd's database of secrets is not there ({}); `domain secrets` \
                             names it",
                            places.join(", ")
                        ));
                    }
                }
            }
        };
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
