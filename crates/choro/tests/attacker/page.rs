//! The tables of `docs/design/attacks.md`, which are made of the lists.

use std::fs;

use crate::attack::{Attack, Known};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/design/attacks.md");

/// Line behind which the tables begin; they are the rest of the page.
const MARK: &str = "## Stopped\n";

/// Compares the page with the lists. `KEEP_ATTACKS=1` writes it instead.
pub(crate) fn verify(attacks: &[&[Attack]]) {
    let page = fs::read_to_string(PAGE).expect("it is in the tree");
    let place = page.find(MARK).expect("the page has the heading");
    let tables = tables(attacks);
    if std::env::var_os("KEEP_ATTACKS").is_some() {
        fs::write(PAGE, page[..place].to_owned() + &tables).expect("it can be written");
        return;
    }
    for (found, line) in page[place..].lines().zip(tables.lines()) {
        assert_eq!(found, line, "KEEP_ATTACKS=1 writes it");
    }
    assert_eq!(page[place..].lines().count(), tables.lines().count());
}

fn tables(attacks: &[&[Attack]]) -> String {
    let mut stopped = String::new();
    let mut open = String::new();
    for attack in attacks.iter().copied().flatten() {
        let name = attack.name;
        match attack.known {
            Known::Stopped(layer) => stopped += &format!("| {name} | {} |\n", layer.name()),
            Known::Open(consequence) => open += &format!("| {name} | {consequence} |\n"),
        }
    }
    let table = |head: &str, rows: &str| format!("| attack | {head} |\n|---|---|\n{rows}");
    let (stopped, open) = (table("stopped by", &stopped), table("consequence", &open));
    format!("{MARK}\n{stopped}\n## Not prevented\n\n{open}")
}
