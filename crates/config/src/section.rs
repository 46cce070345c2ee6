//! Settings of one section, own and inherited.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::kind::{Typed, boolean};
use crate::parameter::{Parameter, find};
use crate::place::Place;

/// Settings by canonical name, and parametric options by `module:option` in small letters.
#[derive(Debug, Clone, Default)]
pub(crate) struct Section {
    settings: BTreeMap<&'static str, Setting>,
    options: Options,
    /// Options of `[global]`, which hold where this section has no value of its own.
    shared_options: Arc<Options>,
}

/// Parametric options by `module:option` in small letters.
type Options = BTreeMap<String, Arc<str>>;

/// A value in canonical form.
#[derive(Debug, Clone)]
struct Setting {
    text: Arc<str>,
    /// True if written in this section, not inherited: `copy` keeps it.
    own: bool,
    /// Line of the file, of parameters whose values are compared with the machine.
    place: Option<Arc<Place>>,
}

impl Section {
    /// Creates a section below a `[global]` whose share parameters so far are `defaults`. Later
    /// changes of `[global]` no longer reach it.
    pub(crate) fn below(defaults: &Self) -> Self {
        let settings = defaults
            .settings
            .iter()
            .map(|(name, setting)| (*name, Setting { own: false, ..setting.clone() }));
        Self { settings: settings.collect(), ..Self::default() }
    }

    pub(crate) fn set(&mut self, parameter: &'static Parameter, text: &str) {
        let setting = Setting { text: text.into(), own: true, place: None };
        self.settings.insert(parameter.name, setting);
    }

    /// As [`Self::set`], for a line of a file.
    pub(crate) fn set_at(&mut self, parameter: &'static Parameter, text: &str, place: &Place) {
        let place = PLACED.contains(&parameter.name).then(|| Arc::new(place.clone()));
        let setting = Setting { text: text.into(), own: true, place };
        self.settings.insert(parameter.name, setting);
    }

    /// Line that a parameter of [`PLACED`] was written on, here or above.
    pub(crate) fn place(&self, name: &str) -> Option<&Place> {
        self.settings.get(name)?.place.as_deref()
    }

    pub(crate) fn set_option(&mut self, key: String, text: &str) {
        self.options.insert(key, text.into());
    }

    /// Has the options of `[global]`, wherever they stand in the file, hold in each section.
    pub(crate) fn share_options<'a>(&self, sections: impl Iterator<Item = &'a mut Self>) {
        let options = Arc::new(self.options.clone());
        for section in sections {
            section.shared_options = Arc::clone(&options);
        }
    }

    /// Copies all settings of `source` except those already written here.
    pub(crate) fn copy(&mut self, source: &Self) {
        self.settings.retain(|_, setting| setting.own);
        for (name, setting) in &source.settings {
            if *name != "copy" {
                self.settings.entry(name).or_insert_with(|| setting.clone());
            }
        }
        for (key, text) in &source.options {
            self.options.entry(key.clone()).or_insert_with(|| Arc::clone(text));
        }
    }

    /// Takes the value of one parameter over from `source`. Returns true if it changed.
    pub(crate) fn take_over(&mut self, source: &Self, name: &'static str) -> bool {
        let changed = self.text(name) != source.text(name);
        match source.settings.get(name) {
            Some(setting) => self.settings.insert(name, setting.clone()),
            None => self.settings.remove(name),
        };
        changed
    }

    /// The value in canonical form, if it was set here or above.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.settings.get(name).map(|setting| &*setting.text)
    }

    /// The value, or the parameter's default.
    pub(crate) fn typed<T: Typed>(&self, name: &'static str) -> T {
        let default = || find(name).expect("fields are made from the table").0.default;
        T::typed(self.text(name).unwrap_or_else(default))
    }

    pub(crate) fn option(&self, module: &str, option: &str) -> Option<&str> {
        let key = option_key(module, option);
        self.options.get(&key).or_else(|| self.shared_options.get(&key)).map(|text| &**text)
    }

    pub(crate) fn option_is_on(&self, module: &str, option: &str, default: bool) -> bool {
        let word = self.option(module, option).and_then(|text| boolean(text.trim()));
        word.map_or(default, |word| word == "Yes")
    }

    pub(crate) fn options(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.options.iter().map(|(key, text)| (key.as_str(), &**text))
    }

    pub(crate) fn has_option(&self, key: &str) -> bool {
        self.options.contains_key(key)
    }

    /// Bytes of all values, for the limit on inherited values.
    pub(crate) fn value_bytes(&self) -> usize {
        let settings: usize = self.settings.values().map(|setting| setting.text.len()).sum();
        settings + self.options.iter().map(|(key, text)| key.len() + text.len()).sum::<usize>()
    }
}

/// Parameters whose values name users, programs or interfaces of the machine. Of others no process
/// keeps the lines.
const PLACED: &[&str] = &[
    "admin users",
    "dfree command",
    "force group",
    "force user",
    "get quota command",
    "interfaces",
    "invalid users",
    "postexec",
    "preexec",
    "read list",
    "root postexec",
    "root preexec",
    "set quota command",
    "valid users",
    "write list",
];

/// Returns `module:option` without outer white space, in small letters.
pub(crate) fn option_key(module: &str, option: &str) -> String {
    format!("{}:{}", module.trim().to_lowercase(), option.trim().to_lowercase())
}
