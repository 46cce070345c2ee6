//! Classes: whose requests they are for, and what they may have.

use std::net::IpAddr;
use std::sync::Arc;

use dtyp::name_expression::NameExpression;

use crate::device::DeviceId;

/// Classes of a configuration at most. Each has a slot in memory that all workers share.
pub const CLASSES_MAX: usize = 256;

/// A class of requests.
#[derive(Clone, Debug)]
pub struct Class {
    /// Its name, unique in the configuration.
    pub name: String,
    /// A request belongs to the class if one of these holds for it.
    pub matches: Vec<Match>,
    /// What all of its requests together may have.
    pub limits: Limits,
    /// Credits that a client in it may hold; nothing for the server's own maximum.
    pub max_credits: Option<u32>,
    /// Whether a request that is held is answered with an interim response.
    pub interim_responses: InterimResponses,
}

/// Conditions that have to hold together.
#[derive(Clone, Debug, Default)]
pub struct Match {
    /// The client's address is in one of these networks.
    pub clients: Vec<Network>,
    /// The user has one of these names, whatever the case.
    pub users: Vec<String>,
    /// The user is in one of these groups.
    pub groups: Vec<String>,
    /// The share has one of these names, whatever the case.
    pub shares: Vec<String>,
    /// The file's name fits one of these patterns; where a pattern has a slash, its path does.
    pub files: Vec<String>,
}

/// Addresses with the same first bits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Network {
    /// One of them.
    pub address: IpAddr,
    /// How many bits they have in common.
    pub bits: u8,
}

/// What a class may have, and what part of a busy storage is its own.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Limits {
    /// By [`Meter`]; nothing for no limit, and for no part of its own.
    pub numbers: [Option<u64>; Meter::COUNT],
    /// Bytes that may be had at once after a pause, beyond what a moment brings.
    pub burst_bytes: u64,
}

/// What is counted: first what is limited in a second, then what says which part of a busy storage is
/// a class's own.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Meter {
    /// Bytes read and written.
    Bandwidth,
    /// Bytes read.
    ReadBandwidth,
    /// Bytes written.
    WriteBandwidth,
    /// Operations of any kind.
    Iops,
    /// READs.
    ReadIops,
    /// WRITEs.
    WriteIops,
    /// What it has for each that a class of weight 1 has.
    Weight,
    /// Those with a higher one come first.
    Priority,
    /// Bytes a second that it has whatever others want.
    MinBandwidth,
    /// Operations a second that it has whatever others want.
    MinIops,
    /// Nanoseconds that its requests are to take at most.
    LatencyTarget,
}

impl Meter {
    /// How many there are.
    pub const COUNT: usize = 11;

    /// All of them, with the names of their parameters.
    pub const NAMES: [(Self, &'static str); Self::COUNT] = [
        (Self::Bandwidth, "max bandwidth"),
        (Self::ReadBandwidth, "max read bandwidth"),
        (Self::WriteBandwidth, "max write bandwidth"),
        (Self::Iops, "max iops"),
        (Self::ReadIops, "max read iops"),
        (Self::WriteIops, "max write iops"),
        (Self::Weight, "weight"),
        (Self::Priority, "priority"),
        (Self::MinBandwidth, "min bandwidth"),
        (Self::MinIops, "min iops"),
        (Self::LatencyTarget, "latency target"),
    ];

    /// Those that give a class a part of its own.
    pub const PARTS: [Self; 5] =
        [Self::Weight, Self::Priority, Self::MinBandwidth, Self::MinIops, Self::LatencyTarget];

    /// The name of its parameter.
    #[must_use]
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize].1
    }

    /// Whether it counts bytes; otherwise operations.
    #[must_use]
    pub const fn is_bytes(self) -> bool {
        matches!(
            self,
            Self::Bandwidth | Self::ReadBandwidth | Self::WriteBandwidth | Self::MinBandwidth
        )
    }
}

/// `interim responses`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum InterimResponses {
    /// While there is much room for further requests of the client.
    #[default]
    Auto,
    /// Never: a client has no credits back before its requests are done.
    No,
    /// Always.
    Yes,
}

/// What a request takes of its classes' limits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Cost {
    /// What it does.
    pub kind: Kind,
    /// Bytes that it moves.
    pub bytes: u64,
    /// Bytes of memory that it has while it waits: what it brought with it, as long as a client
    /// made that.
    pub kept: u64,
}

impl Cost {
    /// Bytes that it takes of what a client may have waiting.
    #[must_use]
    pub const fn held(&self) -> u64 {
        if self.kept > self.bytes { self.kept } else { self.bytes }
    }
}

/// What a request does.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Kind {
    /// Reads a file.
    Read,
    /// Writes a file.
    Write,
    /// Anything else that the store has to do.
    Metadata,
}

