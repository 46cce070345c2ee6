//! Whether a session may have several connections, and who decides that.

use std::io;
use std::sync::OnceLock;

use config::Global;
use uring::tcp;

/// Whether a session may have several connections.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Multichannel {
    /// Clients may use several channels.
    On,
    /// Disabled by the parameter `server multi channel support`.
    Off,
    /// The platform does not report acknowledged bytes, for this reason: a break that is lost with
    /// its connection would not be repeated on another one.
    Unsupported(String),
}

impl Multichannel {
    /// Determines the state for this configuration and platform.
    pub fn of(global: &Global) -> Self {
        Self::decide(global.server_multi_channel_support, verify_platform)
    }

    fn decide(is_wanted: bool, verify: impl FnOnce() -> io::Result<()>) -> Self {
        match is_wanted.then(verify) {
            None => Self::Off,
            Some(Ok(())) => Self::On,
            Some(Err(error)) => Self::Unsupported(error.to_string()),
        }
    }

    pub fn is_on(&self) -> bool {
        *self == Self::On
    }

    /// Returns a warning for the operator, if there is reason for one.
    pub fn warning(&self) -> Option<String> {
        match self {
            Self::Unsupported(_) => Some(format!("multichannel is {self}")),
            Self::On | Self::Off => None,
        }
    }
}

impl std::fmt::Display for Multichannel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::On => f.write_str("on"),
            Self::Off => f.write_str("off: `server multi channel support = no`"),
            Self::Unsupported(why) => {
                write!(f, "off: this platform does not report acknowledged bytes ({why})")
            }
        }
    }
}

/// Checks, once in a process and its forks, that the platform reports acknowledged bytes. The first
/// call makes a socket, which a confined worker may not.
///
/// # Errors
/// The platform does not, for this reason.
pub fn verify_platform() -> io::Result<()> {
    static UNSUPPORTED: OnceLock<Option<String>> = OnceLock::new();
    let verify = || tcp::verify_reports_acknowledged_bytes().err().map(|error| error.to_string());
    UNSUPPORTED.get_or_init(verify).clone().map_or(Ok(()), |reason| Err(io::Error::other(reason)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cannot() -> io::Result<()> {
        Err(io::Error::other("SIOCOUTQ: not supported"))
    }

    #[test]
    fn multichannel_is_on_if_configured_and_supported() {
        let (config, _) = config::Config::parse("", "test").expect("it is empty");
        assert_eq!(Multichannel::of(&config.global), Multichannel::On);
        assert_eq!(Multichannel::decide(true, || Ok(())).warning(), None);
    }

    #[test]
    fn a_platform_that_reports_nothing_switches_it_off_with_a_warning() {
        let state = Multichannel::decide(true, cannot);
        assert!(!state.is_on());
        let warning = state.warning().expect("nobody asked for that");
        assert!(warning.starts_with("multichannel is off: ") && warning.contains("SIOCOUTQ"));
    }

    #[test]
    fn multichannel_that_is_off_gives_no_warning_about_the_platform() {
        let state = Multichannel::decide(false, cannot);
        assert_eq!((&state, state.warning()), (&Multichannel::Off, None));
    }
}
