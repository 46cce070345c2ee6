//! `max startups`: clients that have not logged on yet.

use crate::kind::Typed;

/// As in `sshd_config`: from `start` clients on, `rate` percent of new ones are dropped, a share
/// that grows linearly to all of them at `full`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Startups {
    /// Number of clients below which none is dropped.
    pub start: u32,
    /// Percentage of new clients dropped at `start`.
    pub rate: u32,
    /// Number of clients from which all new ones are dropped.
    pub full: u32,
}

/// More clients than any server has processes for.
const CLIENTS_MAX: u32 = 65_536;

impl Startups {
    /// The form of a value, in words.
    pub(crate) const EXPECTED: &str = "start:rate:full, such as 64:30:512, with 1 <= start <= full \
         and a rate of 1 to 100, or one number";

    /// Reads `start:rate:full`, or one number, which is both `start` and `full`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split(':').map(|part| part.trim().parse::<u32>().ok());
        let start = numbers.next()??;
        let (rate, full) = match (numbers.next(), numbers.next(), numbers.next()) {
            (None, None, None) => (100, start),
            (Some(rate), Some(full), None) => (rate?, full?),
            _ => return None,
        };
        let is_sound = (1..=full).contains(&start) && (1..=100).contains(&rate);
        (is_sound && full <= CLIENTS_MAX).then_some(Self { start, rate, full })
    }
}

impl std::fmt::Display for Startups {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}:{}", self.start, self.rate, self.full)
    }
}

impl Typed for Startups {
    fn typed(canonical: &str) -> Self {
        Self::parse(canonical).expect("a stored value was checked")
    }
}

#[cfg(test)]
mod tests {
    use super::Startups;

    #[test]
    fn three_numbers_or_one_are_read() {
        let read = |text| Startups::parse(text).map(|it| it.to_string());
        assert_eq!(read("64:30:512").as_deref(), Some("64:30:512"));
        assert_eq!(read(" 10 : 1: 10").as_deref(), Some("10:1:10"));
        assert_eq!(read("50").as_deref(), Some("50:100:50"));
        for text in
            ["", "0", "a", "1:2", "1:2:3:4", "9:30:8", "1:0:2", "1:101:2", "1:1:65537", "-1"]
        {
            assert_eq!(read(text), None, "{text:?}");
        }
    }
}