impl Cost {
    /// The meters that it moves, each by how much.
    pub fn meters(self) -> impl Iterator<Item = (Meter, u64)> {
        let of_kind = match self.kind {
            Kind::Read => [Some((Meter::ReadBandwidth, self.bytes)), Some((Meter::ReadIops, 1))],
            Kind::Write => [Some((Meter::WriteBandwidth, self.bytes)), Some((Meter::WriteIops, 1))],
            Kind::Metadata => [None, None],
        };
        let all = [Some((Meter::Bandwidth, self.bytes)), Some((Meter::Iops, 1))];
        of_kind.into_iter().chain(all).flatten().filter(|(_, amount)| *amount > 0)
    }
}

/// Who asks, and by which share.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    /// Where the client is.
    pub client: IpAddr,
    /// The user's name.
    pub user: &'a str,
    /// Whether the user is in a group of this name.
    pub is_in_group: &'a dyn Fn(&str) -> bool,
    /// The share's name as configured.
    pub share: &'a str,
}

impl std::fmt::Debug for Subject<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { client, user, share, .. } = self;
        write!(f, "{user} at {client} in {share}")
    }
}

/// Names a class: its place in the memory that all workers share.
pub type ClassId = u16;

/// The classes of a request, and the device that it is for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Classes {
    /// Each once, those of files first. Shared by all requests that have the same.
    pub ids: Arc<[ClassId]>,
    /// Where what it asks for is stored, if classes share that.
    pub device: Option<DeviceId>,
}

impl Classes {
    /// Nothing if neither is anything: such a request pays for nothing.
    fn of(ids: Vec<ClassId>, device: Option<DeviceId>) -> Option<Self> {
        (!ids.is_empty() || device.is_some()).then(|| Self { ids: ids.into(), device })
    }
}

/// The classes of a tree connect's requests, as far as they depend on nothing but who asks.
#[derive(Clone, Debug, Default)]
pub struct Membership {
    /// Those that all of its requests belong to.
    pub always: Option<Classes>,
    /// Those of files of certain names, by how these end: there may be many, and as a rule the end
    /// alone tells that none of them fits.
    by_file: Vec<Pattern>,
    /// The least of what its classes let a client hold.
    pub max_credits: Option<u32>,
    /// Whether a request that is held is answered with an interim response: not if one class says
    /// so.
    pub interim_responses: InterimResponses,
}

/// Names of files that belong to a class.
#[derive(Clone, Debug)]
struct Pattern {
    class: ClassId,
    expression: NameExpression,
    /// It is meant for the path from the share's root.
    is_path: bool,
    /// What it ends with, in upper case, if that is no wildcard.
    last: Option<u8>,
}

impl Membership {
    /// The classes, each with its place, whose requests those of `subject` are.
    pub fn of<'c>(
        classes: impl IntoIterator<Item = (ClassId, &'c Class)>,
        subject: Subject<'_>,
    ) -> Self {
        let (mut always, mut by_file, mut max_credits) = (Vec::new(), Vec::new(), None);
        let mut interim_responses = InterimResponses::Auto;
        for (id, class) in classes {
            let fitting: Vec<&Match> =
                class.matches.iter().filter(|it| it.holds_for(subject)).collect();
            if fitting.is_empty() {
                continue;
            }
            interim_responses = match (interim_responses, class.interim_responses) {
                (InterimResponses::No, _) | (_, InterimResponses::No) => InterimResponses::No,
                (InterimResponses::Yes, _) | (_, InterimResponses::Yes) => InterimResponses::Yes,
                _ => InterimResponses::Auto,
            };
            if fitting.iter().all(|it| !it.files.is_empty()) {
                let patterns = fitting.iter().flat_map(|it| &it.files);
                by_file.extend(patterns.map(|pattern| Pattern::new(id, pattern)));
                continue;
            }
            always.push(id);
            // What a client holds is held for all of its shares and files: one of them alone cannot
            // have less.
            if fitting.iter().any(|it| it.is_about_the_client()) {
                let least = |max: u32| class.max_credits.map_or(max, |of_class| max.min(of_class));
                max_credits = max_credits.map(least).or(class.max_credits);
            }
        }
        by_file.sort_by_key(|pattern| pattern.last);
        Self { always: Classes::of(always, None), by_file, max_credits, interim_responses }
    }

    /// The same for what is stored on a device.
    #[must_use]
    pub fn on(self, device: Option<DeviceId>) -> Self {
        let ids = self.always.map(|classes| classes.ids.to_vec()).unwrap_or_default();
        Self { always: Classes::of(ids, device), ..self }
    }

    /// The device of all of its requests.
    #[must_use]
    pub fn device(&self) -> Option<DeviceId> {
        self.always.as_ref()?.device
    }

