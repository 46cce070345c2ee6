//! Values of `%m`, `%I`, `%i`, `%R` and `%a`: the connection of a requester, and the configuration
//! that files for single clients make of them.

use std::net::IpAddr;
use std::time::SystemTime;

use config::{Config, Substitutions};
use proto::effect::ConnectShare;
use rpc::{Caller, Origin};
use tracing::warn;
use wire::Dialect;

use super::date;
use super::refusal::Refusal;
use super::{unix, usershares};

/// Connection of a requester, as far as variables show it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Requester<'a> {
    /// Address of the client; none for a question of this server's own.
    client: Option<IpAddr>,
    /// Name of the client machine, as the client gave it; unproven.
    client_name: &'a str,
    /// Address that the client connected to.
    server: Option<IpAddr>,
    dialect: Dialect,
}

/// User of a requester, by names only.
#[derive(Clone, Copy, Debug)]
struct User<'a> {
    name: &'a str,
    requested: &'a str,
    domain: &'a str,
}

impl<'a> From<&'a ConnectShare> for Requester<'a> {
    fn from(request: &'a ConnectShare) -> Self {
        Self {
            client: Some(request.client.ip()),
            client_name: &request.client_name,
            server: Some(request.server_address.ip()),
            dialect: request.dialect,
        }
    }
}

impl<'a> From<&'a Origin> for Requester<'a> {
    fn from(origin: &'a Origin) -> Self {
        Self {
            client: origin.client,
            client_name: &origin.client_name,
            server: origin.server,
            dialect: Dialect(origin.dialect),
        }
    }
}

impl Requester<'_> {
    /// Adds the values of the connection to those that are known otherwise.
    pub(super) fn add_to(self, known: Substitutions) -> Substitutions {
        let client_address = self.client.map(text).unwrap_or_default();
        let client_name = match plain_name(self.client_name) {
            name if name.is_empty() => client_address.clone(),
            name => name,
        };
        Substitutions {
            client_name,
            client_address,
            interface: self.server.map(text).unwrap_or_default(),
            arch: ARCHITECTURE.to_owned(),
            dialect: format!("SMB{:X}_{:02X}", self.dialect.0 >> 8, self.dialect.0 & 0xFF),
            time: date::text(SystemTime::now()),
            ..known
        }
    }

    /// Returns all values that the name of a file may have.
    fn values(self, config: &Config, user: User<'_>) -> Result<Substitutions, Refusal> {
        let group = match config.client_files_name('g') || config.client_files_name('G') {
            true => primary_group(user.name)?,
            false => String::new(),
        };
        Ok(self.add_to(Substitutions {
            requested_user: user.requested.to_owned(),
            domain: user.domain.to_owned(),
            group,
            ..config.substitutions()
        }))
    }
}

fn text(address: IpAddr) -> String {
    address.to_canonical().to_string()
}

/// Returns the configuration that a tree connect has, if files are read for each client.
///
/// # Errors
/// A file of this client cannot be served, or its name is unknown.
pub fn config_of(config: &Config, request: &ConnectShare) -> Result<Option<Config>, Refusal> {
    if !config.has_client_files() {
        return Ok(None);
    }
    let account = &request.account;
    let (name, requested) = (&*account.user, &*account.requested_user);
    let user = User { name, requested, domain: &account.domain };
    read(config, &Requester::from(request).values(config, user)?)
}

/// As [`config_of`], for a client that lists shares, on a thread that may have a user's rights.
pub(super) fn config_of_caller(
    config: &Config,
    caller: &Caller,
) -> Result<Option<Config>, Refusal> {
    if !config.has_client_files() {
        return Ok(None);
    }
    let Caller { user: name, requested_user: requested, domain, .. } = caller;
    let user = User { name, requested, domain };
    let values = Requester::from(&caller.origin).values(config, user)?;
    usershares::with_server_rights(|| read(config, &values)).unwrap_or(Err(Refusal::NoIdentity))
}

fn read(config: &Config, values: &Substitutions) -> Result<Option<Config>, Refusal> {
    config.for_client(values).map_err(|error| {
        warn!("{} can connect no share: {error}", values.client_address);
        Refusal::ClientFile(error.to_string())
    })
}

/// Returns the name of a user's own group. Without it, the file of that group would be missed.
fn primary_group(user: &str) -> Result<String, Refusal> {
    let found = unix::find_user(user).map_err(|error| {
        warn!("{error:#}");
        Refusal::NoIdentity
    })?;
    Ok(found.and_then(|user| unix::group_name(user.credentials.gid)).unwrap_or_default())
}

/// Returns the name of a machine as Samba has it: in small letters, and without characters that
/// NetBIOS names do not have.
fn plain_name(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || ". -_".contains(c) { c } else { '_' };
    name.trim().chars().map(plain).collect::<String>().to_ascii_lowercase()
}

/// `%a` of all clients that negotiate SMB 2 by itself, as in Samba: since Windows Vista their first
/// message no longer tells their kind.
const ARCHITECTURE: &str = "Vista";

#[cfg(test)]
mod tests {
    use super::*;

    fn requester(client_name: &str) -> Requester<'_> {
        let address = |text: &str| text.parse().ok();
        let (client, server) = (address("::ffff:10.0.0.7"), address("fd00::1"));
        Requester { client, client_name, server, dialect: Dialect::SMB_3_1_1 }
    }

    #[test]
    fn each_variable_of_a_connection_has_its_value() {
        let values = requester("PC-1").add_to(Substitutions::default());
        assert_eq!(values.expand("%m %M %I %J"), "pc-1 10.0.0.7 10.0.0.7 10_0_0_7");
        assert_eq!(values.expand("%i %j %R %a"), "fd00::1 fd00__1 SMB3_11 Vista");
        let old = Requester { dialect: Dialect::SMB_2_0_2, ..requester("") };
        assert_eq!(old.add_to(Substitutions::default()).expand("%R"), "SMB2_02");
    }

    #[test]
    fn a_client_without_a_name_is_called_by_its_address() {
        for none in ["", " "] {
            let values = requester(none).add_to(Substitutions::default());
            assert_eq!(values.expand("%m"), "10.0.0.7");
        }
    }

    #[test]
    fn the_name_of_a_client_has_characters_of_netbios_only() {
        let values = requester("../É$(x)\n%U").add_to(Substitutions::default());
        assert_eq!(values.client_name, "..____x___u");
        assert_eq!(values.expand_path("/srv/%m"), "/srv/_____x___u");
    }
}
