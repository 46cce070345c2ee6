//! One word of `interfaces`.

use std::net::IpAddr;

/// An interface and what the operator says about it: `what;if_index=2,speed=1000000000,capability=RSS`.
///
/// The word needs quotes in the file, because `;` and `,` part words.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InterfaceSpec {
    /// Name, pattern with `*` and `?`, address, or network as `address/bits` or `address/mask`.
    pub what: String,
    /// Index to tell clients instead of the kernel's.
    pub if_index: Option<u32>,
    /// Bits per second to tell clients instead of what the driver says.
    pub speed: Option<u64>,
    /// Can spread one connection over processors: [MS-SMB2] 2.2.32.5 `RSS_CAPABLE`.
    pub rss: bool,
    /// Can do remote direct memory access: [MS-SMB2] 2.2.32.5 `RDMA_CAPABLE`.
    pub rdma: bool,
    /// What stands behind the `;` and was not understood.
    pub ignored: Vec<String>,
}

impl InterfaceSpec {
    /// Takes a word apart. Never fails: what is not understood is in `ignored`.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let (what, properties) = text.split_once(';').unwrap_or((text, ""));
        let mut spec = Self { what: what.trim().to_owned(), ..Self::default() };
        for property in properties.split(',').map(str::trim).filter(|text| !text.is_empty()) {
            if !spec.take(property) {
                spec.ignored.push(property.to_owned());
            }
        }
        spec
    }

    /// The address, when `what` is one or a network that an address names.
    #[must_use]
    pub fn address(&self) -> Option<IpAddr> {
        self.what.split('/').next().and_then(|address| address.parse().ok())
    }

    /// True for an interface called `name`: `*` stands for any characters, `?` for one.
    #[must_use]
    pub fn matches_name(&self, name: &str) -> bool {
        let pattern: Vec<char> = self.what.chars().collect();
        let name: Vec<char> = name.chars().collect();
        let (mut p, mut n) = (0, 0);
        // Where to go on when the text after the last `*` turns out not to fit.
        let mut retry: Option<(usize, usize)> = None;
        while n < name.len() {
            match pattern.get(p) {
                Some('*') => {
                    retry = Some((p, n));
                    p += 1;
                }
                Some(c) if *c == '?' || *c == name[n] => {
                    p += 1;
                    n += 1;
                }
                _ => {
                    let Some((star, from)) = retry else { return false };
                    retry = Some((star, from + 1));
                    p = star + 1;
                    n = from + 1;
                }
            }
        }
        pattern[p..].iter().all(|c| *c == '*')
    }

    fn take(&mut self, property: &str) -> bool {
        let Some((key, value)) = property.split_once('=') else { return false };
        match key.trim().to_ascii_lowercase().as_str() {
            "if_index" => self.if_index = value.trim().parse().ok(),
            "speed" => self.speed = value.trim().parse().ok(),
            "capability" => match value.trim().to_ascii_uppercase().as_str() {
                "RSS" => self.rss = true,
                "RDMA" => self.rdma = true,
                _ => return false,
            },
            _ => return false,
        }
        match key.trim().to_ascii_lowercase().as_str() {
            "if_index" => self.if_index.is_some(),
            "speed" => self.speed.is_some(),
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_stand_behind_a_semicolon() {
        let spec =
            InterfaceSpec::parse("192.168.1.1/24;if_index=7,speed=1000000000,capability=rss");
        assert_eq!(spec.what, "192.168.1.1/24");
        assert_eq!((spec.if_index, spec.speed), (Some(7), Some(1_000_000_000)));
        assert!(spec.rss && !spec.rdma);
        assert_eq!(spec.address(), Some(IpAddr::from([192, 168, 1, 1])));
    }

    #[test]
    fn properties_that_are_not_understood_are_kept_apart() {
        let spec = InterfaceSpec::parse("eth0;speed=fast,color=red,up,if_index=-1");
        assert_eq!(spec.ignored, ["speed=fast", "color=red", "up", "if_index=-1"]);
        assert_eq!((spec.if_index, spec.speed, spec.address()), (None, None, None));
    }

    #[test]
    fn names_may_be_patterns() {
        for (pattern, name, want) in [
            ("eth*", "eth0", true),
            ("eth*", "eth", true),
            ("e?h0", "eth0", true),
            ("*0", "eth10", true),
            ("*1", "eth10", false),
            ("eth0", "eth01", false),
            ("", "", true),
            ("a*b*c", "axxbyybzzc", true),
        ] {
            let spec = InterfaceSpec::parse(pattern);
            assert_eq!(spec.matches_name(name), want, "{pattern} and {name}");
        }
    }
}
