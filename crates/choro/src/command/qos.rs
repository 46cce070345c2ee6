//! `choro qos`: limits and use of classes of service.

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use ::qos::controller::ONE;
use ::qos::slot::Figures;
use ::qos::{Class, Device, Meter, Slot, Slots as _};
use anyhow::{Context, anyhow, bail, ensure};
use clap::{Args, Subcommand};
use config::class::number;
use observe::report::{self, Row};
use process::clocks::machine_clock;
use settings::Settings;
use tables::{QosPage, Registry};

/// Show and change the limits of classes of service (sections `[qos:NAME]` of smb.conf).
///
/// Exits with 1 if the server is not running.
#[derive(Debug, Subcommand)]
pub(super) enum Qos {
    /// Show the classes, their limits, and their use since the server started.
    Show(Show),
    /// Set limits of a class at once, until `clear` or a restart. No client is disconnected.
    Set(Set),
    /// Restore the limits of smb.conf.
    Clear(Clear),
    /// Show the current use of the classes, updated every second.
    Top(Top),
}

/// Show the classes, their limits, and their use since the server started.
#[derive(Args, Debug)]
pub(super) struct Show {
    /// Print a JSON array, one object for each class.
    #[arg(long)]
    json: bool,
    /// Show the storage devices that classes share instead of the classes.
    #[arg(long)]
    storage: bool,
}

/// Set limits of a class at once, until `clear` or a restart. No client is disconnected.
#[derive(Args, Debug)]
pub(super) struct Set {
    /// Name of the class to change.
    class: String,
    /// Limits as `NAME=VALUE`, such as `max-bandwidth=20M`, `max-iops=500`, `weight=8`,
    /// `max-credits=256` (of a client, all its connections together) or `max-bandwidth=none`.
    #[arg(required = true, value_name = "LIMIT=VALUE")]
    limits: Vec<String>,
}

/// Restore the limits of smb.conf.
#[derive(Args, Debug)]
pub(super) struct Clear {
    /// Name of the class, or `all`.
    class: String,
}

/// Show the current use of the classes, updated every second.
#[derive(Args, Debug)]
pub(super) struct Top {
    /// Seconds between two updates of the output.
    #[arg(long, value_name = "SECONDS", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=3600))]
    interval: u32,
    /// Exit after N updates of the output.
    #[arg(long, value_name = "N")]
    count: Option<u32>,
    /// Print a JSON array for each update.
    #[arg(long)]
    json: bool,
}

/// The classes of a running server, and the configuration that it would load now.
struct Place {
    page: QosPage,
    settings: Settings,
}

impl Qos {
    pub(super) fn run(&self, config: Option<&Path>) -> anyhow::Result<()> {
        let place = Place::find(config)?;
        match self {
            Self::Show(show) if show.storage => place.show_storage(show.json),
            Self::Show(show) => place.show(show.json),
            Self::Set(set) => place.set(set),
            Self::Clear(clear) => place.clear(&clear.class),
            Self::Top(top) => place.top(top),
        }
    }
}

impl Place {
    fn find(config: Option<&Path>) -> anyhow::Result<Self> {
        let settings = Settings::find(config)?;
        let lock = &settings.directories.lock;
        // Fails with a clear message if no server runs there.
        Registry::observe(lock)?;
        let page = QosPage::join(lock)
            .with_context(|| format!("cannot read the classes in {}", lock.display()))?;
        Ok(Self { page, settings })
    }

    /// Returns the classes, sorted by name.
    fn slots(&self) -> Vec<(String, &Slot)> {
        let slots = self.page.slots().iter();
        let mut slots: Vec<_> = slots.filter_map(|slot| Some((slot.name()?, slot))).collect();
        slots.sort_by(|one, other| one.0.cmp(&other.0));
        slots
    }

    fn slot(&self, name: &str) -> anyhow::Result<&Slot> {
        let id = self.page.find(name).with_context(|| {
            let names: Vec<String> = self.slots().into_iter().map(|(name, _)| name).collect();
            match names.is_empty() {
                true => "the server has no classes; define them in sections [qos:NAME] of smb.conf"
                    .to_owned(),
                false => format!("there is no class {name}; the classes are {}", names.join(", ")),
            }
        })?;
        Ok(&self.page.slots()[usize::from(id)])
    }

