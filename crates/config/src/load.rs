//! From files to sections.
//!
//! Files are read once, from top to bottom, and order matters: a share starts with the share
//! parameters in `[global]` above it, and `copy` takes the parameters that the other section has at
//! that point.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use client_files::{ClientFile, ClientFiles};

use crate::choice::{Security, ServerRole};
use crate::class;
use crate::full_audit::{self, Fault};
use crate::hosts_access::Name;
use crate::kind::Kind;
use crate::limits::{
    FILE_BYTES_MAX, LINE_BYTES_MAX, OPTIONS_MAX, SECTIONS_MAX, TOTAL_BYTES_MAX, WARNINGS_MAX,
};
use crate::lines::{Line, Statement, statements};
use crate::options;
use crate::parameter::{Effect, Parameter, Scope, find, nearest, nearest_of};
pub(crate) use crate::place::Place;
use crate::recycle;
use crate::section::{Section, option_key};
use crate::shadow_copy;
use crate::source::Source;
use crate::streams_depot;
use crate::substitutions::Substitutions;
use crate::unsupported::{self, Unsupported};
use crate::warning::{LoadError, Warning, WarningKind, hint, quoted};

pub(crate) mod client_files;
mod include;
mod inherit;

/// Sections and warnings of all files that were read.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    /// `[global]`'s parameters of the server, and its parametric options.
    pub(crate) global: Section,
    /// `[global]`'s parameters of shares, the defaults of later sections.
    pub(crate) defaults: Section,
    /// All other sections in the order in which they were first opened.
    pub(crate) sections: Vec<Named>,
    /// Sections `[qos:NAME]`, in the order of the files.
    pub(crate) classes: Vec<class::Written>,
    pub(crate) warnings: Vec<Warning>,
    /// Files for single clients, not read yet.
    pub(crate) client_files: Vec<ClientFile>,
    /// Text of all files, if there are such, with an `include` for each of these.
    pub(crate) text: String,
}

/// A section other than `[global]`.
#[derive(Debug)]
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) section: Section,
    pub(crate) place: Place,
    /// True if `copy` named no section, so that some parameters are unknown.
    pub(crate) incomplete: bool,
    /// True after `-valid = no`: the section is left out.
    pub(crate) dropped: bool,
}

/// Reads `path` and its includes from `source`.
pub(crate) fn load(
    path: &Path,
    source: &dyn Source,
    substitutions: &Substitutions,
) -> Result<Loaded, LoadError> {
    let mut loader = Loader::new(source, substitutions, ClientFiles::Left);
    let unreadable = |error| LoadError::Unreadable { path: path.to_owned(), error };
    let identity = source.identity(path).map_err(unreadable)?;
    let bytes = source.read(path).map_err(unreadable)?;
    loader.reading.push(identity);
    loader.file(&path.display().to_string(), path.parent(), &bytes)?;
    loader.finish()
}

/// Reads `text` as the contents of a file called `name`.
pub(crate) fn parse(
    text: &str,
    name: &str,
    source: &dyn Source,
    substitutions: &Substitutions,
    client_files: ClientFiles<'_>,
) -> Result<Loaded, LoadError> {
    let mut loader = Loader::new(source, substitutions, client_files);
    loader.file(name, None, text.as_bytes())?;
    loader.finish()
}

struct Loader<'a> {
    source: &'a dyn Source,
    substitutions: &'a Substitutions,
    client_files: ClientFiles<'a>,
    /// Depth of includes within a file for single clients; 0 outside.
    in_client_files: usize,
    loaded: Loaded,
    by_name: HashMap<String, usize>,
    /// Section that receives assignments; `None` for `[global]`, also before the first header.
    current: Option<usize>,
    /// Class that receives assignments; takes precedence over `current`.
    current_class: Option<usize>,
    /// Files being read: the main one, then each nested include.
    reading: Vec<PathBuf>,
    inclusions: usize,
    total_bytes: u64,
    inherited_bytes: usize,
    warnings_dropped: usize,
    /// The line that makes the server a node of a cluster: its value, the reason to refuse it.
    clustered: Option<(String, &'static str, Place)>,
}

