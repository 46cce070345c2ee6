//! `choro serve`, the command that runs the server.

use std::fmt::Write;
use std::io::IsTerminal;
use std::mem;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use interfaces::Multichannel;
use observe::report;
use process::log;
use settings::container::Container;
use settings::container::users::{self, NewUser};
use settings::default_share::{self, DefaultShare, Password, SHARE_NAME, USER_NAME};
use settings::{Settings, Source};
use zeroize::Zeroizing;

/// Run the server.
///
/// Stays in the foreground and logs to standard error unless `log file` says otherwise. SIGTERM
/// stops it, SIGHUP makes it reload its configuration.
#[derive(Args, Debug)]
pub(super) struct Serve {
    /// Folder to share when there is no configuration file [default: /srv/choro for root,
    /// ~/ChoroShare for anyone else].
    #[arg(long, value_name = "DIR")]
    share: Option<PathBuf>,
    /// Share each folder below /shares, and write logs as JSON: see docs/containers.md.
    ///
    /// The same as a variable CHORO_CONTAINER, which images set. CHORO_SHARES names another folder
    /// than /shares, CHORO_STATE another than /state for the server's own files, CHORO_PORT another
    /// port than 445. CHORO_USER_ANNA_FILE names a file with the password of the user anna.
    #[arg(long, conflicts_with = "share")]
    container: bool,
}

impl Serve {
    pub(super) fn run(&self, config: Option<&Path>) -> anyhow::Result<()> {
        let mut settings = self.find_settings(config)?;
        log::start(&settings)?;
        let mut listed = Vec::new();
        match &settings.source {
            Source::Container(container) => {
                listed = users::list()?;
                container.prepare(users::owner(&listed))?;
            }
            Source::Default(default) => {
                let mut default = default.clone();
                default.prepare()?;
                settings = Settings::load(Source::Default(default))?;
            }
            Source::File(_) => {}
        }
        tracing::info!("configuration: {}", settings.source);
        for warning in settings.warnings.iter().filter(|warning| !warning.kind.is_note()) {
            tracing::warn!("{warning}");
        }
        if let Some(warning) = Multichannel::of(&settings.config.global).warning() {
            tracing::warn!("{warning}");
        }
        let started = supervisor::start(settings)?;
        match worker::ring_error().context("cannot create the event loop")? {
            None => tracing::info!("clients are served through io_uring"),
            Some(error) => {
                tracing::info!("clients are served through epoll and threads: io_uring: {error}");
            }
        }
        let addresses = started.addresses();
        if addresses.is_empty() {
            bail!("no address to listen on");
        }
        for address in &addresses {
            tracing::info!("listening on {address}");
        }
        match &started.settings().source {
            Source::Container(_) => {
                // Erases the hashes before the first worker, a fork of this process.
                let listed = mem::take(&mut listed);
                let new = users::apply(&listed, &started.settings().users_path())
                    .context("cannot bring the users into line with their list")?;
                for user in &new {
                    report::print_secret(&made_up(user))?;
                }
            }
            Source::Default(default) => {
                let users = started.settings().users_path();
                let password = default_share::ensure_user(&users, std::io::stdout().is_terminal())
                    .context("cannot create the user of the default share")?;
                report::print_secret(&welcome(default, &addresses, &password))?;
            }
            Source::File(_) => {}
        }
        started.run()
    }

    fn find_settings(&self, config: Option<&Path>) -> anyhow::Result<Settings> {
        match &self.share {
            _ if self.container && config.is_some() => {
                Err(super::conflict("--container cannot be used with --config"))
            }
            _ if self.container => {
                Settings::load(Source::Container(Container::from_environment()?))
            }
            Some(_) if config.is_some() => {
                Err(super::conflict("--share cannot be used with --config"))
            }
            Some(folder) => {
                Settings::load(Source::Default(DefaultShare::for_this_user(Some(folder))?))
            }
            None => Settings::find(config),
        }
    }
}

