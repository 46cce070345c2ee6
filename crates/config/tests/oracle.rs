//! The sample files of `data/`, read by us and, where it is installed, by Samba's `testparm`.
//!
//! `NAME.expected` is our reading of `NAME.conf`, normalized; `UPDATE_EXPECTED=1` writes it anew.
//! Both readings must equal it, so a machine without `testparm` compares with the results of one
//! that has it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use config::{Config, LoadError, WarningKind};

#[test]
fn lines() {
    check("lines", &[WarningKind::Syntax, WarningKind::Syntax]);
}

#[test]
fn sections() {
    check("sections", &[]);
}

#[test]
fn values() {
    check("values", &[]);
}

#[test]
fn synonyms() {
    check("synonyms", &[]);
}

#[test]
fn lists() {
    // Host names in `hosts allow`.
    check("lists", &[WarningKind::BadValue, WarningKind::BadValue]);
}

#[test]
fn includes() {
    // `%m.inc` fits `global.inc`, which changes the server.
    check("includes", &[WarningKind::MissingInclude, WarningKind::NotServed]);
}

/// The configuration of a typical installation: it loads with warnings only for known gaps of this
/// server.
#[test]
fn office() {
    check("office", &[WarningKind::WeakerThanSamba]);
}

/// Files that we refuse to serve, Samba refuses as well.
#[test]
fn refused_files() {
    for (text, line) in [
        ("[a\npath=/a\n", 1),
        ("[]\n", 1),
        ("\n[global]\nserver signing = mandtory\n", 3),
        ("[a]\npath=/a\nsmb encrypt = requird\n", 3),
        ("[a]\npath=/a\navailable = nein\n", 3),
    ] {
        let refused = Config::parse(text, "t").expect_err("cannot be served safely");
        let (LoadError::BadSection { line: at, .. } | LoadError::BadProtection { line: at, .. }) =
            refused
        else {
            panic!("{text:?} is refused for another reason: {refused}");
        };
        assert_eq!(at, line, "{text:?}");
        let folder = tempfile::tempdir().expect("a folder for the test");
        let file = folder.path().join("smb.conf");
        fs::write(&file, text).expect("written");
        if let Some((accepted, _)) = testparm(&file) {
            assert!(!accepted, "testparm accepts {text:?}");
        }
    }
}

/// Compares the readings of `data/NAME.conf`; `want` are our warnings, notes left out.
#[track_caller]
fn check(name: &str, want: &[WarningKind]) {
    let file = data().join(name).with_extension("conf");
    let (config, warnings) = Config::load(&file).expect("the sample can be served");
    let kinds: Vec<WarningKind> =
        warnings.iter().map(|warning| warning.kind).filter(|kind| !kind.is_note()).collect();
    assert_eq!(kinds, want, "{warnings:#?}");

    let ours = normalized(&config::render_effective(&config, false));
    let expected = file.with_extension("expected");
    if std::env::var_os("UPDATE_EXPECTED").is_some() {
        fs::write(&expected, &ours).expect("written");
    }
    assert_eq!(ours, fs::read_to_string(&expected).expect("checked in"), "our reading");
    if let Some((accepted, text)) = testparm(&file) {
        assert!(accepted, "testparm accepts {name}");
        assert_eq!(normalized(&text), ours, "testparm's reading against ours");
    }
}

/// Runs `testparm`. Returns true if it accepts the file, and its output; `None` if it is not
/// installed.
fn testparm(file: &Path) -> Option<(bool, String)> {
    // Relative includes are relative to the working directory there.
    let output = Command::new("testparm").arg("-s").arg(file).current_dir(data()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // Its exit code also reports missing folders of this machine.
    Some((text.contains("[global]"), text))
}

/// Returns the same text for both programs: sections in order, lines sorted, without parameters and
/// forms that only one of them has.
fn normalized(text: &str) -> String {
    let mut sections: Vec<(String, BTreeMap<String, String>)> = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') && line.ends_with(']') {
            sections.push((line.to_owned(), BTreeMap::new()));
        } else if let Some((name, value)) = line.split_once('=')
            && let Some((_, lines)) = sections.last_mut()
        {
            let name = match name.split_once(':') {
                // Samba adds the backend of identities when it is not there.
                Some((module, _)) if module.starts_with("idmap config") => continue,
                Some((module, option)) => format!("{}:{}", module.trim(), option.trim()),
                None => name.trim().to_owned(),
            };
            let is_kept = config::find(&name)
                .is_none_or(|(parameter, _)| parameter.effect != config::Effect::Never);
            // `testparm` never shows the level of the log, which it sets for itself.
            if is_kept && name != "log level" {
                // Samba quotes only words with blanks, and leaves out the rest of the separators.
                lines.insert(name, value.trim().replace('"', ""));
            }
        }
    }
    // `[homes]` comes first with us: it is no share.
    sections[1..].sort_by_key(|(name, _)| name != "[homes]");
    let mut out = String::new();
    for (name, lines) in sections {
        out.push_str(&format!("{name}\n"));
        for (name, value) in lines {
            out.push_str(format!("\t{name} = {value}").trim_end());
            out.push('\n');
        }
    }
    out
}

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}