    fn show(&self, json: bool) -> anyhow::Result<()> {
        let slots = self.slots();
        if json {
            return report::print_json(slots.iter().map(|(name, slot)| row(name, slot)).collect());
        }
        if slots.is_empty() {
            return report::print("No classes. Define them in sections [qos:NAME] of smb.conf.\n");
        }
        let cells = |(name, slot): &(String, &Slot)| {
            let figures = slot.figures();
            let mut cells = vec![name.clone(), limits_of(slot)];
            cells.extend([figures.read_bytes, figures.written_bytes].map(mebibytes));
            cells.extend(
                [figures.operations, figures.throttled, figures.waiting].map(|it| it.to_string()),
            );
            cells.push(milliseconds_each(figures.throttled_ns, figures.throttled));
            cells
        };
        let rows: Vec<Vec<String>> = slots.iter().map(cells).collect();
        report::print(&report::table(SHOW_TITLES, &rows))?;
        if self.devices().is_empty() {
            return Ok(());
        }
        report::print("\n")?;
        self.show_storage(json)
    }

    /// Returns the storage devices that classes share.
    fn devices(&self) -> Vec<(u64, &Device)> {
        let devices = self.page.devices().iter().filter(|device| device.is_shared());
        devices.filter_map(|device| Some((device.number()?, device))).collect()
    }

    fn show_storage(&self, json: bool) -> anyhow::Result<()> {
        let devices = self.devices();
        if json {
            return report::print_json(devices.into_iter().map(storage_row).collect());
        }
        if devices.is_empty() {
            return report::print(
                "No storage is shared: no class has a weight, priority, minimum or target.\n",
            );
        }
        let cells = |(number, device): (u64, &Device)| {
            let controller = &device.controller;
            let slowdown = controller.slowdown() * 100 / ONE;
            vec![
                device_name(number),
                controller.limit().to_string(),
                device.in_flight().to_string(),
                device.waiting().to_string(),
                (controller.mean_ns() / 1_000).to_string(),
                format!("{}.{:02}", slowdown / 100, slowdown % 100),
                format!("{}%", credits_percent(device)),
            ]
        };
        let rows: Vec<Vec<String>> = devices.into_iter().map(cells).collect();
        report::print(&report::table(STORAGE_TITLES, &rows))
    }

    fn set(&self, set: &Set) -> anyhow::Result<()> {
        let slot = self.slot(&set.class)?;
        // Parses all limits before it sets one.
        let limits: Vec<(Meter, Option<u64>)> =
            set.limits.iter().map(|text| parse(text)).collect::<anyhow::Result<_>>()?;
        limits.into_iter().for_each(|(meter, limit)| slot.set(meter, limit));
        self.page.share();
        report::print(&format!("{}: {}\n", set.class, limits_of(slot)))
    }

    fn clear(&self, name: &str) -> anyhow::Result<()> {
        let classes = self.settings.config.classes.iter().map(|section| &section.class);
        let meant: Vec<&Class> = classes.filter(|it| name == "all" || it.name == name).collect();
        ensure!(!meant.is_empty() || name == "all", "smb.conf has no class {name}");
        for class in meant {
            let slot = self.slot(&class.name)?;
            slot.clear(&class.limits);
            self.page.share();
            report::print(&format!("{}: {}\n", class.name, limits_of(slot)))?;
        }
        Ok(())
    }

    fn top(&self, top: &Top) -> anyhow::Result<()> {
        let read = || -> Vec<(String, Figures)> {
            self.slots().into_iter().map(|(name, slot)| (name, slot.figures())).collect()
        };
        let mut before = read();
        let mut left = top.count;
        while left != Some(0) {
            sleep(Duration::from_secs(top.interval.into()));
            let now = read();
            let rates: Vec<Rate> = now
                .iter()
                .filter_map(|(name, now)| {
                    let (_, before) = before.iter().find(|(it, _)| it == name)?;
                    Some(Rate::new(name, before, now, top.interval))
                })
                .collect();
            if top.json {
                report::print_json(rates.iter().map(Rate::row).collect())?;
            } else {
                let rows: Vec<Vec<String>> = rates.iter().map(Rate::cells).collect();
                report::print(&format!("{}\n", report::table(TOP_TITLES, &rows)))?;
            }
            before = now;
            left = left.map(|left| left - 1);
        }
        Ok(())
    }
}

