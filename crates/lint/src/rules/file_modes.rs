//! Files of the server are not open to other users.

use syn::visit::{self, Visit};
use syn::{Expr, ExprCall, ExprMethodCall, ImplItemFn, ItemFn, ItemImpl, ItemMod, Lit};

use crate::module_tree::is_for_tests;
use crate::place::{Findings, Place};
use crate::rule::{Goal, Rule};
use crate::source_file::SourceFile;
use crate::workspace::Crate;

/// Functions that make files and directories with whatever mode the umask leaves: type or module,
/// and name.
const WITHOUT_MODE: [(&str, &str); 6] = [
    ("File", "create"),
    ("File", "create_new"),
    ("fs", "copy"),
    ("fs", "create_dir"),
    ("fs", "create_dir_all"),
    ("fs", "write"),
];

/// Crates that run as programs of developers only.
const EXEMPT: [&str; 6] = ["bench", "bench_messaging", "client", "fuzz", "lint", "testkit"];

/// Files and directories that are made without a mode.
pub const RULE: Rule = Rule {
    name: "file modes",
    demand: "Production code names the mode of each file and directory that it makes.",
    reason: "Processes of the server have no umask: without a mode every user may write to the \
             file, and root reads it later.",
    remedy: "Use `OpenOptions` or `DirBuilder` with `mode`.",
    example: (
        "File::create_new(&draft)?",
        "OpenOptions::new().write(true).create_new(true).mode(0o644).open(&draft)?",
    ),
    unit: "functions",
    goal: Goal::None,
    measure: |tree| Ok(tree.each_crate(measure)),
};

fn measure(checked: &Crate) -> Findings {
    let (mut places, mut of) = (Vec::new(), 0);
    if EXEMPT.contains(&checked.name.as_str()) {
        return Findings::each(places, of);
    }
    let is_checked = |file: &&SourceFile| !file.is_test && !file.path.ends_with("/build.rs");
    for file in checked.files.iter().filter(is_checked) {
        let mut functions = Functions { file, places: Vec::new(), of: 0 };
        functions.visit_file(&file.syntax);
        places.append(&mut functions.places);
        of += functions.of;
    }
    Findings::each(places, of)
}

/// Looks at each function of a file.
struct Functions<'a> {
    file: &'a SourceFile,
    places: Vec<Place>,
    of: usize,
}

impl Functions<'_> {
    fn check(&mut self, block: &syn::Block) {
        self.of += 1;
        let mut calls = Calls::default();
        calls.visit_block(block);
        let faults = calls.without_mode.into_iter();
        let by_options = calls.by_options.into_iter().filter(|_| !calls.names_mode);
        for (line, text) in faults.chain(by_options) {
            let path = self.file.path.clone();
            self.places.push(Place { path, line, last: line, text, weight: 1 });
        }
    }
}

impl<'ast> Visit<'ast> for Functions<'_> {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if !is_for_tests(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        if !is_for_tests(&item.attrs) {
            visit::visit_item_impl(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        if !is_for_tests(&item.attrs) {
            self.check(&item.block);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        if !is_for_tests(&item.attrs) {
            self.check(&item.block);
        }
    }
}

/// Calls in a function that make files and directories: line and text.
#[derive(Default)]
struct Calls {
    without_mode: Vec<(usize, String)>,
    by_options: Vec<(usize, String)>,
    names_mode: bool,
}

impl<'ast> Visit<'ast> for Calls {
    fn visit_expr_call(&mut self, call: &'ast ExprCall) {
        if let Expr::Path(path) = &*call.func {
            let segments = path.path.segments.iter().map(|it| it.ident.to_string());
            let names: Vec<String> = segments.collect();
            if let [.., around, name] = &names[..]
                && WITHOUT_MODE.contains(&(around.as_str(), name.as_str()))
            {
                let line = path.path.segments[0].ident.span().start().line;
                self.without_mode.push((line, format!("{around}::{name}")));
            }
        }
        visit::visit_expr_call(self, call);
    }

    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        let name = call.method.to_string();
        self.names_mode |= name == "mode";
        if matches!(name.as_str(), "create" | "create_new")
            && call.args.first().is_some_and(is_true)
        {
            self.by_options.push((call.method.span().start().line, format!(".{name}(true)")));
        }
        visit::visit_expr_method_call(self, call);
    }
}

fn is_true(expression: &Expr) -> bool {
    matches!(expression, Expr::Lit(it) if matches!(&it.lit, Lit::Bool(it) if it.value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::snippet;

    fn count(text: &str) -> usize {
        measure(&snippet::of(text)).count
    }

    #[test]
    fn making_a_file_without_a_mode_counts() {
        assert_eq!(count("fn f() { std::fs::write(path, text); }"), 1);
        assert_eq!(count("impl A { fn f() { let g = || File::create_new(&draft); } }"), 1);
        assert_eq!(count("fn f() { OpenOptions::new().append(true).create(true).open(path); }"), 1);
    }

    #[test]
    fn options_with_a_mode_and_reading_do_not_count() {
        assert_eq!(count("fn f() { options.create(true).mode(MODE).open(path); }"), 0);
        assert_eq!(count("fn f() { File::open(path); fs::read(path); Window::create(a, b); }"), 0);
        assert_eq!(count("fn f() { options.create(false).open(path); }"), 0);
    }

    #[test]
    fn tests_do_not_count() {
        assert_eq!(count("#[cfg(test)] mod t { fn f() { fs::write(a, b); } }"), 0);
    }
}
