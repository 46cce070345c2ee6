//! Classes of service: sections `[qos:NAME]`.
//!
//! ```text
//! [qos:students]
//!     match = group @students, client 10.2.0.0/16 | file *.iso
//!     max bandwidth = 20M
//! ```
//!
//! Conditions joined by a comma must all hold; a bar separates alternatives. Unlike a share, a
//! class that cannot be understood is an error: a limit that is silently missing is worse than a
//! server that keeps its old configuration.

use qos::class::{CLASSES_MAX, InterimResponses, Match, Network};
use qos::credits::FLOOR;
use qos::device::PRIORITY_MAX;
use qos::slot::NAME_BYTES_MAX;
use qos::{Class, Limits, Meter};

use crate::load::Place;
use crate::parameter::nearest_of;
use crate::section::Section;
use crate::warning::{LoadError, Warning, WarningKind, hint, quoted};

/// Prefix of the name of a section that is a class.
pub(crate) const PREFIX: &str = "qos:";

/// A class of service and the lines that it was written with.
#[derive(Clone, Debug)]
pub struct ClassSection {
    /// Limits and conditions that were read.
    pub class: Class,
    /// Parameters and values as written, for [`crate::render_effective`].
    pub(crate) lines: Vec<(String, String)>,
}

/// A section as it stands in the file.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) name: String,
    pub(crate) place: Place,
    pub(crate) lines: Vec<(String, String, Place)>,
}

/// Reads the classes. `has_share` tells whether a share of that name exists.
pub(crate) fn read(
    sections: Vec<Written>,
    has_share: impl Fn(&str) -> bool,
    warnings: &mut Vec<Warning>,
) -> Result<Vec<ClassSection>, LoadError> {
    if let Some(beyond) = sections.get(CLASSES_MAX) {
        return Err(LoadError::Limit {
            file: beyond.place.file.clone(),
            line: beyond.place.line,
            limit: CLASSES_MAX as u64,
            unit: "classes of service",
        });
    }
    let places: Vec<(String, Place)> =
        sections.iter().map(|it| (it.name.clone(), it.place.clone())).collect();
    let read = sections.into_iter().map(|section| read_one(section, &has_share, warnings));
    let classes: Vec<ClassSection> = read.collect::<Result<_, _>>()?;
    if let Some((at, reason)) = excess_minimums(&classes) {
        let (name, Place { file, line }) = places[at].clone();
        return Err(LoadError::BadClass { file, line, class: quoted(&name), reason });
    }
    Ok(classes)
}

/// Returns a class whose minimums add up to more than its maximum, and the reason.
fn excess_minimums(classes: &[ClassSection]) -> Option<(usize, String)> {
    for (limited, minimum) in
        [(Meter::Bandwidth, Meter::MinBandwidth), (Meter::Iops, Meter::MinIops)]
    {
        for (at, ClassSection { class, .. }) in classes.iter().enumerate() {
            let Some(max) = class.limits.numbers[limited as usize] else { continue };
            let within = classes.iter().map(|it| &it.class).filter(|it| it.is_within(class));
            let minimums = within.filter_map(|it| it.limits.numbers[minimum as usize]);
            let sum = minimums.fold(0, u64::saturating_add);
            if sum > max {
                let [limited, minimum] = [limited, minimum].map(Meter::name);
                return Some((
                    at,
                    format!(
                        "`{minimum}` of its classes adds up to {sum}, above `{limited}` = {max}"
                    ),
                ));
            }
        }
    }
    None
}