impl<'a> Loader<'a> {
    fn new(
        source: &'a dyn Source,
        substitutions: &'a Substitutions,
        client_files: ClientFiles<'a>,
    ) -> Self {
        Self {
            source,
            substitutions,
            client_files,
            in_client_files: 0,
            loaded: Loaded::default(),
            by_name: HashMap::new(),
            current: None,
            current_class: None,
            reading: Vec::new(),
            inclusions: 0,
            total_bytes: 0,
            inherited_bytes: 0,
            warnings_dropped: 0,
            clustered: None,
        }
    }

    fn finish(mut self) -> Result<Loaded, LoadError> {
        if let Some((value, reason, Place { file, line })) = self.clustered {
            let socket = self.loaded.global.typed("ctdbd socket");
            return Err(LoadError::Clustered { file, line, value, reason, socket });
        }
        self.finish_text()?;
        if self.warnings_dropped > 0 {
            self.loaded.warnings.push(Warning {
                file: String::new(),
                line: 0,
                kind: WarningKind::NotShown,
                message: format!("{} more warnings are not shown", self.warnings_dropped),
            });
        }
        Ok(self.loaded)
    }

    fn file(&mut self, name: &str, folder: Option<&Path>, bytes: &[u8]) -> Result<(), LoadError> {
        let place = |line| Place { file: name.to_owned(), line };
        let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        check(size, FILE_BYTES_MAX, "bytes in one file", &place(0))?;
        self.total_bytes = self.total_bytes.saturating_add(size);
        check(self.total_bytes, TOTAL_BYTES_MAX, "bytes in all files", &place(0))?;
        let text = String::from_utf8_lossy(bytes);
        if matches!(text, std::borrow::Cow::Owned(_)) {
            self.warn_not_utf8(bytes, &place);
        }
        for Line { number, statement } in statements(&text) {
            self.statement(statement, folder, &place(number))?;
        }
        Ok(())
    }

    fn warn_not_utf8(&mut self, bytes: &[u8], place: &dyn Fn(u32) -> Place) {
        for (line, number) in bytes.split(|byte| *byte == b'\n').zip(1..) {
            if str::from_utf8(line).is_err() {
                let text = "bytes that are not UTF-8 are read as U+FFFD";
                self.warn(&place(number), WarningKind::NotUtf8, text.to_owned());
            }
        }
    }

    fn statement(
        &mut self,
        statement: Statement,
        folder: Option<&Path>,
        place: &Place,
    ) -> Result<(), LoadError> {
        match statement {
            Statement::Assignment { name, value } => self.assign(&name, &value, folder, place),
            Statement::BadSection { missing } => {
                Err(LoadError::BadSection { file: place.file.clone(), line: place.line, missing })
            }
            Statement::Junk(text) => {
                let text = format!("not understood and ignored: {}", quoted(&text));
                self.warn(place, WarningKind::Syntax, text);
                Ok(())
            }
            Statement::Section(name) => {
                self.record(format_args!("[{name}]"));
                self.open(name, place)
            }
            Statement::TooLong => Err(limit(LINE_BYTES_MAX as u64, "bytes in one line", place)),
        }
    }

    fn open(&mut self, name: String, place: &Place) -> Result<(), LoadError> {
        let key = name.to_lowercase();
        self.current_class = None;
        if let Some(class) = key.strip_prefix(class::PREFIX) {
            return self.open_class(name[name.len() - class.len()..].trim(), place);
        }
        if key == "global" || key == "globals" {
            self.current = None;
            return Ok(());
        }
        if let Some(index) = self.by_name.get(&key) {
            self.current = Some(*index);
            return Ok(());
        }
        let count = self.loaded.sections.len();
        if count >= SECTIONS_MAX {
            return Err(limit(SECTIONS_MAX as u64, "sections", place));
        }
        let section = Section::below(&self.loaded.defaults);
        self.inherit(&section, place)?;
        self.loaded.sections.push(Named {
            name,
            section,
            place: place.clone(),
            incomplete: false,
            dropped: false,
        });
        self.by_name.insert(key, count);
        self.current = Some(count);
        Ok(())
    }

