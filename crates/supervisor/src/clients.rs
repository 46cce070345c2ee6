//! The clients that are served, with their addresses and logons.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::ops::Range;

use tables::{LOGON_SLOTS, Logon, LogonPage};

use super::admission::{Count, Network, Source};

/// Clients with one logon that a network has before it is ranked by their number. Clients of an
/// office's network that log on together are fewer, and do not make room for other networks.
const NETWORK_FREE: usize = 16;

/// A client that is served.
#[derive(Clone, Copy, Debug)]
struct Client {
    pid: u32,
    source: Source,
    address: IpAddr,
    logon: Logon,
    /// Position in the order of arrival.
    number: u64,
}

/// The clients that are served, each by a worker of its own.
#[derive(Debug)]
pub(super) struct Clients {
    page: LogonPage,
    /// Slots whose workers have ended.
    free: Vec<usize>,
    /// Slots that had no worker yet. They are not in `free`, because each fork would copy a list
    /// of all of them.
    fresh: Range<usize>,
    by_slot: HashMap<usize, Client>,
    of_source: HashMap<Source, Count>,
    of_network: HashMap<Network, Count>,
    /// Sums of the sources that may be one machine, by [`Source::as_stranger`].
    of_machine: HashMap<Source, Count>,
    all: Count,
    admitted: u64,
}

impl Clients {
    /// Begins with no client on any slot.
    pub(super) fn new(page: LogonPage) -> Self {
        Self {
            page,
            free: Vec::new(),
            fresh: 0..LOGON_SLOTS,
            by_slot: HashMap::new(),
            of_source: HashMap::new(),
            of_network: HashMap::new(),
            of_machine: HashMap::new(),
            all: Count::default(),
            admitted: 0,
        }
    }

    /// Takes a slot of the page for a new worker; `None` when no slot is free.
    pub(super) fn take_slot(&mut self) -> Option<usize> {
        let slot = self.free.pop().or_else(|| self.fresh.next())?;
        self.page.set(slot, Logon::Nobody);
        Some(slot)
    }

    /// Returns the page, in a process that becomes a worker.
    pub(super) fn into_page(self) -> LogonPage {
        // Freeing the maps of many clients would delay a process with a short life.
        let Self { page, free, by_slot, of_source, of_network, of_machine, .. } = self;
        std::mem::forget((free, by_slot, of_source, of_network, of_machine));
        page
    }

    /// Enters the client that was handed to the worker of `slot`.
    pub(super) fn enter(&mut self, slot: usize, pid: u32, source: Source, address: IpAddr) {
        self.admitted += 1;
        let (logon, number) = (Logon::Nobody, self.admitted);
        let client = Client { pid, source, address, logon, number };
        self.by_slot.insert(slot, client);
        self.count_in(source, Logon::Nobody);
    }

    /// Removes the client of the worker of `slot`, and returns its address.
    pub(super) fn leave(&mut self, slot: usize) -> Option<Source> {
        let Client { source, logon, .. } = self.by_slot.remove(&slot)?;
        self.count_out(source, logon);
        Some(source)
    }

    /// Frees the slot of a worker that has ended, and returns its client's address, if that had not
    /// left.
    pub(super) fn free_slot(&mut self, slot: usize) -> Option<Source> {
        let source = self.leave(slot);
        self.free.push(slot);
        source
    }

    /// Reads the logons that workers have written since the last call. Returns the sources and
    /// addresses of clients that have become users.
    pub(super) fn take_new_users(&mut self) -> Vec<(Source, IpAddr)> {
        let changed: Vec<(usize, Logon)> = self.page.take_changed().collect();
        let mut of_users = Vec::new();
        for (slot, logon) in changed {
            let Some(client) = self.by_slot.get_mut(&slot) else { continue };
            let Client { source, address, .. } = *client;
            let before = std::mem::replace(&mut client.logon, logon);
            self.count_in(source, logon);
            self.count_out(source, before);
            if logon == Logon::User && before != Logon::User {
                of_users.push((source, address));
            }
        }
        of_users
    }

    /// Returns the numbers of all clients.
    pub(super) fn all(&self) -> Count {
        self.all
    }

    /// Returns the numbers of the clients of one address.
    pub(super) fn of_source(&self, source: Source) -> Count {
        self.of_source.get(&source).copied().unwrap_or_default()
    }