    /// The classes of a file's requests; `path` is from the share's root, with slashes or
    /// backslashes.
    #[must_use]
    pub fn of_file(&self, path: &str) -> Option<Classes> {
        if self.by_file.is_empty() {
            return self.always.clone();
        }
        let path = path.replace('\\', "/");
        let name = path.rsplit('/').next().unwrap_or_default();
        let fits = |pattern: &&Pattern| {
            pattern.expression.matches(if pattern.is_path { &path } else { name })
        };
        // That of the name, too, which is the end of the path.
        let last = path.bytes().last().filter(u8::is_ascii).map(|last| last.to_ascii_uppercase());
        let may_fit = self.ending_with(last).into_iter().flatten();
        let mut of_name: Vec<_> = may_fit.filter(fits).map(|pattern| pattern.class).collect();
        of_name.sort_unstable();
        of_name.dedup();
        let always = self.always.iter().flat_map(|classes| classes.ids.iter().copied());
        Classes::of(of_name.into_iter().chain(always).collect(), self.device())
    }

    /// The patterns that may fit a name which ends with this, in upper case: those that end alike,
    /// and those that end with a wildcard. All of them, if the name ends with nothing of ASCII.
    fn ending_with(&self, last: Option<u8>) -> [&[Pattern]; 2] {
        let Some(last) = last else { return [&self.by_file, &[]] };
        let (with_wildcard, others) =
            self.by_file.split_at(self.by_file.partition_point(|it| it.last.is_none()));
        let from = others.partition_point(|it| it.last < Some(last));
        let to = others.partition_point(|it| it.last <= Some(last));
        [with_wildcard, &others[from..to]]
    }
}

impl Pattern {
    fn new(class: ClassId, text: &str) -> Self {
        let text = text.replace('\\', "/");
        let is_path = text.contains('/');
        let is_wildcard = |byte: &u8| matches!(byte, b'*' | b'?' | b'<' | b'>' | b'"');
        let last = text.bytes().last().filter(|byte| byte.is_ascii() && !is_wildcard(byte));
        let expression = NameExpression::new(text.trim_start_matches('/'));
        Self { class, expression, is_path, last: last.map(|byte| byte.to_ascii_uppercase()) }
    }
}

impl Class {
    /// Whether all of its requests certainly belong to another one, too.
    #[must_use]
    pub fn is_within(&self, other: &Self) -> bool {
        self.matches.iter().all(|it| other.matches.iter().any(|other| it.is_within(other)))
    }
}

impl Match {
    /// Whether what it holds for is what another one holds for, too.
    fn is_within(&self, other: &Self) -> bool {
        fn none_or<T: PartialEq>(other: &[T], own: &[T]) -> bool {
            other.is_empty() || other == own
        }
        none_or(&other.clients, &self.clients)
            && none_or(&other.users, &self.users)
            && none_or(&other.groups, &self.groups)
            && none_or(&other.shares, &self.shares)
            && none_or(&other.files, &self.files)
    }

    /// Whether everything but the file's name fits.
    fn holds_for(&self, subject: Subject<'_>) -> bool {
        let equal = dtyp::upcase::equal_ignoring_case;
        let none_or = |is_empty: bool, holds: bool| is_empty || holds;
        none_or(self.clients.is_empty(), self.clients.iter().any(|it| it.has(subject.client)))
            && none_or(self.users.is_empty(), self.users.iter().any(|it| equal(it, subject.user)))
            && (self.groups.is_empty() || self.groups.iter().any(|it| (subject.is_in_group)(it)))
            && none_or(
                self.shares.is_empty(),
                self.shares.iter().any(|it| equal(it, subject.share)),
            )
    }

    const fn is_about_the_client(&self) -> bool {
        self.shares.is_empty() && self.files.is_empty()
    }
}

