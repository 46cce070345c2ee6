//! `hosts allow` and `hosts deny`.
//!
//! A word is `ALL`, `LOCAL` (a name without a dot), an address, a network as `address/bits` or
//! `address/mask`, the beginning of an address that ends with a dot, a name, or the end of a name
//! that begins with a dot. `EXCEPT` takes what stands behind it out of what stands before it.

use std::net::IpAddr;

/// May a client of this address, and this name if it is known, connect?
///
/// Both lists empty: yes. One empty: the other decides. Both there: `allow` outweighs `deny`, and
/// who is on neither may. The loopback address may unless `deny` names it and `allow` does not,
/// because the server's own tools use it.
pub fn allows<W: AsRef<str>>(allow: &[W], deny: &[W], address: IpAddr, name: Option<&str>) -> bool {
    let client = Client { address: address.to_canonical(), name };
    let denied = || client.is_on(deny);
    if client.address.is_loopback() {
        return !denied() || client.is_on(allow);
    }
    match (allow.is_empty(), deny.is_empty()) {
        (true, true) => true,
        (false, true) => client.is_on(allow),
        (true, false) => !denied(),
        (false, false) => client.is_on(allow) || !denied(),
    }
}

/// Words that no client can match, because they look like a network or a group and are none.
#[must_use]
pub fn malformed<W: AsRef<str>>(words: &[W]) -> Vec<&str> {
    let words = words.iter().map(AsRef::as_ref);
    let is_network = |word: &str| word.contains('/') && Network::parse(word).is_none();
    words.filter(|word| is_network(word) || word.starts_with('@')).collect()
}

/// True when a word can only match by the client's name, so that looking it up is worth the time.
#[must_use]
pub fn needs_name<W: AsRef<str>>(words: &[W]) -> bool {
    let by_address = |word: &str| {
        ["ALL", "EXCEPT"].iter().any(|known| word.eq_ignore_ascii_case(known))
            || word.contains('/')
            || word.ends_with('.')
            || word.starts_with('@')
            || word.parse::<IpAddr>().is_ok()
    };
    words.iter().any(|word| !by_address(word.as_ref()))
}

struct Client<'a> {
    address: IpAddr,
    name: Option<&'a str>,
}

impl Client<'_> {
    fn is_on<W: AsRef<str>>(&self, list: &[W]) -> bool {
        // `a EXCEPT b EXCEPT c` is `a EXCEPT (b EXCEPT c)`; read from the back, no recursion.
        let groups = list.split(|word| word.as_ref().eq_ignore_ascii_case("EXCEPT"));
        groups.rev().fold(false, |excepted, group| {
            group.iter().any(|word| self.matches(word.as_ref())) && !excepted
        })
    }

    fn matches(&self, word: &str) -> bool {
        if word.eq_ignore_ascii_case("ALL") {
            return true;
        }
        if word.eq_ignore_ascii_case("LOCAL") {
            return self.name.is_some_and(|name| !name.is_empty() && !name.contains('.'));
        }
        if word.contains('/') {
            return Network::parse(word).is_some_and(|network| network.contains(self.address));
        }
        if let Ok(address) = word.parse::<IpAddr>() {
            return address.to_canonical() == self.address;
        }
        if word.len() > 1 && word.ends_with('.') {
            return self.address.to_string().starts_with(word);
        }
        let Some(name) = self.name else { return false };
        if word.len() > 1 && word.starts_with('.') {
            return name.to_lowercase().ends_with(&word.to_lowercase());
        }
        name.to_lowercase() == word.to_lowercase()
    }
}

/// A network; bits outside the mask are compared as zero on both sides.
struct Network {
    address: IpAddr,
    mask: u128,
}

impl Network {
    fn parse(word: &str) -> Option<Self> {
        let (address, mask) = word.split_once('/')?;
        let address: IpAddr = address.parse().ok()?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        let mask = match mask.parse::<IpAddr>() {
            Ok(mask) if mask.is_ipv4() == address.is_ipv4() => number(mask),
            Ok(_) => return None,
            Err(_) => {
                let bits = mask.parse::<u32>().ok().filter(|bits| *bits <= width)?;
                ones(width) & !ones(width - bits)
            }
        };
        Some(Self { address, mask })
    }

    fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.address.is_ipv4()
            && number(address) & self.mask == number(self.address) & self.mask
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// The lowest `count` bits.
fn ones(count: u32) -> u128 {
    u128::MAX.checked_shl(count).map_or(u128::MAX, |high| !high)
}

#[cfg(test)]
mod tests;