/// Returns the line with a password that was made up. Names of users and passwords have no
/// character that JSON escapes.
fn made_up(user: &NewUser) -> Zeroizing<String> {
    let mut line = Zeroizing::new(String::with_capacity(LINE_LEN_MAX));
    let written = writeln!(
        line,
        "{{\"level\":\"INFO\",\"message\":\"a password was made up, and is shown only once\",\
         \"user\":\"{}\",\"password\":\"{}\"}}",
        user.name, *user.password
    );
    written.expect("a string takes all");
    line
}

/// Capacity in bytes for [`made_up`]: a name of 256 characters, and a short password.
const LINE_LEN_MAX: usize = 2 * 1024;

/// Capacity in bytes for [`welcome`]: the path of a folder, and host names.
const WELCOME_LEN_MAX: usize = 32 * 1024;

/// Returns the commands for the default share, to copy and paste.
fn welcome(
    default: &DefaultShare,
    addresses: &[SocketAddr],
    password: &Password,
) -> Zeroizing<String> {
    let port = default.port;
    let host = host_of(addresses);
    let (with_port, windows_port, url_port) = match port {
        default_share::PORT => (String::new(), String::new(), String::new()),
        _ => (format!(" -p {port}"), format!(" /TCPPORT:{port}"), format!(":{port}")),
    };
    let mount_port =
        if port == default_share::PORT { String::new() } else { format!(",port={port}") };
    let kept;
    let (password, password_note) = match password {
        Password::New(password) => {
            (password.as_str(), "   (shown only once; only its hash is stored)")
        }
        Password::Known => ("as shown when the user was created", ""),
        Password::Kept(file) => {
            kept = format!("in {} (remove that file once it is read)", file.display());
            (kept.as_str(), "")
        }
    };
    // The program's name as typed: `make run` does not put it into PATH.
    let program = std::env::args().next().unwrap_or_else(|| "choro".to_owned());
    let windows_note = if port == default_share::PORT {
        ""
    } else {
        "             (another port than 445 needs Windows 11 24H2 or Server 2025)\n"
    };
    // Workers are forks with a copy of this memory: a string that grows would leave parts of the
    // password behind.
    let mut text = Zeroizing::new(String::with_capacity(WELCOME_LEN_MAX));
    let written = write!(
        text,
        "\nChoro serves {folder} as \\\\{host}\\{SHARE_NAME}\n\
         \n\
         user         {USER_NAME}\n\
         password     {password}{password_note}\n\
         change it    {program} user passwd {USER_NAME}\n\
         \n\
         smbclient    smbclient //{host}/{SHARE_NAME} -U {USER_NAME}{with_port}\n\
         Linux        sudo mount -t cifs //{host}/{SHARE_NAME} /mnt \
         -o username={USER_NAME}{mount_port}\n\
         Windows      net use * \\\\{host}\\{SHARE_NAME} /user:{USER_NAME}{windows_port}\n\
         {windows_note}\
         macOS        open smb://{USER_NAME}@{host}{url_port}/{SHARE_NAME}\n\
         \n\
         ^C stops the server.\n",
        folder = default.path.display(),
    );
    written.expect("a string takes all");
    text
}

/// Returns an address that people can use: the machine's own name if the server listens on all
/// addresses.
fn host_of(addresses: &[SocketAddr]) -> String {
    let named = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    };
    match addresses.iter().find(|address| !address.ip().is_unspecified()) {
        Some(address) => named(address.ip()),
        None => match config::Substitutions::of_this_process().hostname {
            host if host.is_empty() => "localhost".to_owned(),
            host => host,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::{DefaultShare, Password, welcome};

    #[test]
    fn an_unusual_port_is_in_every_line_to_paste() {
        let mut default =
            DefaultShare::for_this_user(Some("/tmp/x".as_ref())).expect("a home is not needed");
        default.port = 4450;
        let address = "192.0.2.1:4450".parse().expect("an address");
        let text = welcome(&default, &[address], &Password::New("pw".to_owned().into()));
        for line in [
            "smbclient //192.0.2.1/share -U choro -p 4450",
            "mount -t cifs //192.0.2.1/share /mnt -o username=choro,port=4450",
            "net use * \\\\192.0.2.1\\share /user:choro /TCPPORT:4450",
            "smb://choro@192.0.2.1:4450/share",
            "password     pw ",
        ] {
            assert!(text.contains(line), "{line} is not in {}", *text);
        }
    }
}
