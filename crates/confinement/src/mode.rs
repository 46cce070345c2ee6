//! Values of the parameter `choro:confinement`.

/// Confinement that an administrator wants.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Mode {
    /// Calls and capabilities that a process does not need are taken from it.
    #[default]
    On,
    /// Nothing is taken; the kernel logs each call outside the list.
    Log,
    /// Nothing is taken, and nothing is logged.
    Off,
}

impl Mode {
    /// Returns the mode for a value of the parameter; `None` for a word that it does not have.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        let is = |words: &[&str]| words.iter().any(|it| word.trim().eq_ignore_ascii_case(it));
        match () {
            () if is(&["yes", "true", "1", "on"]) => Some(Self::On),
            () if is(&["no", "false", "0", "off"]) => Some(Self::Off),
            () if is(&["log"]) => Some(Self::Log),
            () => None,
        }
    }

    /// Returns the value of the parameter.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::On => "yes",
            Self::Log => "log",
            Self::Off => "no",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Mode;

    #[test]
    fn words_of_the_parameter_are_read_and_others_are_none() {
        for mode in [Mode::On, Mode::Log, Mode::Off] {
            assert_eq!(Mode::parse(mode.word()), Some(mode));
        }
        assert_eq!(Mode::parse(" Off "), Some(Mode::Off));
        assert_eq!([Mode::parse(""), Mode::parse("maybe")], [None, None]);
    }
}
