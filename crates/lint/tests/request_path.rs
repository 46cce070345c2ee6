//! The functions that docs/design/request_path.md and create_path.md list exist, and have the lines
//! that these pages say.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::{ImplItem, Item, TraitItem, Type};

/// Pages with a list, and their goals: files, functions, and for READ lines and the longest.
const PAGES: [(&str, &[usize]); 2] = [
    ("docs/design/request_path.md", &[14, 45, 900, 60]),
    ("docs/design/create_path.md", &[25, 80]),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Function of a file: its type, if it is a method, its name, and its lines from `fn` to the brace.
type Function = (Option<String>, String, usize);

fn functions(text: &str) -> Vec<Function> {
    let mut found = Vec::new();
    collect(&syn::parse_file(text).expect("it is Rust").items, &mut found);
    found
}

fn collect(items: &[Item], found: &mut Vec<Function>) {
    for item in items {
        match item {
            Item::Fn(it) => {
                found.push((None, it.sig.ident.to_string(), lines(it.sig.span(), it.block.span())));
            }
            Item::Impl(it) => {
                let Type::Path(path) = &*it.self_ty else { continue };
                let name = path.path.segments.last().map(|it| it.ident.to_string());
                for item in &it.items {
                    if let ImplItem::Fn(it) = item {
                        let lines = lines(it.sig.span(), it.block.span());
                        found.push((name.clone(), it.sig.ident.to_string(), lines));
                    }
                }
            }
            Item::Trait(it) => {
                for item in &it.items {
                    if let TraitItem::Fn(method) = item
                        && let Some(block) = &method.default
                    {
                        let lines = lines(method.sig.span(), block.span());
                        let name = method.sig.ident.to_string();
                        found.push((Some(it.ident.to_string()), name, lines));
                    }
                }
            }
            _ => {}
        }
    }
}

fn lines(signature: Span, block: Span) -> usize {
    block.end().line - signature.start().line + 1
}

/// Cells of the tables of the page that name a function: file, and function.
fn named(page: &str) -> Vec<(String, String)> {
    let mut file = String::new();
    let mut named = Vec::new();
    for line in page.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, first, function, _, _] = cells[..] else { panic!("three cells: {line}") };
        if !first.is_empty() {
            file = first.trim_matches('`').to_owned();
        }
        if function.starts_with('`') {
            named.push((file.clone(), function.trim_matches('`').to_owned()));
        }
    }
    named
}

fn length(file: &str, function: &str) -> usize {
    let path = root().join("crates").join(file);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"));
    find(&text, function).unwrap_or_else(|fault| panic!("{file}: {fault}"))
}

/// Returns the lines of the only function of this name.
fn find(text: &str, function: &str) -> Result<usize, String> {
    let (owner, name) = match function.split_once("::") {
        Some((owner, name)) => (Some(owner), name),
        None => (None, function),
    };
    let is_it =
        |it: &&Function| it.1 == name && owner.is_none_or(|owner| it.0.as_deref() == Some(owner));
    let all = functions(text);
    let found: Vec<&Function> = all.iter().filter(is_it).collect();
    match found[..] {
        [(_, _, lines)] => Ok(*lines),
        [] => Err(format!("no function {function}")),
        _ => Err(format!("{} functions {function}: name the type, too", found.len())),
    }
}

fn read(page: &str) -> String {
    fs::read_to_string(root().join(page)).expect("the page is there")
}

/// Numbers of the line that begins so.
fn numbers(page: &str, start: &str) -> Vec<usize> {
    let line = page.lines().find_map(|line| line.strip_prefix(start)).expect("a line of sums");
    line.replace(',', "")
        .split(|it: char| !it.is_ascii_digit())
        .filter_map(|it| it.parse().ok())
        .collect()
}

#[test]
fn the_pages_have_the_functions_and_their_sums() {
    for (path, _) in PAGES {
        let page = read(path);
        let named = named(&page);
        let distinct: BTreeSet<&(String, String)> = named.iter().collect();
        assert_eq!(distinct.len(), named.len(), "{path} lists a function twice");
        let files: BTreeSet<&String> = named.iter().map(|(file, _)| file).collect();
        let lengths: Vec<usize> = named.iter().map(|(file, name)| length(file, name)).collect();
        let longest = lengths.iter().copied().max().unwrap_or_default();
        let sums = [files.len(), named.len(), lengths.iter().sum(), longest];
        assert_eq!(numbers(&page, "Sum: "), sums, "correct the sums of {path}");
    }
}

#[test]
fn the_pages_say_how_far_their_goals_are() {
    for (path, goal) in PAGES {
        assert_eq!(numbers(&read(path), "Goal: "), goal, "{path}");
    }
}

#[test]
fn a_function_is_found_by_its_name_and_type() {
    let text = "impl A { fn f() {\n} }\nimpl B { fn f() {} }\nfn g() {}";
    assert_eq!(find(text, "A::f"), Ok(2));
    assert_eq!(find(text, "g"), Ok(1));
    assert_eq!(find(text, "f"), Err("2 functions f: name the type, too".to_owned()));
    assert_eq!(find(text, "h"), Err("no function h".to_owned()));
}
