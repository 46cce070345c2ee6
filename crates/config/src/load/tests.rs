use std::collections::HashMap;
use std::ffi::OsString;
use std::io;

use proptest::prelude::*;

use super::*;
use crate::limits::{INCLUDE_DEPTH_MAX, INHERITED_BYTES_MAX};
use crate::{Config, WarningKind};

/// Files by path. Paths are compared as text, and `.` and `..` do not occur.
#[derive(Default)]
struct Memory(HashMap<PathBuf, Vec<u8>>);

impl Memory {
    fn new(files: &[(&str, &str)]) -> Self {
        Self(files.iter().map(|(name, text)| (name.into(), text.as_bytes().to_vec())).collect())
    }
}

impl Source for Memory {
    fn identity(&self, path: &Path) -> io::Result<PathBuf> {
        self.read(path).map(|_| path.to_owned())
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        if path.ends_with("forbidden") {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        self.0.get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn folder(&self, path: &Path) -> io::Result<Option<Vec<PathBuf>>> {
        let is_in = |file: &&PathBuf| file.parent() == Some(path);
        let mut files: Vec<_> = self.0.keys().filter(is_in).cloned().collect();
        if files.is_empty() {
            return Ok(None);
        }
        files.sort_unstable();
        let is_included = |file: &PathBuf| {
            file.file_name().and_then(|it| it.to_str()).is_some_and(crate::source::is_included)
        };
        files.retain(is_included);
        Ok(Some(files))
    }

    fn names(&self, folder: &Path, max: usize) -> io::Result<Vec<OsString>> {
        let inside = self.0.keys().filter(|path| path.parent() == Some(folder));
        Ok(inside.take(max).filter_map(|path| Some(path.file_name()?.to_owned())).collect())
    }
}

fn read(files: &[(&str, &str)]) -> Result<Loaded, LoadError> {
    load(Path::new("/etc/smb.conf"), &Memory::new(files), &Substitutions::default())
}

fn text(loaded: &Loaded, section: &str, name: &str) -> Option<String> {
    let section = loaded.sections.iter().find(|named| named.name == section)?;
    section.section.text(name).map(str::to_owned)
}

#[track_caller]
fn warns(text: &str, want: &[(u32, WarningKind)]) -> Config {
    let (config, warnings) = Config::parse(text, "test").expect("the text can be served");
    let got: Vec<(u32, WarningKind)> =
        warnings.iter().map(|warning| (warning.line, warning.kind)).collect();
    assert_eq!(got, want, "{warnings:#?}");
    config
}

/// As Samba does: the second header continues the section.
#[test]
fn a_section_opened_twice_is_one_section_of_the_first_name() {
    let config = warns("[Data]\npath=/a\nx:y = 1\n[b]\npath=/b\n[dATA]\ncomment=c\npath=/c\n", &[]);
    assert_eq!(config.shares.len(), 2);
    let share = config.share("DATA").expect("names ignore case");
    assert_eq!((&*share.name, &*share.path, &*share.comment), ("Data", "/c", "c"));
    assert_eq!(share.option("X", "y"), Some("1"));
}

#[test]
fn a_share_starts_from_the_defaults_set_in_global_above_it() {
    let config = warns(
        "[a]\npath=/a\n[global]\nread only=no\n[b]\npath=/b\n[c]\npath=/c\nread only=yes\n",
        &[],
    );
    let read_only: Vec<bool> = config.shares.iter().map(|share| share.read_only).collect();
    assert_eq!(read_only, [true, false, true]);
    assert!(!config.defaults.read_only);
}

#[test]
fn copy_takes_parameters_that_are_not_set_from_the_lines_above() {
    let config = warns(
        "[a]\npath=/a\ncomment=ca\nread only=no\nf:b=1\n\
         [b]\ncomment=cb\ncopy=A\nvolume=vb\n\
         [a]\nguest ok=yes\n\
         [c]\npath=/c\nread only=yes\ncopy=b\n",
        &[],
    );
    let b = config.share("b").expect("b");
    assert_eq!((&*b.path, &*b.comment, &*b.volume), ("/a", "cb", "vb"));
    assert!(!b.read_only && !b.guest_ok);
    assert_eq!(b.option("f", "b"), Some("1"));
    let c = config.share("c").expect("c");
    assert_eq!((&*c.path, &*c.comment), ("/c", "cb"));
    assert!(c.read_only);
}

/// The missing section might have contained restrictions.
#[test]
fn a_share_that_copies_nothing_is_not_available() {
    let config = warns("[a]\npath=/a\ncopy=template\n", &[(3, WarningKind::NotServed)]);
    assert!(!config.shares[0].available);
    let config =
        warns("[a]\npath=/a\ncopy=none\n[b]\npath=/b\ncopy=a\n", &[(3, WarningKind::NotServed)]);
    assert!(!config.shares[1].available);
}

#[test]
fn a_section_that_is_not_valid_is_as_if_not_written() {
    let config = warns("[a]\npath=/a\n-valid=no\n[b]\npath=/b\n-valid=yes\n", &[]);
    assert_eq!(config.shares.len(), 1);
    assert_eq!(config.shares[0].name, "b");
}

#[test]
fn lines_before_the_first_section_are_global() {
    let config = warns("workgroup = lower\n[a]\npath=/a\n", &[]);
    assert_eq!(config.global.workgroup, "LOWER");
}

#[test]
fn synonyms_and_opposites_set_the_same_parameter() {
    let config = warns(
        "[a]\npath=/a\nread only = yes\nwriteable = yes\npublic = yes\ncreate mode = 600\n\
         [b]\npath=/b\nWRITE OK = no\ngroup = staff\n",
        &[],
    );
    assert!(!config.shares[0].read_only && config.shares[0].guest_ok);
    assert_eq!(config.shares[0].create_mask, 0o600);
    assert!(config.shares[1].read_only);
    assert_eq!(config.shares[1].force_group, "staff");
}

#[test]
fn each_sort_of_trouble_has_its_warning() {
    use WarningKind::{
        BadValue, NoEffect, NotBuiltIn, NotServed, Syntax, UnknownParameter, WrongScope,
    };
    let config = warns(
        "[global]\nread onyl = no\nmystery\nmax open files = many\ndeadtime = 15x\n\
         password server = X\n\
         [a]\npath=/a\nworkgroup = Y\nvfs objects = worms streams_xattr\n\
         hosts allow = 1.2.3.4/99\n\
         [homes]\n[printers]\nprintable = yes\n[nopath]\n[x/y]\npath=/x\n",
        &[
            (2, UnknownParameter),
            (3, Syntax),
            (4, BadValue),
            (5, BadValue),
            (5, NoEffect),
            (6, NoEffect),
            (9, WrongScope),
            (10, NotBuiltIn),
            (11, BadValue),
            (14, NoEffect),
            (13, NotServed),
            (15, NotServed),
            (16, NotServed),
        ],
    );
    assert_eq!(config.global.workgroup, "WORKGROUP");
    assert_eq!((config.global.max_open_files, config.global.deadtime), (16424, 15));
    assert!(config.homes.is_some());
    let available: Vec<(&str, bool)> =
        config.shares.iter().map(|share| (&*share.name, share.available)).collect();
    assert_eq!(available, [("a", true), ("nopath", false), ("x/y", false)]);
}

#[test]
fn unimplemented_parameters_are_checked_and_noted() {
    let config = warns(
        "[global]\naio max threads = 5\n[a]\npath=/a\noplocks = maybe\nstrict allocate = 1\n",
        &[(2, WarningKind::NoEffect), (5, WarningKind::BadValue), (6, WarningKind::NoEffect)],
    );
    assert!(config.shares[0].oplocks && config.shares[0].strict_allocate);
    let verbose = crate::render_effective(&config, true);
    assert!(verbose.contains("aio max threads = 5"), "what was set is shown");
    assert!(!verbose.contains("dos filetimes"), "no default is shown for what is not done");
}

#[test]
fn a_misspelled_parameter_is_met_with_the_name_it_resembles() {
    let (_, warnings) = Config::parse("[global]\nread onyl = no\n", "smb.conf").expect("served");
    assert_eq!(
        warnings[0].to_string(),
        "smb.conf:2: unknown parameter `read onyl`, did you mean `read only`?"
    );
}

#[test]
fn misspelled_modules_and_options_are_met_with_those_they_resemble() {
    let text = "[global]\nchoro:wdd = no\n[a]\npath = /a\nvfs objects = friut acl_xattr\n\
                fruit:copy file = yes\nvfs objects = quantum\n";
    let (_, warnings) = Config::parse(text, "smb.conf").expect("served");
    let shown: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        shown,
        [
            "smb.conf:2: unknown parameter `choro:wdd`, did you mean `choro:wsd`?",
            "smb.conf:5: vfs module `friut` is not built in, did you mean `fruit`?",
            "smb.conf:6: unknown parameter `fruit:copy file`, did you mean `fruit:copyfile`?",
            "smb.conf:7: vfs module `quantum` is not built in",
        ]
    );
}

#[test]
fn a_netbios_name_beyond_15_characters_is_remarked_on() {
    let text = "netbios name = exactly15-chars\nnetbios aliases = short sixteen-letters-\n\
                netbios name = file-server-of-the-office\n";
    let (_, warnings) = Config::parse(text, "smb.conf").expect("served");
    let lines: Vec<_> = warnings.iter().map(|it| (it.line, it.kind)).collect();
    assert_eq!(lines, [(2, WarningKind::BadValue), (3, WarningKind::BadValue)], "{warnings:?}");
    assert!(warnings[0].message.contains("`sixteen-letters-` has more than 15 characters"));
}

/// The default takes effect, not what `[global]` said: `read only = ys` must not open a share.
#[test]
fn a_bad_value_means_the_default_and_not_the_inherited_value() {
    let config = warns(
        "[global]\nread only = no\n[a]\npath=/a\nread only = ys\n",
        &[(5, WarningKind::BadValue)],
    );
    assert!(config.shares[0].read_only);
}

#[test]
fn a_bad_value_of_a_protection_refuses_the_file() {
    for line in [
        "server smb encrypt = requird",
        "server signing = mandtory",
        "min protocol = SMB4",
        "follow symlinks = nope",
        "available = nein",
        "server smb3 encryption algorithms = ROT13",
    ] {
        let refused = Config::parse(&format!("\n{line}\n"), "t");
        assert!(matches!(refused, Err(LoadError::BadProtection { line: 2, .. })), "{line}");
    }
}

#[test]
fn a_host_that_could_not_be_kept_out_refuses_the_file() {
    for line in [
        "hosts deny = 10.0.0.0/99",
        "hosts deny = ALL EXCEPT x/24",
        "hosts allow = ALL EXCEPT @pcs",
    ] {
        let refused = Config::parse(line, "t");
        assert!(matches!(refused, Err(LoadError::BadProtection { line: 1, .. })), "{line}");
    }
    warns("hosts allow = 10.0.0.0/99", &[(1, WarningKind::BadValue)]);
}

#[test]
fn hosts_deny_by_name_refuses_the_file_instead_of_admitting_the_host() {
    for line in [
        "hosts deny = .evil.example",
        "hosts deny = 10.0.0.0/8 pc1",
        "deny hosts = LOCAL",
        "hosts deny = 10",
        "hosts deny = ALL EXCEPT 10. EXCEPT pc1",
        "hosts allow = ALL EXCEPT .evil.example",
        "hosts allow = 10. EXCEPT pc1",
    ] {
        for text in [format!("{line}\n"), format!("[a]\npath=/a\n{line}\n")] {
            let refused = Config::parse(&text, "t").expect_err(line).to_string();
            assert!(refused.contains("would exclude nobody; give addresses"), "{refused}");
        }
    }
    // Names that would be admitted are only ignored: no client gains access.
    for line in ["hosts allow = pc1", "hosts allow = 10. LOCAL", "hosts deny = ALL EXCEPT .example"]
    {
        warns(line, &[(1, WarningKind::BadValue)]);
    }
}

#[test]
fn denying_all_clients_of_one_ip_version_warns_of_the_other() {
    for deny in ["0.0.0.0/0", "::/0", "0.0.0.0/0.0.0.0 EXCEPT 10.", "10.1.2.3/0"] {
        warns(&format!("hosts deny = {deny}"), &[(1, WarningKind::Contradiction)]);
    }
    for line in ["deny = 0.0.0.0/0 ::/0", "deny = ALL 0.0.0.0/0", "deny = 10.", "allow = ::/0"] {
        warns(&format!("hosts {line}"), &[]);
    }
}

#[test]
fn letting_clients_act_as_root_gives_a_warning() {
    for line in ["force user = root", "force user = \"root\"", "guest account = root"] {
        warns(line, &[(1, WarningKind::ActsAsRoot)]);
    }
    warns("[a]\npath = /a\nforce user = root", &[(3, WarningKind::ActsAsRoot)]);
    warns("force user = rooty", &[]);
}

#[test]
fn a_header_that_cannot_be_read_refuses_the_file() {
    for text in ["[a\npath=/a\n", "[]\n", "[ ]\n"] {
        assert!(matches!(Config::parse(text, "t"), Err(LoadError::BadSection { line: 1, .. })));
    }
}

#[test]
fn protocols_that_leave_no_dialect_refuse_the_file() {
    let text = "server min protocol = SMB3\nserver max protocol = SMB2\n";
    assert!(matches!(Config::parse(text, "t"), Err(LoadError::NoDialect { .. })));
    let config = warns("server min protocol = SMB3_00\n", &[]);
    assert_eq!(config.global.dialects(), (0x0300, 0x0311));
    assert!(matches!(
        Config::parse("max protocol = NT1\n", "t"),
        Err(LoadError::Unsupported { .. })
    ));
    let config = warns("min protocol = NT1\n", &[(1, WarningKind::BadValue)]);
    assert_eq!(config.global.dialects(), (0x0202, 0x0311));
}

#[test]
fn an_include_is_read_at_its_place() {
    let loaded = read(&[
        ("/etc/smb.conf", "[a]\npath=/a\ninclude = more.conf\nvolume=v\n"),
        ("/etc/more.conf", "comment=inc\n[b]\npath=/b\n"),
    ])
    .expect("served");
    assert_eq!(text(&loaded, "a", "comment").as_deref(), Some("inc"));
    assert_eq!(text(&loaded, "a", "volume"), None);
    assert_eq!(text(&loaded, "b", "volume").as_deref(), Some("v"));
}

#[test]
fn a_folder_is_included_file_by_file_in_the_order_of_names() {
    let loaded = read(&[
        ("/etc/smb.conf", "include = conf.d\n[z]\npath=/z\n"),
        ("/etc/conf.d/20-b.conf", "[b]\npath=/b\n[a]\ncomment=later\n"),
        ("/etc/conf.d/10-a.conf", "[a]\npath=/a\ncomment=first\n"),
        ("/etc/conf.d/30-c.conf~", "[c]\npath=/c\n"),
        ("/etc/conf.d/.40-d.conf", "[d]\npath=/d\n"),
    ])
    .expect("served");
    let names: Vec<_> = loaded.sections.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "z"]);
    assert_eq!(text(&loaded, "a", "comment").as_deref(), Some("later"));
    let file = ("/etc/conf.d/a.conf", "include = /etc/conf.d\n");
    let looped = read(&[("/etc/smb.conf", "include = conf.d\n"), file]);
    assert!(matches!(looped, Err(LoadError::IncludeLoop { .. })), "{looped:?}");
}