/// Translates the options of Samba's module `aio_ratelimit` into a class for the share. Samba
/// limits each share by itself and in each direction, and allows a burst of a multiple of one
/// second's bytes (in tenths, 15 by default).
pub(crate) fn of_rate_limits(
    share: &str,
    at: usize,
    section: &Section,
    place: &Place,
) -> Option<Written> {
    let modules = section.text("vfs objects").unwrap_or_default();
    if !crate::list::words(modules).iter().any(|it| it.eq_ignore_ascii_case(RATE_LIMITS)) {
        return None;
    }
    let given = |name: &str| section.option(RATE_LIMITS, name).map(str::trim);
    let mut lines = Vec::new();
    let mut line = |name: &str, value: String| {
        lines.push((name.to_owned(), value, place.clone()));
    };
    let mut burst = 0;
    for (option, parameter) in [
        ("read_iops_limit", "max read iops"),
        ("read_bw_limit", "max read bandwidth"),
        ("write_iops_limit", "max write iops"),
        ("write_bw_limit", "max write bandwidth"),
    ] {
        let Some(value) = given(option).filter(|value| amount(value) != Some(0)) else { continue };
        line(parameter, value.to_owned());
        if let (Some(direction), Some(bytes)) = (option.strip_suffix("_bw_limit"), amount(value)) {
            let tenths = given(&format!("{direction}_burst_mult")).and_then(|it| it.parse().ok());
            burst = burst.max(bytes.saturating_mul(tenths.unwrap_or(15_u64)) / 10);
        }
    }
    if lines.is_empty() {
        return None;
    }
    let mut line = |name: &str, value: String| lines.push((name.to_owned(), value, place.clone()));
    line("burst", burst.to_string());
    line("match", format!("share \"{share}\""));
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || "-_.".contains(*c);
    let mut name: String = share.chars().filter(is_plain).take(NAME_BYTES_MAX / 2).collect();
    if name != share {
        name = format!("{name}-{at}");
    }
    Some(Written { name: format!("{RATE_LIMITS}.{name}"), place: place.clone(), lines })
}

/// The module of Samba that limits shares.
pub(crate) const RATE_LIMITS: &str = "aio_ratelimit";