    fn open_class(&mut self, name: &str, place: &Place) -> Result<(), LoadError> {
        self.verify_class(name, place)?;
        let classes = &mut self.loaded.classes;
        let same = |it: &class::Written| it.name.eq_ignore_ascii_case(name);
        let at = match classes.iter().position(same) {
            Some(at) => at,
            None if classes.len() >= SECTIONS_MAX => {
                return Err(limit(SECTIONS_MAX as u64, "sections", place));
            }
            None => {
                let (name, place) = (name.to_owned(), place.clone());
                classes.push(class::Written { name, place, lines: Vec::new() });
                classes.len() - 1
            }
        };
        self.current_class = Some(at);
        Ok(())
    }

    fn assign(
        &mut self,
        name: &str,
        value: &str,
        folder: Option<&Path>,
        place: &Place,
    ) -> Result<(), LoadError> {
        if let Some(at) = self.current_class {
            let lines = &mut self.loaded.classes[at].lines;
            if lines.len() >= OPTIONS_MAX {
                return Err(limit(OPTIONS_MAX as u64, "parameters in one section", place));
            }
            lines.push((class::canonical(name), value.to_owned(), place.clone()));
            self.record(format_args!("{name} = {value}"));
            return Ok(());
        }
        if let Some((module, option)) = name.split_once(':') {
            self.record(format_args!("{name} = {value}"));
            return self.assign_option(&option_key(module, option), value, place);
        }
        let Some((parameter, inverse)) = find(name) else {
            // The comparison with every known name is the only expensive step here; skip it for
            // warnings beyond the limit.
            let shown = self.loaded.warnings.len() < WARNINGS_MAX;
            let near = if shown { nearest(name) } else { None };
            let text = format!("unknown parameter `{}`{}", quoted(name), hint(near));
            self.warn(place, WarningKind::UnknownParameter, text);
            return Ok(());
        };
        if parameter.scope == Scope::Global && self.current.is_some() {
            let text = format!("`{}` belongs into [global] and is ignored here", parameter.name);
            self.warn(place, WarningKind::WrongScope, text);
            return Ok(());
        }
        if !self.verify_parameter(parameter, value, place)? {
            return Ok(());
        }
        // Its place has the files instead.
        if parameter.name != "include" {
            self.record(format_args!("{name} = {value}"));
        }
        match parameter.name {
            "include" => self.include(value, folder, place)?,
            "copy" => self.copy(value, place)?,
            "-valid" => self.drop_section(value),
            _ if parameter.effect == Effect::Never => self.accept(parameter, value, place)?,
            _ => return self.assign_effective(parameter, inverse, value, place),
        }
        self.target(parameter.scope).set(parameter, value);
        Ok(())
    }

    /// Notes a parameter without effect; refuses a value that this server must not ignore.
    fn accept(
        &mut self,
        parameter: &'static Parameter,
        value: &str,
        place: &Place,
    ) -> Result<(), LoadError> {
        let name = parameter.name;
        if name == "clustering" {
            self.clustered = None;
        }
        match unsupported::of(name, value) {
            Some(Unsupported::Cluster(reason)) => {
                self.clustered = Some((quoted(value), reason, place.clone()));
            }
            Some(Unsupported::Refused(reason)) => {
                return Err(unsupported(name, value, reason, place));
            }
            Some(Unsupported::Missing(reason)) => {
                let text = format!("`{name} = {}`: {reason}", quoted(value));
                self.warn(place, WarningKind::WeakerThanSamba, text);
            }
            None => {
                let text = format!("`{name}` is accepted and has no effect");
                self.warn(place, WarningKind::NoEffect, text);
            }
        }
        Ok(())
    }

    fn assign_effective(
        &mut self,
        parameter: &'static Parameter,
        inverse: bool,
        value: &str,
        place: &Place,
    ) -> Result<(), LoadError> {
        let text = match parameter.kind.canonical(value, parameter.default) {
            Ok(read) => {
                if let Some(remark) = read.remark {
                    let text = format!("`{} = {}`: {remark}", parameter.name, quoted(value));
                    self.warn(place, WarningKind::BadValue, text);
                }
                if parameter.effect == Effect::NotYet {
                    let text = format!("`{}` has no effect yet", parameter.name);
                    self.warn(place, WarningKind::NoEffect, text);
                }
                if inverse { opposite(&read.text) } else { read.text }
            }
            Err(bad) if parameter.refuses_bad_values() => {
                return Err(bad_protection(parameter.name, value, bad.to_string(), place));
            }
            Err(bad) => {
                let text = format!(
                    "`{} = {}`: {bad}; the default `{}` is used",
                    parameter.name,
                    quoted(value),
                    parameter.default
                );
                self.warn(place, WarningKind::BadValue, text);
                parameter.default.to_owned()
            }
        };
        self.remark(parameter, &text, place)?;
        self.target(parameter.scope).set_at(parameter, &text, place);
        Ok(())
    }