    /// Returns the number of clients of the machine that has this address, which may have the rest
    /// of its IPv6 network as well.
    pub(super) fn of_machine(&self, source: Source) -> usize {
        self.of_machine.get(&source.as_stranger()).map_or(0, |count| count.all())
    }

    /// Removes the guest that makes room, and returns its worker's pid: the newest guest of the
    /// address with most guests, in the network with most if one has many. So later guests do not
    /// disturb one that works, and an address with many guests pays before one with few.
    pub(super) fn take_guest(&mut self) -> Option<u32> {
        self.take(Logon::Guest, |client, count| (count, client.number))
    }

    /// Removes the newest guest of an address, and returns its worker's pid.
    pub(super) fn take_guest_of(&mut self, source: Source) -> Option<u32> {
        let guests = self
            .by_slot
            .iter()
            .filter(|(_, client)| client.source == source && client.logon == Logon::Guest);
        let newest = guests.map(|(slot, client)| (client.number, *slot, client.pid)).max();
        self.remove(newest)
    }

    /// Removes a client that waits for its logon, and returns its worker's pid: the newest of the
    /// address with most of them, in the network with most if one has many. Where no address has
    /// several, it is the one that waits longest: a user logs on in a moment, and many addresses
    /// with one client each may be one machine's.
    pub(super) fn take_waiting(&mut self) -> Option<u32> {
        self.take(Logon::Nobody, |client, count| {
            let order = match count {
                1 => u64::MAX - client.number,
                _ => client.number,
            };
            (count, order)
        })
    }

    /// Removes a client with this logon, of the network with most of them if one has more than
    /// [`NETWORK_FREE`]; among those the one with the highest rank, by their number at its address.
    fn take<R: Ord>(&mut self, logon: Logon, rank: impl Fn(&Client, usize) -> R) -> Option<u32> {
        let clients = self.by_slot.iter().filter(|(_, client)| client.logon == logon);
        let ranked = clients.map(|(slot, client)| {
            let mut of_network =
                self.of_network.get(&client.source.into()).copied().unwrap_or_default();
            let in_network = Some(*of(&mut of_network, logon)).filter(|it| *it > NETWORK_FREE);
            let at_address = *of(&mut self.of_source(client.source), logon);
            ((in_network, rank(client, at_address)), *slot, client.pid)
        });
        let first = ranked.max();
        self.remove(first)
    }

    fn remove<R>(&mut self, ranked: Option<(R, usize, u32)>) -> Option<u32> {
        let (_, slot, pid) = ranked?;
        self.leave(slot);
        Some(pid)
    }

    fn count_in(&mut self, source: Source, logon: Logon) {
        *of(&mut self.all, logon) += 1;
        *of(self.of_source.entry(source).or_default(), logon) += 1;
        *of(self.of_network.entry(source.into()).or_default(), logon) += 1;
        *of(self.of_machine.entry(source.as_stranger()).or_default(), logon) += 1;
    }

    fn count_out(&mut self, source: Source, logon: Logon) {
        *of(&mut self.all, logon) -= 1;
        uncount(&mut self.of_source, source, logon);
        uncount(&mut self.of_network, source.into(), logon);
        uncount(&mut self.of_machine, source.as_stranger(), logon);
    }
}

/// Counts a client out, and forgets a key without clients.
fn uncount<K: Eq + Hash>(counts: &mut HashMap<K, Count>, key: K, logon: Logon) {
    let Some(count) = counts.get_mut(&key) else { return };
    *of(count, logon) -= 1;
    if *count == Count::default() {
        counts.remove(&key);
    }
}

