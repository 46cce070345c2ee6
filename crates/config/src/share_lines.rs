//! A share of a few lines, for tests of its parametric options.

use crate::{Config, Share, WarningKind};

/// Returns what `of` finds in a share with these lines, and the warnings about them.
pub(crate) fn parsed<T>(lines: &str, of: impl Fn(&Share) -> T) -> (T, Vec<String>) {
    let text = format!("[a]\npath = /a\n{lines}\n");
    let (config, warnings) = Config::parse(&text, "test").expect("it is well-formed");
    let reported = warnings.iter().filter(|it| it.kind != WarningKind::NoEffect);
    (of(&config.shares[0]), reported.map(ToString::to_string).collect())
}