#[test]
fn an_include_may_depend_on_the_client_and_be_missing() {
    let files = Memory::new(&[
        ("/etc/smb.conf", "include = /etc/smb.conf.%m\n"),
        ("/etc/smb.conf.pc1", "[a]\npath=/a\n"),
    ]);
    let of = |client: &str| {
        let client = Substitutions { client_name: client.to_owned(), ..Substitutions::default() };
        let base = load(Path::new("/etc/smb.conf"), &files, &Substitutions::default());
        let text = base.expect("served").text;
        parse(&text, "test", &files, &client, ClientFiles::Read).expect("served")
    };
    assert_eq!(of("pc1").sections.len(), 1);
    let missing = of("pc2");
    assert_eq!(
        (missing.sections.len(), missing.warnings[0].kind),
        (0, WarningKind::MissingInclude)
    );
    // A client name with slashes finds no file outside of the folder.
    assert_eq!(of("/../smb.conf.pc1").warnings[0].kind, WarningKind::MissingInclude);
}

#[test]
fn loops_of_includes_are_refused_and_repetitions_are_not() {
    let looped =
        read(&[("/etc/smb.conf", "include = /etc/a\n"), ("/etc/a", "\ninclude = /etc/smb.conf\n")]);
    assert!(matches!(looped, Err(LoadError::IncludeLoop { line: 2, .. })));
    let twice = read(&[("/etc/smb.conf", "include = a\ninclude = a\n"), ("/etc/a", "x:y=1\n")]);
    assert!(twice.is_ok_and(|loaded| loaded.warnings.is_empty()));
}