    fn assign_option(&mut self, key: &str, value: &str, place: &Place) -> Result<(), LoadError> {
        self.verify_option(key, value, place)?;
        if let Some((kind, text)) = options::remark(key, value) {
            self.warn(place, kind, text);
        }
        if let Some(option) = key.strip_prefix(AUDIT_OPTIONS) {
            match full_audit::fault(option, value) {
                Some(Fault::Refused(reason)) => {
                    return Err(bad_protection("full_audit", value, reason, place));
                }
                Some(Fault::Ignored(fault)) => {
                    let text = format!("`{} = {}`: {fault}", quoted(key), quoted(value));
                    self.warn(place, WarningKind::BadValue, text);
                }
                None => {}
            }
        }
        let section = self.target(Scope::Global);
        if section.options().len() >= OPTIONS_MAX && !section.has_option(key) {
            return Err(limit(OPTIONS_MAX as u64, "parametric options in one section", place));
        }
        section.set_option(key.to_owned(), value);
        Ok(())
    }

    /// Returns the section that receives a parameter of this scope. A share takes either;
    /// parametric options count as global.
    fn target(&mut self, scope: Scope) -> &mut Section {
        match (self.current, scope) {
            (Some(index), _) => &mut self.loaded.sections[index].section,
            (None, Scope::Global) => &mut self.loaded.global,
            (None, Scope::Share) => &mut self.loaded.defaults,
        }
    }

    /// Warns of values that are valid but work differently from Samba.
    fn remark(
        &mut self,
        parameter: &'static Parameter,
        text: &str,
        place: &Place,
    ) -> Result<(), LoadError> {
        match parameter.name {
            "vfs objects" => {
                for module in crate::list::words(text) {
                    if let Some(reason) = unsupported::of_module(&module) {
                        return Err(unsupported(parameter.name, &module, reason, place));
                    }
                    if !BUILT_IN.iter().any(|name| name.eq_ignore_ascii_case(&module)) {
                        let near = nearest_of(&module, BUILT_IN.iter().copied());
                        let text = format!(
                            "vfs module `{}` is not built in{}",
                            quoted(&module),
                            hint(near)
                        );
                        self.warn(place, WarningKind::NotBuiltIn, text);
                    }
                }
            }
            "strict rename" if text == "No" => {
                let text = "`strict rename = no` has no effect: no folder is renamed while a file \
                            in it is open";
                self.warn(place, WarningKind::NoEffect, text.to_owned());
            }
            "hosts allow" | "hosts deny" => return self.remark_hosts(parameter, text, place),
            "force user" | "guest account" if text.trim_matches('"') == "root" => {
                let text = format!(
                    "`{} = root`: clients act as root in the file system, which keeps nothing from \
                     them and lets them give files to anybody; name a user made for this",
                    parameter.name
                );
                self.warn(place, WarningKind::ActsAsRoot, text);
            }
            "security" if text == Security::Other.word() => {
                return Err(unsupported(parameter.name, text, unsupported::OTHER_DOMAIN, place));
            }
            "server role" if text == ServerRole::Controller.word() => {
                return Err(unsupported(parameter.name, text, unsupported::CONTROLLER, place));
            }
            "server max protocol" if text == "NT1" => {
                return Err(unsupported(parameter.name, text, unsupported::NO_DIALECT, place));
            }
            "server min protocol" if text == "NT1" => {
                let text = format!("`{}`: dialects before SMB 2 are not spoken", parameter.name);
                self.warn(place, WarningKind::BadValue, text);
            }
            "netbios name" | "netbios aliases" => self.remark_netbios(parameter, text, place),
            _ => {}
        }
        Ok(())
    }