impl Network {
    /// The network written as `address` or `address/bits`; nothing if that is none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse().ok()?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let bits_max = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(bits_max);
        (bits <= bits_max).then_some(Self { address, bits })
    }

    /// Whether an address is in it.
    #[must_use]
    pub fn has(self, address: IpAddr) -> bool {
        let same = |one: u128, other: u128, width: u32| {
            let free = width - u32::from(self.bits);
            one.checked_shr(free).unwrap_or(0) == other.checked_shr(free).unwrap_or(0)
        };
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(one), IpAddr::V4(other)) => {
                same(one.to_bits().into(), other.to_bits().into(), 32)
            }
            (IpAddr::V6(one), IpAddr::V6(other)) => same(one.to_bits(), other.to_bits(), 128),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(name: &str, matches: Vec<Match>) -> Class {
        Class {
            name: name.to_owned(),
            matches,
            limits: Limits::default(),
            max_credits: Some(64),
            interim_responses: InterimResponses::Auto,
        }
    }

    fn alice_in_vital() -> Subject<'static> {
        Subject {
            client: "10.1.2.3".parse().expect("an address"),
            user: "alice",
            is_in_group: &|group| group == "staff",
            share: "Vital",
        }
    }

    #[track_caller]
    fn check(matching: Match, belongs: bool) {
        let class = class("it", vec![matching]);
        let membership = Membership::of([(3, &class)], alice_in_vital());
        let ids = membership.always.as_ref().map(|classes| &*classes.ids);
        assert_eq!(ids, belongs.then_some(&[3][..]));
    }

    #[test]
    fn all_conditions_of_a_match_have_to_hold() {
        let network = |text| vec![Network::parse(text).expect("a network")];
        let names = |name: &str| vec![name.to_owned()];
        check(Match { clients: network("10.0.0.0/8"), ..Match::default() }, true);
        check(Match { clients: network("10.1.2.3"), ..Match::default() }, true);
        check(Match { clients: network("10.1.2.4"), ..Match::default() }, false);
        check(Match { clients: network("::/0"), ..Match::default() }, false);
        check(Match { clients: network("0.0.0.0/0"), ..Match::default() }, true);
        check(Match { users: names("ALICE"), shares: names("vital"), ..Match::default() }, true);
        check(Match { users: names("bob"), shares: names("vital"), ..Match::default() }, false);
        check(Match { groups: names("staff"), ..Match::default() }, true);
        check(Match { groups: names("students"), ..Match::default() }, false);
    }

    #[test]
    fn files_are_matched_by_name_or_by_path() {
        let files = |pattern: &str| {
            let files = vec![pattern.to_owned()];
            class(pattern, vec![Match { files, ..Match::default() }])
        };
        let classes = [files("*.VMDK"), files("spool/*"), class("all", vec![Match::default()])];
        let membership = Membership::of((0..).zip(&classes), alice_in_vital());
        let of = |path: &str| membership.of_file(path).expect("one has all").ids.to_vec();
        assert_eq!(of("a\\disk.vmdk"), [0, 2]);
        assert_eq!(of("spool\\deep\\job"), [1, 2]);
        assert_eq!(of("spool"), [2]);
        assert_eq!(of(""), [2]);
    }

    #[test]
    fn a_pattern_fits_whatever_it_and_the_name_end_with() {
        for (pattern, name, fits) in [
            ("*.vmdk", "a.VMDK", true),
            ("*.VMDk", "a.vmdk", true),
            ("*.vmdk", "a.vmdx", false),
            ("*.vmdk", "", false),
            ("*", "a", true),
            ("a?", "ab", true),
            ("*.é", "a.É", true),
            ("*.é", "a.e", false),
            ("*.e", "a.é", false),
            ("exact", "EXACT", true),
        ] {
            let files = vec![pattern.to_owned()];
            let class = class("it", vec![Match { files, ..Match::default() }]);
            let membership = Membership::of([(0, &class)], alice_in_vital());
            assert_eq!(membership.of_file(name).is_some(), fits, "{pattern} and {name}");
        }
    }

    #[test]
    fn a_file_has_each_class_of_which_a_pattern_fits_once_however_many_there_are() {
        let patterns = ["*.é", "a*", "*.vmdk", "*.txt", "*.TXT", "a.txt", "d/*", "?", "*k", "*1"];
        let of = |patterns: &[&str]| {
            let files = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
            class("it", vec![Match { files, ..Match::default() }])
        };
        let mut classes: Vec<_> = patterns.iter().map(|pattern| of(&[pattern])).collect();
        classes.push(of(&patterns));
        let all = Membership::of((0..).zip(&classes), alice_in_vital());
        for name in ["a.txt", "b.TXT", "d\\a.vmdk", "k", "1", "x.É", "b.c", ""] {
            let alone = (0..).zip(&classes).filter(|(id, class)| {
                Membership::of([(*id, *class)], alice_in_vital()).of_file(name).is_some()
            });
            let want: Vec<_> = alone.map(|(id, _)| id).collect();
            let ids = all.of_file(name).map(|classes| classes.ids.to_vec()).unwrap_or_default();
            assert_eq!(ids, want, "{name}");
        }
    }

    #[test]
    fn only_what_is_about_the_client_decides_its_credits() {
        let shares = vec!["vital".to_owned()];
        let of_share = class("share", vec![Match { shares, ..Match::default() }]);
        let of_user =
            class("user", vec![Match { users: vec!["alice".into()], ..Match::default() }]);
        let max = |class| Membership::of([(0, class)], alice_in_vital()).max_credits;
        assert_eq!(max(&of_share), None);
        assert_eq!(max(&of_user), Some(64));
    }

    #[test]
    fn networks_that_are_none_are_refused() {
        for text in ["", "10.0.0.0/33", "10.0.0/8", "::1/129", "host", "10.0.0.0/-1", "1.2.3.4/"] {
            assert_eq!(Network::parse(text), None, "{text}");
        }
    }
}