#[test]
fn includes_are_bounded_in_depth_and_number() {
    let chain = |length: usize| {
        let mut files = Memory::default();
        for index in 0..length {
            let text = format!("include = /etc/{}\n", index + 1);
            files.0.insert(format!("/etc/{index}").into(), text.into_bytes());
        }
        load(Path::new("/etc/0"), &files, &Substitutions::default())
    };
    // The last file of the chain includes one that is not there.
    assert!(chain(INCLUDE_DEPTH_MAX).is_ok_and(|loaded| loaded.warnings.len() == 1));
    assert!(matches!(chain(INCLUDE_DEPTH_MAX + 1), Err(LoadError::Limit { .. })));

    let doubling: Vec<(String, String)> = (0..20)
        .map(|index| (format!("/etc/{index}"), format!("include=/etc/{0}\n", index + 1).repeat(2)))
        .chain([("/etc/20".to_owned(), String::new())])
        .collect();
    let doubling: Vec<(&str, &str)> = doubling.iter().map(|(a, b)| (&**a, &**b)).collect();
    let loaded = load(Path::new("/etc/0"), &Memory::new(&doubling), &Substitutions::default());
    assert!(matches!(loaded, Err(LoadError::Limit { unit: "inclusions", .. })));
}

#[test]
fn a_file_that_is_there_but_cannot_be_read_is_an_error() {
    let forbidden = read(&[("/etc/smb.conf", "include = forbidden\n")]);
    assert!(matches!(forbidden, Err(LoadError::Unreadable { .. })));
    assert!(matches!(read(&[]), Err(LoadError::Unreadable { .. })));
}