    /// Remarks on names that the protocols of NetBIOS cannot carry.
    fn remark_netbios(&mut self, parameter: &Parameter, text: &str, place: &Place) {
        let words = match parameter.kind {
            Kind::List => crate::list::words(text),
            _ => vec![text.trim_matches('"').to_owned()],
        };
        for name in words.iter().filter(|it| it.chars().count() > NETBIOS_NAME_LEN) {
            let text = format!(
                "`{}`: `{}` has more than {NETBIOS_NAME_LEN} characters, so clients may not find \
                 or accept the name",
                parameter.name,
                quoted(name)
            );
            self.warn(place, WarningKind::BadValue, text);
        }
    }

    /// Remarks on words of lists of hosts. A word that matches no client only narrows `hosts
    /// allow`, but leaves a gap in `hosts deny` or behind `EXCEPT`.
    fn remark_hosts(
        &mut self,
        parameter: &Parameter,
        text: &str,
        place: &Place,
    ) -> Result<(), LoadError> {
        let words = crate::list::words(text);
        let denies = parameter.name == "hosts deny";
        let excludes = denies || words.iter().any(|word| word.eq_ignore_ascii_case("EXCEPT"));
        for word in crate::hosts_access::malformed(&words) {
            let fault = match word.starts_with('@') {
                true => "netgroups of hosts are not looked up",
                false => "neither an address nor a network",
            };
            if excludes {
                let reason = format!("{fault}, so it would exclude nobody");
                return Err(bad_protection(parameter.name, word, reason, place));
            }
            let text = format!("`{}` matches no client: {fault}", quoted(word));
            self.warn(place, WarningKind::BadValue, text);
        }
        if let Some(word) = crate::hosts_access::half_of_all(&words).filter(|_| denies) {
            let text = format!(
                "`{}` does not cover all clients, which use IPv4 and IPv6; `ALL` does",
                quoted(word)
            );
            self.warn(place, WarningKind::Contradiction, text);
        }
        for Name { word, is_excepted } in crate::hosts_access::names(&words) {
            if denies != is_excepted {
                let reason = "clients are not looked up by name, so it would exclude nobody; give \
                              addresses or networks";
                return Err(bad_protection(parameter.name, word, reason.to_owned(), place));
            }
            let text = format!(
                "`{}` admits nobody: clients are not looked up by name; give addresses or networks",
                quoted(word)
            );
            self.warn(place, WarningKind::BadValue, text);
        }
        Ok(())
    }

    fn warn(&mut self, place: &Place, kind: WarningKind, message: String) {
        if self.loaded.warnings.len() < WARNINGS_MAX {
            let file = place.file.clone();
            self.loaded.warnings.push(Warning { file, line: place.line, kind, message });
        } else {
            self.warnings_dropped += 1;
        }
    }
}

fn opposite(canonical: &str) -> String {
    if canonical == "Yes" { "No" } else { "Yes" }.to_owned()
}

fn bad_protection(
    parameter: &'static str,
    value: &str,
    reason: String,
    place: &Place,
) -> LoadError {
    let (file, value) = (place.file.clone(), quoted(value));
    LoadError::BadProtection { file, line: place.line, parameter, value, reason }
}

fn unsupported(
    parameter: &'static str,
    value: &str,
    reason: &'static str,
    at: &Place,
) -> LoadError {
    let (file, value) = (at.file.clone(), quoted(value));
    LoadError::Unsupported { file, line: at.line, parameter, value, reason }
}

fn check(value: u64, max: u64, unit: &'static str, place: &Place) -> Result<(), LoadError> {
    if value > max { Err(limit(max, unit, place)) } else { Ok(()) }
}

fn limit(limit: u64, unit: &'static str, place: &Place) -> LoadError {
    LoadError::Limit { file: place.file.clone(), line: place.line, limit, unit }
}

/// Characters of a NetBIOS name.
const NETBIOS_NAME_LEN: usize = 15;

/// Prefix of the options of an audit.
const AUDIT_OPTIONS: &str = "full_audit:";

/// Modules of Samba whose function this server has, always or if named in `vfs objects`.
const BUILT_IN: &[&str] = &[
    "acl_xattr",
    class::RATE_LIMITS,
    "catia",
    "fruit",
    full_audit::MODULE,
    "io_uring",
    recycle::MODULE,
    shadow_copy::MODULE,
    streams_depot::MODULE,
    streams_depot::ATTRIBUTES,
];

#[cfg(test)]
mod tests;
