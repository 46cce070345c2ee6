//! A configuration as text again, in the style of `testparm -s`.

use std::fmt::Write as _;

use crate::class::PREFIX;
use crate::config::Config;
use crate::parameter::{Effect, Parameter, Scope, parameters};
use crate::section::Section;
use crate::share::Share;

/// Renders the effective settings as a file with the same meaning: canonical names and values,
/// sections in the order of the file, includes and copies already done.
///
/// The brief form has settings that differ from the default; `verbose` adds all others that have an
/// effect.
#[must_use]
pub fn render_effective(config: &Config, verbose: bool) -> String {
    let detail = if verbose { Detail::Everything } else { Detail::Changed };
    render(config, detail)
}

/// Renders the effective settings for processes that need the same configuration. Leaves out
/// ignored parameters, to spare each process their lookup among hundreds of names.
#[must_use]
pub fn render_for_processes(config: &Config) -> String {
    if config.text.is_empty() {
        return render(config, Detail::Meant);
    }
    // Each client's files belong at their places in the text. The server's parameters may have been
    // changed since.
    let mut out = format!("{}\n[global]\n", config.text);
    let (section, none) = (&config.global.section, Section::default());
    write_scope(&mut out, Scope::Global, section, &none, Detail::Everything);
    out
}

/// Parameters that a rendering contains.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Detail {
    /// Parameters that differ from the default.
    Changed,
    /// All parameters with an effect, and others that differ from the default.
    Everything,
    /// Parameters that differ from the default and have an effect.
    Meant,
}

fn render(config: &Config, detail: Detail) -> String {
    let mut out = "# Global parameters\n[global]\n".to_owned();
    let none = Section::default();
    write_scope(&mut out, Scope::Global, &config.global.section, &none, detail);
    write_options(&mut out, &config.global.section);
    write_scope(&mut out, Scope::Share, &config.defaults.section, &none, detail);
    let ipc = Some(&config.ipc).filter(|ipc| differs(ipc, &config.defaults));
    for share in config.homes.iter().chain(ipc).chain(&config.shares) {
        let _ = write!(out, "\n\n[{}]\n", one_line(&share.name));
        write_scope(&mut out, Scope::Share, &share.section, &config.defaults.section, detail);
        write_options(&mut out, &share.section);
    }
    if let Some(template) = config.usershare_template.as_ref()
        && config.share(&template.name).is_none()
    {
        let _ = write!(out, "\n\n[{}]\n\t-valid = No\n", one_line(&template.name));
        write_scope(&mut out, Scope::Share, &template.section, &config.defaults.section, detail);
        write_options(&mut out, &template.section);
    }
    for section in &config.classes {
        let _ = write!(out, "\n\n[{PREFIX}{}]\n", one_line(&section.class.name));
        for (name, text) in &section.lines {
            let _ = writeln!(out, "\t{name} = {}", one_line(text));
        }
    }
    out
}

/// Writes parameters of one scope by name, compared with `base`.
fn write_scope(out: &mut String, scope: Scope, section: &Section, base: &Section, detail: Detail) {
    let mut shown: Vec<(&str, &str)> = parameters()
        .iter()
        .filter(|parameter| parameter.scope == scope && !DONE.contains(&parameter.name))
        .filter_map(|parameter| {
            let text = effective(section, parameter);
            let show = match detail {
                Detail::Everything if parameter.effect == Effect::Now => true,
                Detail::Meant if parameter.effect == Effect::Never => false,
                _ => text != effective(base, parameter),
            };
            show.then_some((parameter.name, text))
        })
        .collect();
    shown.sort_unstable();
    for (name, text) in shown {
        let _ = writeln!(out, "\t{name} = {}", one_line(text));
    }
}

fn write_options(out: &mut String, section: &Section) {
    for (key, text) in section.options() {
        let _ = writeln!(out, "\t{} = {}", one_line(key), one_line(text));
    }
}

fn effective<'a>(section: &'a Section, parameter: &Parameter) -> &'a str {
    section.text(parameter.name).unwrap_or(parameter.default)
}

fn differs(share: &Share, defaults: &Share) -> bool {
    share.section.options().len() > 0
        || parameters().iter().any(|parameter| {
            effective(&share.section, parameter) != effective(&defaults.section, parameter)
        })
}

/// Only a path given on the command line can contain a line break; it must not look like a
/// setting.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\t' { '?' } else { c }).collect()
}

/// Statements that only affect reading.
const DONE: &[&str] = &["-valid", "copy", "include"];