#[test]
fn bytes_that_are_not_utf8_are_named_with_their_line() {
    let mut files = Memory::default();
    files.0.insert("/etc/smb.conf".into(), b"[a]\npath=/a\ncomment=\xff\n".to_vec());
    let loaded = load(Path::new("/etc/smb.conf"), &files, &Substitutions::default());
    let loaded = loaded.expect("served");
    assert_eq!((loaded.warnings[0].line, loaded.warnings[0].kind), (3, WarningKind::NotUtf8));
    assert_eq!(text(&loaded, "a", "comment").as_deref(), Some("\u{fffd}"));
}

#[test]
fn sections_options_and_warnings_are_bounded() {
    let sections =
        |count: usize| (0..count).map(|index| format!("[s{index}]\npath=/x\n")).collect::<String>();
    Config::parse(&sections(SECTIONS_MAX), "t").expect("that many are read");
    assert!(matches!(
        Config::parse(&sections(SECTIONS_MAX + 1), "t"),
        Err(LoadError::Limit { unit: "sections", .. })
    ));
    let options =
        |count: usize| (0..count).map(|index| format!("a:{index} = 1\n")).collect::<String>();
    Config::parse(&options(OPTIONS_MAX), "t").expect("that many are read");
    assert!(matches!(Config::parse(&options(OPTIONS_MAX + 1), "t"), Err(LoadError::Limit { .. })));
    let (_, warnings) = Config::parse(&"junk\n".repeat(WARNINGS_MAX + 5), "t").expect("served");
    assert_eq!(warnings.len(), WARNINGS_MAX + 1);
    assert_eq!(warnings[WARNINGS_MAX].kind, WarningKind::NotShown);
    assert!(warnings[WARNINGS_MAX].message.starts_with("5 "));
}

