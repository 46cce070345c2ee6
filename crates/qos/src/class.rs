//! Classes of requests and their limits.

use std::net::IpAddr;
use std::sync::Arc;

use dtyp::name_expression::NameExpression;

use crate::device::DeviceId;

/// Highest number of classes. Each has a slot in memory that all workers share.
pub const CLASSES_MAX: usize = 256;

/// A class: requests with common limits.
#[derive(Clone, Debug)]
pub struct Class {
    /// Name, unique in the configuration.
    pub name: String,
    /// Alternatives: a request belongs to the class if one of them matches.
    pub matches: Vec<Match>,
    /// Limits of all of its requests together.
    pub limits: Limits,
    /// Policy for interim responses to throttled requests.
    pub interim_responses: InterimResponses,
}

/// Conditions that all have to match.
#[derive(Clone, Debug, Default)]
pub struct Match {
    /// Networks with the client's address.
    pub clients: Vec<Network>,
    /// Names of the user, without regard to case.
    pub users: Vec<String>,
    /// Groups that contain the user.
    pub groups: Vec<String>,
    /// Names of the share, without regard to case.
    pub shares: Vec<String>,
    /// Patterns of the file's name; a pattern with a slash applies to the path.
    pub files: Vec<String>,
}

/// A network: addresses with the same first bits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Network {
    /// An address of the network.
    pub address: IpAddr,
    /// Number of bits that its addresses share.
    pub bits: u8,
}

/// Limits of a class, and its part of a busy storage.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Limits {
    /// Values by [`Meter`]; `None` for no limit, and for no part of its own.
    pub numbers: [Option<u64>; Meter::COUNT],
    /// Bytes of a burst after a pause, in addition to [`crate::slot::BURST_NS`] at the rate.
    pub burst_bytes: u64,
}

/// Quantities of a class: limits per second first, then its part of a busy storage, and credits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Meter {
    /// Bytes per second, read and written.
    Bandwidth,
    /// Bytes per second that are read.
    ReadBandwidth,
    /// Bytes per second that are written.
    WriteBandwidth,
    /// Operations of any kind per second.
    Iops,
    /// READ operations per second, of any size.
    ReadIops,
    /// WRITE operations per second, of any size.
    WriteIops,
    /// Share of a busy storage, relative to classes of weight 1.
    Weight,
    /// Priority at a busy storage; higher ones come first.
    Priority,
    /// Bytes per second guaranteed to it.
    MinBandwidth,
    /// Operations per second guaranteed to it.
    MinIops,
    /// Longest time of a request, in nanoseconds.
    LatencyTarget,
    /// Highest number of credits of a client.
    Credits,
}

impl Meter {
    /// Number of meters of a class.
    pub const COUNT: usize = 12;

    /// All meters, with the names of their parameters.
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
        (Self::Credits, "max credits"),
    ];

    /// Meters that give a class a part of a busy storage.
    pub const PARTS: [Self; 5] =
        [Self::Weight, Self::Priority, Self::MinBandwidth, Self::MinIops, Self::LatencyTarget];

    /// Name of its parameter in the configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize].1
    }

    /// True if it counts bytes, false for operations.
    #[must_use]
    pub const fn is_bytes(self) -> bool {
        matches!(
            self,
            Self::Bandwidth | Self::ReadBandwidth | Self::WriteBandwidth | Self::MinBandwidth
        )
    }
}

/// Values of the parameter `interim responses`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum InterimResponses {
    /// Sent while the client has much room for further requests.
    #[default]
    Auto,
    /// Never sent: a client gets no credits back before its requests are done.
    No,
    /// Always sent for a throttled request.
    Yes,
}

/// Cost of a request, charged to its classes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Cost {
    /// Kind of operation to be done.
    pub kind: Kind,
    /// Bytes that it reads or writes.
    pub bytes: u64,
    /// Bytes of memory that it holds while throttled: its own data, of a size chosen by the client.
    pub kept: u64,
}

impl Cost {
    /// Bytes that count toward the limit of a client's throttled requests.
    #[must_use]
    pub const fn memory(&self) -> u64 {
        if self.kept > self.bytes { self.kept } else { self.bytes }
    }
}

/// Kinds of operations for limits.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Kind {
    /// Reads data of a file.
    Read,
    /// Writes data of a file.
    Write,
    /// Any other operation of the store.
    Metadata,
}

impl Cost {
    /// Returns the meters that it is charged to, with amounts.
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

/// Requester of an operation, with the share.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    /// IP address of the client.
    pub client: IpAddr,
    /// Name of the requester's user account.
    pub user: &'a str,
    /// Tells whether the user is in a group.
    pub is_in_group: &'a dyn Fn(&str) -> bool,
    /// Name of the share, as configured.
    pub share: &'a str,
}

impl std::fmt::Debug for Subject<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { client, user, share, .. } = self;
        write!(f, "{user} at {client} in {share}")
    }
}

/// Id of a class: its index in the memory that all workers share.
pub type ClassId = u16;

/// Classes of a request, and its device.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Classes {
    /// Ids without duplicates, those from files first. Shared by all requests with the same
    /// classes.
    pub ids: Arc<[ClassId]>,
    /// Device that stores the file, if classes share it.
    pub device: Option<DeviceId>,
}

impl Classes {
    /// Returns `None` if both are absent: such a request is charged to nothing.
    fn of(ids: Vec<ClassId>, device: Option<DeviceId>) -> Option<Self> {
        (!ids.is_empty() || device.is_some()).then(|| Self { ids: ids.into(), device })
    }
}