const SHOW_TITLES: &[&str] =
    &["CLASS", "LIMITS", "READ MiB", "WRITTEN MiB", "REQUESTS", "HELD", "WAITING", "HELD ms EACH"];
const STORAGE_TITLES: &[&str] =
    &["STORAGE", "LIMIT", "IN FLIGHT", "WAITING", "EACH us", "SLOWDOWN", "CREDITS"];
const TOP_TITLES: &[&str] =
    &["CLASS", "READ MiB/s", "WRITE MiB/s", "REQUESTS/s", "HELD/s", "WAITING", "HELD ms EACH"];

/// Use of a class in one interval.
struct Rate {
    name: String,
    /// Differences divided by the seconds.
    figures: Figures,
    throttled_ns_each: u64,
}

impl Rate {
    fn new(name: &str, before: &Figures, now: &Figures, seconds: u32) -> Self {
        // A class that was removed and created again starts at zero.
        let each = |before: u64, now: u64| now.saturating_sub(before) / u64::from(seconds);
        let throttled = now.throttled.saturating_sub(before.throttled);
        Self {
            name: name.to_owned(),
            figures: Figures {
                read_bytes: each(before.read_bytes, now.read_bytes),
                written_bytes: each(before.written_bytes, now.written_bytes),
                operations: each(before.operations, now.operations),
                throttled: each(before.throttled, now.throttled),
                throttled_ns: each(before.throttled_ns, now.throttled_ns),
                waiting: now.waiting,
            },
            throttled_ns_each: now
                .throttled_ns
                .saturating_sub(before.throttled_ns)
                .checked_div(throttled)
                .unwrap_or(0),
        }
    }

    fn cells(&self) -> Vec<String> {
        let Figures { read_bytes, written_bytes, operations, throttled, waiting, .. } =
            self.figures;
        let mut cells = vec![self.name.clone(), mebibytes(read_bytes), mebibytes(written_bytes)];
        cells.extend([operations, throttled, waiting].map(|figure| figure.to_string()));
        cells.push(milliseconds_each(self.throttled_ns_each, 1));
        cells
    }

    fn row(&self) -> Row {
        let figures = &self.figures;
        vec![
            ("class", self.name.clone().into()),
            ("read_bytes_per_second", figures.read_bytes.into()),
            ("written_bytes_per_second", figures.written_bytes.into()),
            ("requests_per_second", figures.operations.into()),
            ("throttled_per_second", figures.throttled.into()),
            ("waiting", figures.waiting.into()),
            ("throttled_ns_each", self.throttled_ns_each.into()),
        ]
    }
}

fn row(name: &str, slot: &Slot) -> Row {
    let (limits, figures) = (slot.limits(), slot.figures());
    let limit = |meter: Meter| limits.numbers[meter as usize].into();
    vec![
        ("class", name.into()),
        ("max_bandwidth", limit(Meter::Bandwidth)),
        ("max_read_bandwidth", limit(Meter::ReadBandwidth)),
        ("max_write_bandwidth", limit(Meter::WriteBandwidth)),
        ("max_iops", limit(Meter::Iops)),
        ("max_read_iops", limit(Meter::ReadIops)),
        ("max_write_iops", limit(Meter::WriteIops)),
        ("weight", limit(Meter::Weight)),
        ("priority", limit(Meter::Priority)),
        ("min_bandwidth", limit(Meter::MinBandwidth)),
        ("min_iops", limit(Meter::MinIops)),
        ("latency_target_ns", limit(Meter::LatencyTarget)),
        ("max_credits", limit(Meter::Credits)),
        ("burst_bytes", limits.burst_bytes.into()),
        ("by_hand", Meter::NAMES.iter().any(|(meter, _)| slot.is_by_hand(*meter)).into()),
        ("read_bytes", figures.read_bytes.into()),
        ("written_bytes", figures.written_bytes.into()),
        ("requests", figures.operations.into()),
        ("throttled", figures.throttled.into()),
        ("throttled_ns", figures.throttled_ns.into()),
        ("waiting", figures.waiting.into()),
    ]
}

/// Describes the limits of a class; a star marks those set by `choro qos set`.
fn limits_of(slot: &Slot) -> String {
    let limits = slot.limits();
    let word = |(meter, name): &(Meter, &str)| {
        let star = if slot.is_by_hand(*meter) { "*" } else { "" };
        let limit = limits.numbers[*meter as usize];
        if limit.is_none() && star.is_empty() {
            return None;
        }
        let text = limit.map_or_else(|| "none".to_owned(), |limit| in_words(*meter, limit));
        Some(format!("{} {text}{star}", name.trim_start_matches("max ")))
    };
    let words: Vec<String> = Meter::NAMES.iter().filter_map(word).collect();
    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
}