/// A few bytes of text can make many sections repeat one long value.
#[test]
fn values_taken_over_are_bounded() {
    let long = format!("veto files = {}\n", "x".repeat(LINE_BYTES_MAX - 100));
    let sections: String = (0..2_000).map(|index| format!("[s{index}]\n")).collect();
    assert!(matches!(
        Config::parse(&(long + &sections), "t"),
        Err(LoadError::Limit { limit, .. }) if limit == INHERITED_BYTES_MAX as u64
    ));
}

#[test]
fn a_message_cannot_move_the_cursor_or_fill_the_screen() {
    let name = format!("\u{1b}[2J{}", "x".repeat(1_000));
    let (_, warnings) = Config::parse(&format!("{name} = 1\n"), "t").expect("served");
    assert!(!warnings[0].message.contains('\u{1b}'));
    assert!(warnings[0].message.len() < 200);
}

/// Takes the largest file of unknown parameters: the search for similar names stays bounded.
#[test]
fn a_file_full_of_unknown_parameters_is_read_in_linear_time() {
    // An eighth of the largest file: quadratic time would take minutes with that, too.
    let count = usize::try_from(FILE_BYTES_MAX / 8).expect("fits") / "rd onl=\n".len();
    let (_, warnings) = Config::parse(&"rd onl=\n".repeat(count), "t").expect("served");
    assert_eq!(warnings.len(), WARNINGS_MAX + 1);
    assert!(warnings[WARNINGS_MAX].message.starts_with(&(count - WARNINGS_MAX).to_string()));
}