fn read_one(
    section: Written,
    has_share: &impl Fn(&str) -> bool,
    warnings: &mut Vec<Warning>,
) -> Result<ClassSection, LoadError> {
    let Written { name, place, lines } = section;
    let bad = |place: &Place, reason: String| LoadError::BadClass {
        file: place.file.clone(),
        line: place.line,
        class: quoted(&name),
        reason,
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.chars().all(is_plain) {
        let reason =
            format!("the name must have 1 to {NAME_BYTES_MAX} letters, digits, `-`, `_` and `.`");
        return Err(bad(&place, reason));
    }
    let mut class = Class {
        name: name.clone(),
        matches: Vec::new(),
        limits: Limits::default(),
        interim_responses: InterimResponses::Auto,
    };
    for (parameter, value, place) in &lines {
        let remark = set(&mut class, parameter, value, has_share);
        if let Some((kind, message)) = remark.map_err(|reason| bad(place, reason))? {
            let (file, line) = (place.file.clone(), place.line);
            warnings.push(Warning { file, line, kind, message });
        }
    }
    if class.matches.is_empty() {
        return Err(bad(&place, "without `match`, no request belongs to it".to_owned()));
    }
    if let Some(reason) = contradiction(&class.limits) {
        return Err(bad(&place, reason));
    }
    let lines = lines.into_iter().map(|(parameter, value, _)| (parameter, value)).collect();
    Ok(ClassSection { class, lines })
}

/// Returns a parameter's name in the form for comparison: small letters, single spaces.
pub(crate) fn canonical(name: &str) -> String {
    name.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

/// Sets one parameter. Returns a remark for the operator, if any.
fn set(
    class: &mut Class,
    parameter: &str,
    value: &str,
    has_share: &impl Fn(&str) -> bool,
) -> Result<Option<(WarningKind, String)>, String> {
    if let Some((meter, _)) = Meter::NAMES.iter().find(|(_, name)| *name == parameter) {
        let number = number(*meter, value)?;
        class.limits.numbers[*meter as usize] = number;
        let few = number.filter(|number| *meter == Meter::Credits && *number < u64::from(FLOOR));
        return Ok(few.map(|credits| {
            let message = format!(
                "[qos:{}]: `max credits = {credits}`: clients are known to hang below {FLOOR}",
                class.name
            );
            (WarningKind::BadValue, message)
        }));
    }
    match parameter {
        "match" => class.matches.extend(matches(value, has_share)?),
        "burst" => {
            class.limits.burst_bytes =
                amount(value).ok_or("`burst`: expected a number of bytes, such as 4M")?;
        }
        "interim responses" => {
            class.interim_responses = match value.to_lowercase().as_str() {
                "auto" => InterimResponses::Auto,
                "no" | "false" | "0" => InterimResponses::No,
                "yes" | "true" | "1" => InterimResponses::Yes,
                _ => return Err("`interim responses`: expected yes, no or auto".into()),
            };
        }
        _ => {
            let meters = Meter::NAMES.iter().map(|(_, name)| *name);
            let near = nearest_of(parameter, meters.chain(OTHER_PARAMETERS));
            return Err(format!("unknown parameter `{}`{}", quoted(parameter), hint(near)));
        }
    }
    Ok(None)
}

/// Parameters of a class that are no number.
const OTHER_PARAMETERS: [&str; 3] = ["burst", "interim responses", "match"];

/// Reads the value of a numeric parameter of a class. A priority of zero is `None`, the same as an
/// absent one.
///
/// # Errors
/// The values that are accepted, in words.
pub fn number(meter: Meter, text: &str) -> Result<Option<u64>, String> {
    let name = meter.name();
    let number = match meter {
        Meter::LatencyTarget => nanoseconds(text),
        Meter::Weight => {
            text.trim().parse().ok().filter(|weight| (1..=WEIGHT_MAX).contains(weight))
        }
        Meter::Priority => text.trim().parse().ok().filter(|priority| *priority <= PRIORITY_MAX),
        Meter::Credits => text.trim().parse::<u32>().ok().map(u64::from),
        _ => amount(text),
    };
    let number = number.ok_or_else(|| format!("`{name}`: {}", expected(meter)))?;
    match (meter, number) {
        (Meter::Priority, 0) => Ok(None),
        (Meter::MinBandwidth | Meter::MinIops | Meter::LatencyTarget, 0) => {
            Err(format!("`{name} = 0` has no effect: leave it out or give a positive value"))
        }
        (Meter::Credits, 0) => {
            Err(format!("`{name} = 0`: a client without credits cannot send requests"))
        }
        (_, 0) => Err(format!("`{name} = 0` would stop all requests: leave it out")),
        _ => Ok(Some(number)),
    }
}

/// Largest weight of a class; the smallest is 1.
const WEIGHT_MAX: u64 = 1_000;

/// A time such as `10ms`, `500us` or `2s`, in nanoseconds.
fn nanoseconds(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    let end = text.find(|c: char| !c.is_ascii_digit())?;
    let unit = match text[end..].trim() {
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return None,
    };
    text[..end].parse::<u64>().ok()?.checked_mul(unit)
}

/// A number of bytes or operations in a second, with `K`, `M`, `G` or `T` for powers of 1,024.
#[must_use]
pub fn amount(text: &str) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let shift = match unit.trim().to_ascii_lowercase().trim_end_matches("/s") {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

fn expected(meter: Meter) -> &'static str {
    match meter {
        Meter::Weight => "expected a number from 1 to 1000",
        Meter::Priority => "expected a number from 0 to 7",
        Meter::LatencyTarget => "expected a time, such as 10ms or 500us",
        Meter::Credits => "expected a number",
        _ if meter.is_bytes() => "expected bytes per second, such as 20M",
        _ => "expected operations per second, such as 500",
    }
}

fn matches(text: &str, has_share: &impl Fn(&str) -> bool) -> Result<Vec<Match>, String> {
    text.split('|').map(|alternative| one_match(alternative, has_share)).collect()
}

fn one_match(text: &str, has_share: &impl Fn(&str) -> bool) -> Result<Match, String> {
    let mut result = Match::default();
    for condition in text.split(',') {
        let condition = condition.trim();
        let (kind, name) = condition.split_once(char::is_whitespace).unwrap_or((condition, ""));
        let name = name.trim().trim_matches('"');
        if kind == "all" && name.is_empty() {
            continue;
        }
        if name.is_empty() {
            return Err(format!(
                "`match`: expected all, or client, user, group, share or file NAME, not `{}`",
                quoted(condition)
            ));
        }
        match kind.to_lowercase().as_str() {
            "client" => {
                let network = Network::parse(name).ok_or_else(|| {
                    format!("`match`: `{}` is neither an address nor a network", quoted(name))
                })?;
                result.clients.push(network);
            }
            "user" => result.users.push(name.to_owned()),
            "group" => result.groups.push(name.trim_start_matches(['@', '+', '&']).to_owned()),
            "share" if !has_share(name) => {
                return Err(format!("`match`: there is no share `{}`", quoted(name)));
            }
            "share" => result.shares.push(name.to_owned()),
            "file" => result.files.push(name.to_owned()),
            _ => return Err(format!("`match`: unknown condition `{}`", quoted(kind))),
        }
    }
    // Conditions that exclude each other: a request has one user and one share.
    for (plural, count) in [("users", result.users.len()), ("shares", result.shares.len())] {
        if count > 1 {
            return Err(format!("`match`: no request has two {plural}; separate them by `|`"));
        }
    }
    Ok(result)
}

/// Returns the reason why two limits contradict each other, if they do.
fn contradiction(limits: &Limits) -> Option<String> {
    let of = |meter: Meter| limits.numbers[meter as usize];
    for (all, parts) in [
        (Meter::Bandwidth, [Meter::ReadBandwidth, Meter::WriteBandwidth]),
        (Meter::Iops, [Meter::ReadIops, Meter::WriteIops]),
    ] {
        for part in parts {
            if let (Some(whole), Some(limit)) = (of(all), of(part))
                && limit > whole
            {
                let name = Meter::name;
                return Some(format!(
                    "`{}` has no effect, because `{}` is lower",
                    name(part),
                    name(all)
                ));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use qos::Meter;

    use crate::{Config, LoadError, render_effective};

    const SHARES: &str = "[vital]\npath = /v\n[data]\npath = /d\n";

    fn parse(section: &str) -> Result<Config, LoadError> {
        Config::parse(&format!("{SHARES}{section}"), "test").map(|(config, _)| config)
    }

    #[track_caller]
    fn refused(section: &str, line: u32, reason: &str) {
        let error = parse(section).expect_err("it cannot be meant").to_string();
        assert!(error.starts_with(&format!("test:{}:", line + 4)), "{error}");
        assert!(error.contains(reason), "{error}");
    }

    #[test]
    fn a_class_is_not_a_share() {
        let config =
            parse("[qos:slow]\nmatch = share data\nMAX  bandwidth = 10M\n[more]\npath=/m\n");
        let config = config.expect("it is right");
        assert_eq!(config.shares.len(), 3);
        let class = &config.classes[0].class;
        assert_eq!((&*class.name, class.limits.numbers[0]), ("slow", Some(10 << 20)));
        assert_eq!(class.matches[0].shares, ["data"]);
    }

    #[test]
    fn commas_join_and_bars_separate() {
        let config = parse("[qos:x]\nmatch = client 10.0.0.0/8, group @staff | file *.vmdk\n");
        let matches = &config.expect("it is right").classes[0].class.matches;
        assert_eq!((matches[0].clients.len(), &*matches[0].groups[0]), (1, "staff"));
        assert_eq!(matches[1].files, ["*.vmdk"]);
    }

    #[test]
    fn a_class_that_can_never_hold_is_refused_with_line_and_reason() {
        refused("[qos:x]\nmax bandwidth = 1M\n", 1, "no request belongs");
        refused("[qos:x]\nmatch = share nowhere\n", 2, "no share `nowhere`");
        refused("[qos:x]\nmatch = user a, user b\n", 2, "two users");
        refused("[qos:x]\nmatch = client 10.0.0.0/40\n", 2, "neither an address");
        refused("[qos:x]\nmatch = everyone\n", 2, "expected all, or client");
        refused("[qos:x]\nmatch = all\nmax bandwidth = 0\n", 3, "stop all requests");
        refused("[qos:x]\nmatch = all\nmax credits = 0\n", 3, "without credits");
        refused("[qos:x]\nmatch = all\nmax bandwith = 1M\n", 3, "unknown parameter");
        refused("[qos:x]\nmatch = all\nmax bandwith = 1M\n", 3, "did you mean `max bandwidth`?");
        refused("[qos:x]\nmatch = all\nmax bandwidth = fast\n", 3, "such as 20M");
        refused(
            "[qos:x]\nmatch = all\nmax bandwidth = 1M\nmax read bandwidth = 2M\n",
            1,
            "is lower",
        );
        refused("[qos:]\nmatch = all\n", 1, "the name must have");
    }

    #[test]
    fn a_part_of_a_class_is_read_or_refused_with_line_and_reason() {
        let config = parse(
            "[qos:x]\nmatch = all\nweight = 8\npriority = 2\nmin bandwidth = 5M\nmin iops = 10\n\
             latency target = 20ms\n",
        );
        let numbers = config.expect("it is right").classes[0].class.limits.numbers;
        assert_eq!(numbers[6..11], [Some(8), Some(2), Some(5 << 20), Some(10), Some(20_000_000)]);
        refused("[qos:x]\nmatch = all\nweight = 0\n", 3, "from 1 to 1000");
        refused("[qos:x]\nmatch = all\npriority = 8\n", 3, "from 0 to 7");
        refused("[qos:x]\nmatch = all\nlatency target = 10\n", 3, "such as 10ms");
        refused("[qos:x]\nmatch = all\nmin iops = 0\n", 3, "has no effect");
    }

    #[test]
    fn minimums_must_fit_the_maximum() {
        refused("[qos:x]\nmatch = all\nmax bandwidth = 1M\nmin bandwidth = 2M\n", 1, "adds up to");
        let promises = "[qos:a]\nmatch = user a, share data\nmin iops = 60\n\
                        [qos:b]\nmatch = user b, share data\nmin iops = 60\n";
        refused(&format!("{promises}[qos:all]\nmatch = share data\nmax iops = 100\n"), 7, "120");
        // Minimums of classes for another share do not count.
        let elsewhere = format!("{promises}[qos:all]\nmatch = share vital\nmax iops = 100\n");
        parse(&elsewhere).expect("it is right");
    }

    #[test]
    fn limits_of_aio_ratelimit_are_a_class_of_the_share() {
        let text = "[fast one]\npath = /f\nvfs objects = acl_xattr aio_ratelimit\n\
                    aio_ratelimit:read_bw_limit = 2M\naio_ratelimit: write_iops_limit = 500\n\
                    aio_ratelimit:write_bw_limit = 0\naio_ratelimit:read_burst_mult = 20\n\
                    [not]\npath = /n\naio_ratelimit:read_bw_limit = 2M\n";
        let config = parse(text).expect("it is right");
        let [section] = &*config.classes else { panic!("{:?}", config.classes) };
        assert_eq!(section.class.name, "aio_ratelimit.fastone-2");
        assert_eq!(section.class.matches[0].shares, ["fast one"]);
        let limits = section.class.limits;
        assert_eq!(limits.numbers[..6], [None, Some(2 << 20), None, None, None, Some(500)]);
        assert_eq!(limits.burst_bytes, 4 << 20);
        // Rendered and read again, it is the same single class.
        let once = render_effective(&config, false);
        let (again, warnings) = Config::parse(&once, "again").expect("it is right");
        assert_eq!((again.classes.len(), render_effective(&again, false)), (1, once));
        assert!(warnings.is_empty(), "{warnings:?}");
        let wrong = text.replace("= 2M", "= much");
        let error = parse(&wrong).expect_err("it cannot be meant").to_string();
        assert!(error.contains("such as 20M"), "{error}");
    }

    #[test]
    fn few_credits_are_warned_about() {
        let text = format!("{SHARES}[qos:x]\nmatch = all\nmax credits = 32\n");
        let (config, warnings) = Config::parse(&text, "test").expect("it can be served");
        let limits = &config.classes[0].class.limits;
        assert_eq!(limits.numbers[Meter::Credits as usize], Some(32));
        assert!(warnings[0].message.contains("below 64"), "{warnings:?}");
    }

    #[test]
    fn classes_rendered_for_workers_parse_to_the_same() {
        let text =
            "[qos:x]\nmatch = user alice | share data, file *.iso\nmax iops = 500\nburst = 4M\n";
        let once = render_effective(&parse(text).expect("it is right"), false);
        let (again, _) = Config::parse(&once, "again").expect("it is right");
        assert_eq!(render_effective(&again, false), once);
        assert_eq!(again.classes[0].class.matches.len(), 2);
        assert_eq!(again.classes[0].class.limits.burst_bytes, 4 << 20);
    }
}
