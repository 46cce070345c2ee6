//! One word of the parameter `interfaces`.

use std::net::IpAddr;

use crate::parameter::nearest_of;
use crate::warning::quoted;

/// An interface with properties set by the operator, in the form
/// `selector;if_index=2,speed=1000000000,capability=RSS`.
///
/// The word needs quotes in the file, because `;` and `,` separate words. Properties that are
/// absent keep the values of the system.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InterfaceSpec {
    /// Name, pattern with `*` and `?`, address, or network as `address/bits` or `address/mask`.
    pub selector: String,
    /// Index to tell clients instead of the kernel's.
    pub if_index: Option<u32>,
    /// Bits per second to tell clients instead of the driver's.
    pub speed: Option<u64>,
    /// Capabilities to tell clients instead of the interface's own.
    pub capability: Option<Capability>,
    /// Properties after the `;` that were not understood.
    pub ignored: Vec<String>,
}

/// Capabilities of an interface: [MS-SMB2] 2.2.32.5.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capability {
    /// Spreads connections over processors: `RSS_CAPABLE`.
    pub rss: bool,
    /// Supports remote direct memory access: `RDMA_CAPABLE`.
    pub rdma: bool,
}

impl InterfaceSpec {
    /// Parses a word. Never fails: properties that are not understood go to `ignored`.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let (selector, properties) = text.split_once(';').unwrap_or((text, ""));
        let mut spec = Self { selector: selector.trim().to_owned(), ..Self::default() };
        // `capability=RSS,RDMA` is one property with two values.
        let mut in_capability = false;
        for property in properties.split(',').map(str::trim).filter(|text| !text.is_empty()) {
            let (key, value) = match property.split_once('=') {
                Some((key, value)) => (key.trim(), value.trim()),
                None if in_capability => (CAPABILITY, property),
                None => ("", property),
            };
            in_capability = key.eq_ignore_ascii_case(CAPABILITY);
            if spec.take(key, value).is_none() {
                spec.ignored.push(property.to_owned());
            }
        }
        spec
    }

    /// Returns a remark for the operator if the word has a fault.
    #[must_use]
    pub fn remark(&self) -> Option<String> {
        if self.selector.contains('=') {
            return Some(format!(
                "`{}` is about no interface; such words need quotes",
                self.selector
            ));
        }
        let ignored: Vec<String> = self.ignored.iter().map(|it| with_hint(it)).collect();
        let ignored = ignored.join(",");
        (!ignored.is_empty()).then(|| format!("not understood of `{}`: {ignored}", self.selector))
    }

    /// Returns the address if `selector` is one, or the address before the `/` of a network.
    #[must_use]
    pub fn address(&self) -> Option<IpAddr> {
        self.selector.split('/').next().and_then(|address| address.parse().ok())
    }

    /// True for an interface called `name`: `*` stands for any characters, `?` for one.
    #[must_use]
    pub fn matches_name(&self, name: &str) -> bool {
        let pattern: Vec<char> = self.selector.chars().collect();
        let name: Vec<char> = name.chars().collect();
        let (mut p, mut n) = (0, 0);
        // Place to continue from if the text after the last `*` does not fit.
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

    /// Sets a property. Returns `None` for a bad value; index 0 and speed 0 do not exist.
    fn take(&mut self, key: &str, value: &str) -> Option<()> {
        match key.to_ascii_lowercase().as_str() {
            "if_index" => self.if_index = Some(value.parse().ok().filter(|index| *index > 0)?),
            "speed" => self.speed = Some(value.parse().ok().filter(|speed| *speed > 0)?),
            CAPABILITY => {
                let known = self.capability.unwrap_or_default();
                self.capability = Some(match value.to_ascii_uppercase().as_str() {
                    "RSS" => Capability { rss: true, ..known },
                    "RDMA" => Capability { rdma: true, ..known },
                    "NONE" => Capability::default(),
                    _ => return None,
                });
            }
            _ => return None,
        }
        Some(())
    }
}