/// Classes of a tree connect's requests, as far as the requester determines them.
#[derive(Clone, Debug, Default)]
pub struct Membership {
    /// Classes of all of its requests.
    pub always: Option<Classes>,
    /// Patterns of classes for certain files, sorted by last character: there may be many, and as a
    /// rule the last character alone rules out all of them.
    by_file: Vec<Pattern>,
    /// Classes that limit the credits of its client.
    pub of_client: Vec<ClassId>,
    /// Policy for interim responses to throttled requests; one class with `No` is enough for `No`.
    pub interim_responses: InterimResponses,
}

/// Names of files that belong to a class.
#[derive(Clone, Debug)]
struct Pattern {
    class: ClassId,
    expression: NameExpression,
    /// True for a pattern of the path from the share's root.
    is_path: bool,
    /// Last character in upper case, unless it is a wildcard.
    last: Option<u8>,
}

impl Membership {
    /// Finds the classes for the requests of `subject`.
    pub fn of<'c>(
        classes: impl IntoIterator<Item = (ClassId, &'c Class)>,
        subject: Subject<'_>,
    ) -> Self {
        let (mut always, mut by_file, mut of_client) = (Vec::new(), Vec::new(), Vec::new());
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
            // Credits serve all shares and files of a client, so a class of one share or file
            // cannot limit them.
            if fitting.iter().any(|it| it.is_about_the_client()) {
                of_client.push(id);
            }
        }
        by_file.sort_by_key(|pattern| pattern.last);
        Self { always: Classes::of(always, None), by_file, of_client, interim_responses }
    }

    /// Returns the same membership for files on a device.
    #[must_use]
    pub fn on(self, device: Option<DeviceId>) -> Self {
        let ids = self.always.map(|classes| classes.ids.to_vec()).unwrap_or_default();
        Self { always: Classes::of(ids, device), ..self }
    }

    /// Device of all of its requests.
    #[must_use]
    pub fn device(&self) -> Option<DeviceId> {
        self.always.as_ref()?.device
    }

    /// True if a file's name decides on some of its classes. Otherwise all files have those of
    /// [`Self::always`].
    #[must_use]
    pub fn depends_on_name(&self) -> bool {
        !self.by_file.is_empty()
    }

    /// Classes of a file's requests; `path` starts at the share's root, with slashes or
    /// backslashes.
    #[must_use]
    pub fn of_path(&self, path: &str) -> Option<Classes> {
        if self.by_file.is_empty() {
            return self.always.clone();
        }
        let path = path.replace('\\', "/");
        let name = path.rsplit('/').next().unwrap_or_default();
        let fits = |pattern: &&Pattern| {
            pattern.expression.matches(if pattern.is_path { &path } else { name })
        };
        // Also the last character of the name, which ends the path.
        let last = path.bytes().last().filter(u8::is_ascii).map(|last| last.to_ascii_uppercase());
        let may_fit = self.ending_with(last).into_iter().flatten();
        let mut of_name: Vec<_> = may_fit.filter(fits).map(|pattern| pattern.class).collect();
        of_name.sort_unstable();
        of_name.dedup();
        let always = self.always.iter().flat_map(|classes| classes.ids.iter().copied());
        Classes::of(of_name.into_iter().chain(always).collect(), self.device())
    }

    /// Returns the patterns that may match a name with this last character in upper case: those
    /// with the same one, and those with a wildcard. All of them, if the character is not ASCII.
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
    /// True if all of its requests certainly belong to `other`, too.
    #[must_use]
    pub fn is_within(&self, other: &Self) -> bool {
        self.matches.iter().all(|it| other.matches.iter().any(|other| it.is_within(other)))
    }
}

impl Match {
    /// True if `other` matches all requests that this one matches.
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

    /// True if all conditions match, except the file's name.
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
    /// Parses `address` or `address/bits`; `None` if malformed.
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

    /// True if the network contains the address.
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
        let of = |path: &str| membership.of_path(path).expect("one has all").ids.to_vec();
        assert_eq!(of("a\\disk.vmdk"), [0, 2]);
        assert_eq!(of("spool\\deep\\job"), [1, 2]);
        assert_eq!(of("spool"), [2]);
        assert_eq!(of(""), [2]);
    }

    #[test]
    fn a_pattern_matches_with_any_end_of_pattern_and_name() {
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
            assert_eq!(membership.of_path(name).is_some(), fits, "{pattern} and {name}");
        }
    }

    #[test]
    fn a_file_has_each_class_with_a_matching_pattern_once() {
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
                Membership::of([(*id, *class)], alice_in_vital()).of_path(name).is_some()
            });
            let want: Vec<_> = alone.map(|(id, _)| id).collect();
            let ids = all.of_path(name).map(|classes| classes.ids.to_vec()).unwrap_or_default();
            assert_eq!(ids, want, "{name}");
        }
    }

    #[test]
    fn only_classes_of_the_client_decide_its_credits() {
        let shares = vec!["vital".to_owned()];
        let of_share = class("share", vec![Match { shares, ..Match::default() }]);
        let of_user =
            class("user", vec![Match { users: vec!["alice".into()], ..Match::default() }]);
        let of_client = |class| Membership::of([(3, class)], alice_in_vital()).of_client;
        assert_eq!(of_client(&of_share), []);
        assert_eq!(of_client(&of_user), [3]);
    }

    #[test]
    fn networks_that_are_none_are_refused() {
        for text in ["", "10.0.0.0/33", "10.0.0/8", "::1/129", "host", "10.0.0.0/-1", "1.2.3.4/"] {
            assert_eq!(Network::parse(text), None, "{text}");
        }
    }
}
