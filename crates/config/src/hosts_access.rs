//! `hosts allow` and `hosts deny`.
//!
//! A word is `ALL`, an address, a network as `address/bits` or `address/mask`, or the beginning of
//! an IPv4 address that ends with a dot. `EXCEPT` excludes the words after it from those before it.
//!
//! Samba also accepts names (`pc.example`, `.example`, `LOCAL`) and looks up the client's address
//! in the name service. The owner of an address decides its name, and every connection would wait
//! for the answer, so names match no client here. Where this would admit a client that the operator
//! meant to exclude, the configuration is refused: see [`names`].

use std::net::IpAddr;

/// Returns true if a client of this address may connect.
///
/// Both lists empty: yes. One empty: the other decides. Neither empty: `allow` outweighs `deny`,
/// and clients on neither list may connect. The loopback address may unless `deny` names it and
/// `allow` does not, because the server's own tools use it.
pub fn allows<W: AsRef<str>>(allow: &[W], deny: &[W], address: IpAddr) -> bool {
    let client = Client { address: address.to_canonical() };
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

/// Returns words that match no client: malformed networks, and groups.
#[must_use]
pub fn malformed<W: AsRef<str>>(words: &[W]) -> Vec<&str> {
    let words = words.iter().map(AsRef::as_ref);
    let is_network = |word: &str| word.contains('/') && Network::parse(word).is_none();
    words.filter(|word| is_network(word) || word.starts_with('@')).collect()
}

/// Returns the words that are names, which match no client.
#[must_use]
pub fn names<W: AsRef<str>>(words: &[W]) -> Vec<Name<'_>> {
    let mut is_excepted = false;
    let mut names = Vec::new();
    for word in words.iter().map(AsRef::as_ref) {
        if is(word, EXCEPT) {
            is_excepted = !is_excepted;
        } else if is_name(word) {
            names.push(Name { word, is_excepted });
        }
    }
    names
}

/// Returns the word for all addresses of one version of IP, if the list has no such word for the
/// other version.
#[must_use]
pub fn half_of_all<W: AsRef<str>>(words: &[W]) -> Option<&str> {
    let all_of = |word: &str, is_ipv4| {
        let network = Network::parse(word);
        is(word, ALL) || network.is_some_and(|it| it.mask == 0 && it.address.is_ipv4() == is_ipv4)
    };
    let find = |is_ipv4| words.iter().map(AsRef::as_ref).find(|word| all_of(word, is_ipv4));
    find(true).xor(find(false))
}

/// A host name in a list, which matches no client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name<'a> {
    /// The name as the operator wrote it.
    pub word: &'a str,
    /// True behind an `EXCEPT`, where the word excludes clients; a second `EXCEPT` includes them
    /// again.
    pub is_excepted: bool,
}

const ALL: &str = "ALL";
const EXCEPT: &str = "EXCEPT";

fn is(word: &str, known: &str) -> bool {
    word.eq_ignore_ascii_case(known)
}

fn is_name(word: &str) -> bool {
    !(is(word, ALL)
        || word.contains('/')
        || word.starts_with('@')
        || is_beginning(word)
        || word.parse::<IpAddr>().is_ok())
}

/// True for one to three numbers of an IPv4 address, each with a dot behind it and written as
/// addresses are.
fn is_beginning(word: &str) -> bool {
    let Some(numbers) = word.strip_suffix('.') else { return false };
    let is_number = |text: &str| text.parse::<u8>().is_ok_and(|it| it.to_string() == text);
    numbers.split('.').count() <= 3 && numbers.split('.').all(is_number)
}

struct Client {
    address: IpAddr,
}

impl Client {
    fn is_on<W: AsRef<str>>(&self, list: &[W]) -> bool {
        // `a EXCEPT b EXCEPT c` is `a EXCEPT (b EXCEPT c)`; read from the back, no recursion.
        let groups = list.split(|word| is(word.as_ref(), EXCEPT));
        groups.rev().fold(false, |excepted, group| {
            group.iter().any(|word| self.matches(word.as_ref())) && !excepted
        })
    }

    fn matches(&self, word: &str) -> bool {
        if is(word, ALL) {
            return true;
        }
        if word.contains('/') {
            return Network::parse(word).is_some_and(|network| network.contains(self.address));
        }
        if let Ok(address) = word.parse::<IpAddr>() {
            return address.to_canonical() == self.address;
        }
        is_beginning(word) && self.address.to_string().starts_with(word)
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
        if address.to_canonical() != address {
            // A network of IPv4 written as one of IPv6: clients are compared by their IPv4 address.
            return None;
        }
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

/// Returns a number with the lowest `count` bits set.
fn ones(count: u32) -> u128 {
    u128::MAX.checked_shl(count).map_or(u128::MAX, |high| !high)
}

#[cfg(test)]
mod tests;