/// Returns a property that was not understood, with the nearest right one if there is one.
fn with_hint(property: &str) -> String {
    let (key, value) = property.split_once('=').unwrap_or((property, ""));
    let (key, value) = (key.trim(), value.trim());
    let capability = |value| {
        nearest_of(value, CAPABILITIES).map(|capability| format!("{CAPABILITY}={capability}"))
    };
    let near = match nearest_of(key, PROPERTIES) {
        Some(near) if !near.eq_ignore_ascii_case(key) => Some(near.to_owned()),
        Some(CAPABILITY) => capability(value),
        Some(_) => None,
        None => capability(key),
    };
    let hint = near.map_or_else(String::new, |near| format!(" (did you mean `{near}`?)"));
    format!("{}{hint}", quoted(property))
}

const PROPERTIES: [&str; 3] = ["if_index", "speed", CAPABILITY];
const CAPABILITIES: [&str; 3] = ["RSS", "RDMA", "NONE"];

/// Property that may have several values.
const CAPABILITY: &str = "capability";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_stand_behind_a_semicolon() {
        let spec =
            InterfaceSpec::parse("192.168.1.1/24;if_index=7,speed=1000000000,capability=rss");
        assert_eq!(spec.selector, "192.168.1.1/24");
        assert_eq!((spec.if_index, spec.speed), (Some(7), Some(1_000_000_000)));
        assert_eq!(spec.capability, Some(Capability { rss: true, rdma: false }));
        assert_eq!(spec.address(), Some(IpAddr::from([192, 168, 1, 1])));
        assert_eq!(spec.remark(), None);
    }

    #[test]
    fn an_interface_has_the_capabilities_that_are_listed_and_no_others() {
        let both = Some(Capability { rss: true, rdma: true });
        for (text, want) in [
            ("eth0;speed=1", None),
            ("eth0;capability=NONE", Some(Capability::default())),
            ("eth0;capability=RDMA", Some(Capability { rss: false, rdma: true })),
            ("eth0;capability=RSS,RDMA", both),
            ("eth0;capability=RSS,capability=RDMA,speed=7", both),
            ("eth0; speed=7, Capability = rdma , rss", both),
        ] {
            let spec = InterfaceSpec::parse(text);
            assert_eq!((spec.capability, spec.remark()), (want, None), "{text}");
        }
    }

    #[test]
    fn properties_that_are_not_understood_are_kept_apart() {
        let spec = InterfaceSpec::parse(
            "eth0;RSS,speed=fast,color=red,up,if_index=-1,speed=0,if_index=0,capability=fast,",
        );
        let ignored = [
            "RSS",
            "speed=fast",
            "color=red",
            "up",
            "if_index=-1",
            "speed=0",
            "if_index=0",
            "capability=fast",
        ];
        assert_eq!(spec.ignored, ignored);
        let eth0 = InterfaceSpec { selector: "eth0".to_owned(), ..InterfaceSpec::default() };
        assert_eq!(InterfaceSpec { ignored: Vec::new(), ..spec.clone() }, eth0);
        let remark = spec.remark().expect("there is much to say");
        let want = "not understood of `eth0`: RSS (did you mean `capability=RSS`?),speed=fast,";
        assert!(remark.starts_with(want), "{remark}");
    }

    #[test]
    fn misspelled_properties_are_met_with_those_they_resemble() {
        for (text, want) in [
            ("eth0;sped=1000", "sped=1000 (did you mean `speed`?)"),
            ("eth0;capability=RSX", "capability=RSX (did you mean `capability=RSS`?)"),
            ("eth0;color=red", "color=red"),
        ] {
            let remark = InterfaceSpec::parse(text).remark();
            let want = format!("not understood of `eth0`: {want}");
            assert_eq!(remark.as_deref(), Some(want.as_str()));
        }
    }

    #[test]
    fn properties_that_lost_their_interface_for_want_of_quotes_are_remarked_upon() {
        for word in ["speed=1000", "sped=1000"] {
            let remark = InterfaceSpec::parse(word).remark().expect("no interface is so called");
            assert!(remark.contains("need quotes"), "{remark}");
        }
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