/// Returns text like a configuration's, with real names and odd values.
fn likely_text() -> impl Strategy<Value = String> {
    let names: Vec<&'static str> =
        crate::parameters().iter().map(|parameter| parameter.name).collect();
    let value = prop_oneof![
        Just("yes".to_owned()),
        Just("\"a b\", @c".to_owned()),
        Just("%U%$(X)".to_owned()),
        Just("a \\ ".to_owned()),
        "-?0?x?[0-9]{0,22}[kKmMgGtT]?",
        "\\PC{0,20}",
    ];
    let line = prop_oneof![
        (proptest::sample::select(names), value)
            .prop_map(|(name, value)| format!("{name}={value}")),
        "\\[[a-cA-C \\]]{0,3}\\]",
        "[;#\\\\ =:a]{0,6}",
    ];
    proptest::collection::vec(line, 0..40).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #[test]
    fn the_rendering_for_processes_is_the_same_configuration(text in likely_text()) {
        if let Ok((config, _)) = Config::parse(&text, "t") {
            let written = crate::render_for_processes(&config);
            let (again, _) = Config::parse(&written, "t").expect("it was served before");
            prop_assert_eq!(crate::render_for_processes(&again), written);
        }
    }

    #[test]
    fn any_text_is_served_or_refused_and_never_panics(text in "(?s).{0,400}") {
        let _ = Config::parse(&text, "t");
    }

    #[test]
    fn any_bytes_are_served_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let mut files = Memory::default();
        files.0.insert("/c".into(), bytes);
        let _ = load(Path::new("/c"), &files, &Substitutions::default());
    }

    /// Text that is written back has the same meaning.
    #[test]
    fn a_rendered_configuration_reads_back_the_same(text in likely_text()) {
        // A value that ends with a backslash can only be the last one of a file, and no longer is
        // once it is written back.
        prop_assume!(!text.trim_end().ends_with('\\'));
        if let Ok((config, _)) = Config::parse(&text, "t") {
            for verbose in [false, true] {
                let once = crate::render_effective(&config, verbose);
                let (again, _) = Config::parse(&once, "t").expect("what we write can be served");
                prop_assert_eq!(crate::render_effective(&again, verbose), once);
            }
        }
    }
}

#[test]
fn the_log_has_a_level_of_its_own_for_logons() {
    for (line, all, audit) in [
        ("1", 1, 1),
        ("1 auth_audit:3", 1, 3),
        ("3 auth_audit:0 auth:5", 3, 0),
        ("all:2 smb2:10 auth_audit:99@/var/log/audit", 2, 10),
        ("2 auth_audit:x", 2, 2),
    ] {
        let config = warns(&format!("[global]\nlog level = {line}\n"), &[]);
        let global = &config.global;
        assert_eq!(
            (global.log_detail(), global.log_detail_of("auth_audit")),
            (all, audit),
            "{line}"
        );
    }
}
