//! `choro check --interfaces`, the list of interfaces for multichannel.

use std::fmt::Display;

use anyhow::Context;
use config::Global;
use interfaces::Multichannel;
use interfaces::{Offer, Offered, OfferedValue, Origin, Withheld};
use observe::report::{self, Row};
use serde_json::Value;

/// Prints the interfaces that a server with this configuration would offer its clients now.
///
/// # Errors
/// The kernel does not list its interfaces.
pub(super) fn show(global: &Global, json: bool) -> anyhow::Result<()> {
    let offer = Offer::now(global).context("the interfaces of this machine cannot be listed")?;
    let multichannel = Multichannel::of(global);
    match json {
        true => report::print_json(rows(&multichannel, &offer)),
        false => report::print(&text(&multichannel, &offer)),
    }
}

const OFFERED_TITLES: &[&str] = &["ADDRESS", "INTERFACE", "INDEX", "SPEED", "RSS", "RDMA"];
const WITHHELD_TITLES: &[&str] = &["ADDRESS", "INTERFACE", "WHY"];

fn text(multichannel: &Multichannel, offer: &Offer) -> String {
    let mut text = format!("Multichannel: {multichannel}\n\n");
    text.push_str(&match multichannel.is_on() {
        true => format!("Offered to clients: {}\n", offer.offered.len()),
        false => format!("Would be offered to clients: {}\n", offer.offered.len()),
    });
    if !offer.offered.is_empty() {
        let rows: Vec<_> = offer.offered.iter().map(offered_cells).collect();
        text.push_str(&report::table(OFFERED_TITLES, &rows));
        if !offer.invites_channels() {
            text.push_str(ONE_INTERFACE);
        }
    }
    text.push_str(&format!("\nNot offered: {}\n", offer.withheld.len()));
    if !offer.withheld.is_empty() {
        let rows: Vec<_> = offer.withheld.iter().map(withheld_cells).collect();
        text.push_str(&report::table(WITHHELD_TITLES, &rows));
    }
    for word in &offer.unmatched {
        text.push_str(&format!("\n`{word}` of `interfaces` matches nothing on this machine\n"));
    }
    text
}

/// A single interface does not make a client open more connections.
const ONE_INTERFACE: &str = "With one interface without RSS, clients open no second connection.\n";

fn offered_cells(it: &Offered) -> Vec<String> {
    let yes_or_no = |it: &bool| if *it { "yes" } else { "no" };
    vec![
        it.address.to_string(),
        it.interface.clone(),
        cell(&it.if_index, u32::to_string),
        cell(&it.speed, |speed| report::bits_per_second(*speed)),
        cell(&it.rss, yes_or_no),
        cell(&it.rdma, yes_or_no),
    ]
}

fn cell<T, D: Display>(offered: &OfferedValue<T>, show: impl Fn(&T) -> D) -> String {
    let value = show(&offered.value);
    match &offered.origin {
        Origin::Configured(word) => format!("{value} (smb.conf, {word})"),
        Origin::Default => format!("{value} (default)"),
        Origin::Detected(how) => format!("{value} ({how})"),
    }
}

fn withheld_cells((it, why): &(Offered, Withheld)) -> Vec<String> {
    vec![it.address.to_string(), it.interface.clone(), why.why().to_owned()]
}

fn rows(multichannel: &Multichannel, offer: &Offer) -> Vec<Row> {
    let state: Row = vec![
        ("kind", "multichannel".into()),
        ("is_on", multichannel.is_on().into()),
        ("state", multichannel.to_string().into()),
        ("invites_channels", offer.invites_channels().into()),
    ];
    let unmatched = offer.unmatched.iter().map(|word| -> Row {
        vec![("kind", "unmatched".into()), ("interfaces", word.clone().into())]
    });
    [state]
        .into_iter()
        .chain(offer.offered.iter().map(offered_row))
        .chain(offer.withheld.iter().map(withheld_row))
        .chain(unmatched)
        .collect()
}

fn offered_row(it: &Offered) -> Row {
    let (if_index, speed) = (&it.if_index, &it.speed);
    let (rss, rdma) = (&it.rss, &it.rdma);
    vec![
        ("kind", "offered".into()),
        ("address", it.address.to_string().into()),
        ("interface", it.interface.clone().into()),
        ("if_index", if_index.value.into()),
        ("if_index_from", source(&if_index.origin).into()),
        ("if_index_how", how(&if_index.origin)),
        ("speed_bits_per_s", speed.value.into()),
        ("speed_from", source(&speed.origin).into()),
        ("speed_how", how(&speed.origin)),
        ("rss", rss.value.into()),
        ("rss_from", source(&rss.origin).into()),
        ("rss_how", how(&rss.origin)),
        ("rdma", rdma.value.into()),
        ("rdma_from", source(&rdma.origin).into()),
        ("rdma_how", how(&rdma.origin)),
    ]
}

fn withheld_row((it, why): &(Offered, Withheld)) -> Row {
    vec![
        ("kind", "not_told".into()),
        ("address", it.address.to_string().into()),
        ("interface", it.interface.clone().into()),
        ("why", why.why().into()),
    ]
}

/// Stable name of the origin, for JSON.
fn source(origin: &Origin) -> &'static str {
    match origin {
        Origin::Configured(_) => "smb.conf",
        Origin::Default => "default",
        Origin::Detected(_) => "detected",
    }
}

/// Returns the matching word of `interfaces`, or the method of detection.
fn how(origin: &Origin) -> Value {
    match origin {
        Origin::Configured(text) | Origin::Detected(text) => text.clone().into(),
        Origin::Default => Value::Null,
    }
}