fn in_words(meter: Meter, number: u64) -> String {
    match meter {
        Meter::Weight | Meter::Priority | Meter::Credits => number.to_string(),
        Meter::LatencyTarget => format!("{}us", number / 1_000),
        _ => rounded(number, meter.is_bytes()),
    }
}

/// Major and minor number, as `lsblk` prints them.
fn device_name(number: u64) -> String {
    format!("{}:{}", number >> 32, number & u64::from(u32::MAX))
}

/// Share of their credits that clients may use.
fn credits_percent(device: &Device) -> u64 {
    let now = u64::try_from(machine_clock().as_nanos()).unwrap_or(u64::MAX);
    device.controller.credits(now) * 100 / ONE
}

fn storage_row((number, device): (u64, &Device)) -> Row {
    let controller = &device.controller;
    vec![
        ("storage", device_name(number).into()),
        ("limit", controller.limit().into()),
        ("in_flight", device.in_flight().into()),
        ("waiting", device.waiting().into()),
        ("mean_ns", controller.mean_ns().into()),
        ("slowdown_percent", (controller.slowdown() * 100 / ONE).into()),
        ("credits_percent", credits_percent(device).into()),
    ]
}

fn rounded(limit: u64, is_bytes: bool) -> String {
    for (shift, unit) in [(30, "G"), (20, "M"), (10, "K")] {
        if is_bytes && limit >> shift > 0 && limit.is_multiple_of(1 << shift) {
            return format!("{}{unit}/s", limit >> shift);
        }
    }
    format!("{limit}/s")
}

fn parse(text: &str) -> anyhow::Result<(Meter, Option<u64>)> {
    let (name, value) = text.split_once('=').with_context(|| format!("{text}: `=` is missing"))?;
    let wanted = name.trim().to_lowercase().replace('-', " ");
    let known = Meter::NAMES.iter().find(|(_, name)| *name == wanted);
    let Some((meter, _)) = known else {
        let names: Vec<String> = Meter::NAMES.map(|(_, name)| name.replace(' ', "-")).to_vec();
        bail!("{name} is not a limit; the limits are {}", names.join(", "));
    };
    if value.trim().eq_ignore_ascii_case("none") {
        return Ok((*meter, None));
    }
    let limit = number(*meter, value).map_err(|reason| anyhow!("{text}: {reason}, or none"))?;
    Ok((*meter, limit))
}

fn mebibytes(bytes: u64) -> String {
    let tenths = bytes / ((1 << 20) / 10);
    format!("{}.{}", tenths / 10, tenths % 10)
}

fn milliseconds_each(nanoseconds: u64, count: u64) -> String {
    nanoseconds
        .checked_div(count)
        .map_or_else(|| "-".to_owned(), |each| (each / 1_000_000).to_string())
}

#[cfg(test)]
mod tests {
    use ::qos::Meter;

    use super::{mebibytes, parse, rounded};

    #[test]
    fn limits_are_named_as_in_the_configuration() {
        let (meter, limit) = parse("max-read-bandwidth=20M").expect("it is right");
        assert_eq!((meter, limit), (Meter::ReadBandwidth, Some(20 << 20)));
        assert_eq!(parse("max iops=none").expect("it is right").1, None);
        assert_eq!(parse("weight=8").expect("it is right"), (Meter::Weight, Some(8)));
        assert_eq!(parse("latency-target=2ms").expect("it is right").1, Some(2_000_000));
        assert_eq!(parse("max-credits=64").expect("it is right"), (Meter::Credits, Some(64)));
        for wrong in [
            "weight=0",
            "max-credits=0",
            "max-credits=1K",
            "latency-target=2",
            "max-bandwidth",
            "bandwidth=1M",
            "max-iops=0",
            "max-iops=fast",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn exact_amounts_are_short() {
        assert_eq!(rounded(20 << 20, true), "20M/s");
        assert_eq!(rounded((20 << 20) + 1, true), "20971521/s");
        assert_eq!(rounded(1024, false), "1024/s");
        assert_eq!(mebibytes(3 << 19), "1.5");
    }
}