fn of(count: &mut Count, logon: Logon) -> &mut usize {
    match logon {
        Logon::Nobody => &mut count.nobody,
        Logon::Guest => &mut count.guests,
        Logon::User => &mut count.users,
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use config::Startups;
    use tables::{Logon, LogonPage};

    use super::super::admission::Limits;
    use super::{Clients, Count, Source};

    fn address(number: u8) -> IpAddr {
        [192, 0, 2, number].into()
    }

    fn source(number: u8) -> Source {
        address(number).into()
    }

    /// Returns clients, and the page from a worker's side.
    fn clients() -> (Clients, LogonPage, tempfile::TempDir) {
        let folder = tempfile::tempdir().expect("there is space");
        let clients = Clients::new(LogonPage::create(folder.path()).expect("there is space"));
        (clients, LogonPage::join(folder.path()).expect("it was made"), folder)
    }

    fn enter(clients: &mut Clients, pid: u32, from: u8) -> usize {
        let slot = clients.take_slot().expect("there are many");
        clients.enter(slot, pid, source(from), address(from));
        slot
    }

    #[test]
    fn a_client_counts_by_its_workers_logon_state_until_it_leaves() {
        let (mut clients, page, _folder) = clients();
        let (first, second) = (enter(&mut clients, 1, 1), enter(&mut clients, 2, 1));
        assert_eq!(clients.of_source(source(1)), Count { nobody: 2, guests: 0, users: 0 });
        page.set(first, Logon::Guest);
        page.set(first, Logon::User);
        page.set(second, Logon::Guest);
        clients.take_new_users();
        let both = Count { nobody: 0, guests: 1, users: 1 };
        assert_eq!((clients.all(), clients.of_source(source(1))), (both, both));
        assert_eq!(clients.of_source(source(2)), Count::default());
        assert_eq!(clients.free_slot(first), Some(source(1)));
        assert_eq!(clients.leave(second), Some(source(1)));
        assert_eq!(clients.free_slot(second), None, "it has left already");
        assert_eq!(clients.all(), Count::default());
        assert!(clients.of_source.is_empty(), "no address is kept without a client");
        assert!(clients.of_network.is_empty(), "nor is its network");
        assert!(clients.of_machine.is_empty(), "nor is its machine");
    }

    #[test]
    fn a_client_becomes_a_user_once() {
        let (mut clients, page, _folder) = clients();
        let (first, second) = (enter(&mut clients, 1, 1), enter(&mut clients, 2, 2));
        page.set(first, Logon::Guest);
        page.set(second, Logon::User);
        assert_eq!(clients.take_new_users(), [(source(2), address(2))]);
        page.set(first, Logon::User);
        page.set(second, Logon::User);
        assert_eq!(clients.take_new_users(), [(source(1), address(1))]);
        assert_eq!(clients.take_new_users(), []);
    }

    #[test]
    fn a_reused_place_has_nothing_of_its_earlier_client() {
        let (mut clients, page, _folder) = clients();
        let slot = enter(&mut clients, 1, 1);
        page.set(slot, Logon::User);
        clients.free_slot(slot);
        assert_eq!(enter(&mut clients, 2, 2), slot);
        clients.take_new_users();
        assert_eq!(clients.all(), Count { nobody: 1, guests: 0, users: 0 });
    }

    #[test]
    fn the_latest_guest_of_the_address_with_most_guests_is_closed_first() {
        let (mut clients, page, _folder) = clients();
        for (pid, from, logon) in [
            (1, 1, Logon::Guest),
            (2, 2, Logon::Guest),
            (3, 1, Logon::Guest),
            (4, 3, Logon::User),
            (5, 1, Logon::Nobody),
            (6, 4, Logon::Guest),
        ] {
            page.set(enter(&mut clients, pid, from), logon);
        }
        clients.take_new_users();
        let taken: Vec<u32> = std::iter::from_fn(|| clients.take_guest()).collect();
        assert_eq!(taken, [3, 6, 2, 1]);
        assert_eq!(clients.all(), Count { nobody: 1, guests: 0, users: 1 });
    }

    #[test]
    fn of_waiting_clients_the_busiest_address_and_then_the_longest_wait_is_closed_first() {
        let (mut clients, _page, _folder) = clients();
        for (pid, from) in [(1, 1), (2, 2), (3, 2), (4, 3)] {
            enter(&mut clients, pid, from);
        }
        let taken: Vec<u32> = std::iter::from_fn(|| clients.take_waiting()).collect();
        assert_eq!(taken, [3, 1, 2, 4]);
        assert_eq!(clients.all(), Count::default());
    }

    /// Enters a client for each address, the pids counting up.
    fn enter_all(clients: &mut Clients, page: &LogonPage, logon: Logon, from: &[String]) {
        for address in from {
            let slot = clients.take_slot().expect("there are many");
            let address = address.parse::<IpAddr>().expect("it is one");
            clients.enter(slot, u32::try_from(slot).expect("it is low"), address.into(), address);
            page.set(slot, logon);
        }
        clients.take_new_users();
    }

    /// Returns how many of 40 clients that make room are outside the attacker's networks.
    fn others_taken(logon: Logon, attackers: &[String]) -> usize {
        let (mut clients, page, _folder) = clients();
        let mut others: Vec<String> = (1..=16).map(|host| format!("192.0.2.{host}")).collect();
        // Sixteen from one place, an address with two clients, and one that has waited for long.
        others.extend(["203.0.113.1", "203.0.113.1", "2001:db8:9::1"].map(str::to_owned));
        enter_all(&mut clients, &page, logon, &others);
        enter_all(&mut clients, &page, logon, attackers);
        for _ in 0..40 {
            let taken = match logon {
                Logon::Guest => clients.take_guest(),
                _ => clients.take_waiting(),
            };
            taken.expect("there are more");
        }
        let is_attacker = |it: &Source| {
            attackers.iter().any(|a| a.parse::<IpAddr>().is_ok_and(|a| Source::from(a) == *it))
        };
        let left = clients.of_source.iter().filter(|(source, _)| !is_attacker(source));
        others.len() - left.map(|(_, count)| count.all()).sum::<usize>()
    }

    #[test]
    fn one_network_of_many_addresses_is_closed_before_one_address_with_several() {
        let of_48: Vec<_> = (0..100).map(|it| format!("2001:db8:1:{it:x}::1")).collect();
        let of_24: Vec<_> = (0..100).map(|it| format!("198.51.100.{it}")).collect();
        for attackers in [of_48, of_24] {
            for logon in [Logon::Nobody, Logon::Guest] {
                assert_eq!(others_taken(logon, &attackers), 0, "{logon:?}");
            }
        }
    }

    /// A user makes an address familiar by a logon, and then has another one.
    #[test]
    fn familiar_addresses_of_one_network_do_not_have_the_last_quarter_of_all_places_together() {
        let startups = Startups { start: 100, rate: 50, full: 400 };
        let limits =
            Limits { clients: 16, guests: 4, per_address: None, startups, is_budget_spent: false };
        let (mut clients, _page, _folder) = clients();
        let address = |text: &str| text.parse::<IpAddr>().expect("it is one");
        let [first, second] = ["2001:db8::1", "2001:db8::2"].map(address);
        let enter = |clients: &mut Clients, address| {
            let slot = clients.take_slot().expect("there are many");
            clients.enter(slot, 1, Source::familiar(address), address);
            slot
        };
        let slots: Vec<usize> = [first, second]
            .into_iter()
            .flat_map(|it| [it; 6])
            .map(|it| enter(&mut clients, it))
            .collect();
        let is_refused =
            |clients: &Clients, source| limits.is_share_taken(clients.of_machine(source));
        for source in [Source::familiar(first), Source::familiar(second), second.into()] {
            assert!(is_refused(&clients, source), "{source}");
        }
        assert!(!is_refused(&clients, address("2001:db8:0:1::1").into()), "another network");
        clients.free_slot(slots[0]);
        assert!(!is_refused(&clients, Source::familiar(second)), "one has left");
    }

    #[test]
    fn a_few_clients_of_one_network_do_not_make_room_for_many_networks() {
        let (mut clients, page, _folder) = clients();
        let strangers: Vec<_> = (0..50).map(|it| format!("2001:db8:{it:x}::1")).collect();
        enter_all(&mut clients, &page, Logon::Nobody, &strangers);
        let office: Vec<_> = (1..=16).map(|it| format!("192.0.2.{it}")).collect();
        enter_all(&mut clients, &page, Logon::Nobody, &office);
        let taken: Vec<u32> = (0..50).filter_map(|_| clients.take_waiting()).collect();
        assert_eq!(taken, Vec::from_iter(0..50), "those who wait longest");
    }

    #[test]
    fn the_newest_guest_of_an_address_makes_room_there() {
        let (mut clients, page, _folder) = clients();
        for (pid, from, logon) in [
            (1, 1, Logon::Guest),
            (2, 1, Logon::Guest),
            (3, 1, Logon::User),
            (4, 1, Logon::Nobody),
            (5, 2, Logon::Guest),
        ] {
            page.set(enter(&mut clients, pid, from), logon);
        }
        clients.take_new_users();
        let taken: Vec<u32> = std::iter::from_fn(|| clients.take_guest_of(source(1))).collect();
        assert_eq!(taken, [2, 1]);
        assert_eq!(clients.all(), Count { nobody: 1, guests: 1, users: 1 });
    }
}
