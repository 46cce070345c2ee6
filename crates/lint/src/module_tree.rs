//! The modules of a crate: the file of each, and the meaning of paths in it.

use std::collections::{BTreeMap, BTreeSet};

use syn::{Attribute, Item, Meta, UseTree};

use crate::source_file::SourceFile;

/// Longest chain of re-exports that is followed. Real ones have two or three links; a name that is
/// imported under itself (`use trace;`) would have endless ones.
const RE_EXPORTS_MAX: usize = 16;

/// A path that a `use` brings in.
#[derive(Debug, PartialEq, Eq)]
pub struct Imported {
    /// Segments of the path, as written.
    pub path: Vec<String>,
    /// Its name in the module; `None` for everything that the path holds.
    pub name: Option<String>,
}

/// One module. An inline module has the file of the module around it.
#[derive(Debug)]
pub struct Module {
    /// Its names from the root of the crate.
    pub path: Vec<String>,
    /// Index of the file that holds it.
    pub file: usize,
    /// Whether it is built for tests only.
    pub is_test: bool,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    aliases: BTreeMap<String, Vec<String>>,
    globs: Vec<Vec<String>>,
    items: BTreeSet<String>,
}

/// All modules of a crate that can be reached from its roots.
#[derive(Debug, Default)]
pub struct ModuleTree {
    /// The modules, each behind its parent.
    pub modules: Vec<Module>,
}

impl ModuleTree {
    /// Follows the declarations of modules from each root: a library, programs.
    #[must_use]
    pub fn of(files: &[SourceFile]) -> Self {
        let mut tree = Self::default();
        for (at, file) in files.iter().enumerate().filter(|(_, file)| is_root(&file.path)) {
            tree.add(files, at, None, String::new(), &file.syntax.items, false);
        }
        tree
    }

    fn add(
        &mut self,
        files: &[SourceFile],
        file: usize,
        parent: Option<usize>,
        name: String,
        items: &[Item],
        is_test: bool,
    ) -> usize {
        let path = parent.map_or_else(Vec::new, |parent| {
            let above = self.modules[parent].path.iter().cloned();
            above.chain([name]).collect()
        });
        let this = self.modules.len();
        self.modules.push(Module {
            path,
            file,
            is_test,
            parent,
            children: BTreeMap::new(),
            aliases: BTreeMap::new(),
            globs: Vec::new(),
            items: BTreeSet::new(),
        });
        for item in items {
            self.add_item(files, this, item);
        }
        this
    }

    fn add_item(&mut self, files: &[SourceFile], this: usize, item: &Item) {
        let module = &mut self.modules[this];
        match item {
            Item::Use(item) => {
                for imported in imported(&item.tree) {
                    match imported.name {
                        Some(name) => drop(module.aliases.insert(name, imported.path)),
                        None => module.globs.push(imported.path),
                    }
                }
            }
            Item::Mod(item) => {
                let name = item.ident.to_string();
                let is_test = module.is_test || is_for_tests(&item.attrs);
                let parent = Some(this);
                let child = if let Some((_, items)) = &item.content {
                    let file = module.file;
                    self.add(files, file, parent, name.clone(), items, is_test)
                } else {
                    let Some(file) = self.file_of(files, this, &name) else { return };
                    let items = &files[file].syntax.items;
                    self.add(files, file, parent, name.clone(), items, is_test)
                };
                self.modules[this].children.insert(name, child);
            }
            other => module.items.extend(name_of(other)),
        }
    }

    /// The file of a module that is declared in another one.
    fn file_of(&self, files: &[SourceFile], parent: usize, name: &str) -> Option<usize> {
        let root = self.root(parent);
        let (folder, _) = files[self.modules[root].file].path.rsplit_once('/')?;
        let above = self.modules[parent].path.iter().map(|part| format!("{part}/"));
        let stem = format!("{folder}/{}{name}", above.collect::<String>());
        let names = [format!("{stem}.rs"), format!("{stem}/mod.rs")];
        files.iter().position(|file| names.contains(&file.path))
    }

    fn root(&self, mut module: usize) -> usize {
        while let Some(parent) = self.modules[module].parent {
            module = parent;
        }
        module
    }

    /// The module in which a path ends, seen from another one. `None` for paths of other crates.
    #[must_use]
    pub fn resolve(&self, from: usize, path: &[String]) -> Option<usize> {
        self.follow(from, path, 0)
    }

    /// The inline or declared module of this name in another one.
    #[must_use]
    pub fn child(&self, module: usize, name: &str) -> Option<usize> {
        self.modules[module].children.get(name).copied()
    }

    fn follow(&self, from: usize, path: &[String], links: usize) -> Option<usize> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => self.descend(self.root(from), rest, links),
            "self" => self.descend(from, rest, links),
            "super" => self.descend(self.modules[from].parent?, rest, links),
            name if self.knows(from, name, links) => self.descend(from, path, links),
            _ => None,
        }
    }

    fn descend(&self, module: usize, path: &[String], links: usize) -> Option<usize> {
        let Some((first, rest)) = path.split_first() else { return Some(module) };
        if links > RE_EXPORTS_MAX {
            return None;
        }
        let Module { children, aliases, items, globs, parent, .. } = &self.modules[module];
        if first == "self" {
            return self.descend(module, rest, links);
        }
        if first == "super" {
            return self.descend((*parent)?, rest, links);
        }
        if let Some(&child) = children.get(first) {
            return self.descend(child, rest, links);
        }
        if let Some(alias) = aliases.get(first) {
            let path: Vec<String> = alias.iter().chain(rest).cloned().collect();
            return self.follow(module, &path, links + 1);
        }
        if !items.contains(first) {
            let found = globs.iter().filter_map(|glob| self.follow(module, glob, links + 1));
            for other in found.filter(|&other| other != module) {
                if self.knows(other, first, links + 1) {
                    return self.descend(other, path, links + 1);
                }
            }
        }
        // An item, or a name that a macro makes.
        Some(module)
    }

    fn knows(&self, module: usize, name: &str, links: usize) -> bool {
        let Module { children, aliases, items, globs, .. } = &self.modules[module];
        children.contains_key(name)
            || aliases.contains_key(name)
            || items.contains(name)
            || links <= RE_EXPORTS_MAX
                && globs.iter().any(|glob| {
                    let other = self.follow(module, glob, links + 1);
                    other.is_some_and(|other| other != module && self.knows(other, name, links + 1))
                })
    }
}

/// Marks the files of test modules, wherever they are.
pub fn mark_tests(files: &mut [SourceFile]) {
    let tree = ModuleTree::of(files);
    for module in &tree.modules {
        // An inline test module does not make a test of its file.
        let own = module.parent.is_none_or(|parent| tree.modules[parent].file != module.file);
        files[module.file].is_test |= module.is_test && own;
    }
}

/// Whether an item with these attributes is built for tests only.
#[must_use]
pub fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("cfg") => {
            let condition = list.tokens.to_string();
            let mut words = condition.split(|c: char| !c.is_alphanumeric() && c != '_');
            words.clone().any(|word| word == "test") && !words.any(|word| word == "not")
        }
        _ => false,
    })
}

/// The paths of a `use`.
#[must_use]
pub fn imported(tree: &UseTree) -> Vec<Imported> {
    let mut found = Vec::new();
    flatten(tree, &mut Vec::new(), &mut found);
    found
}

fn flatten(tree: &UseTree, above: &mut Vec<String>, found: &mut Vec<Imported>) {
    let mut leaf = |last: Option<String>, name: Option<String>| {
        let path = above.iter().cloned().chain(last).collect();
        found.push(Imported { path, name });
    };
    match tree {
        UseTree::Path(tree) => {
            above.push(tree.ident.to_string());
            flatten(&tree.tree, above, found);
            above.pop();
        }
        UseTree::Name(tree) if tree.ident == "self" => leaf(None, above.last().cloned()),
        UseTree::Name(tree) => leaf(Some(tree.ident.to_string()), Some(tree.ident.to_string())),
        UseTree::Rename(tree) => leaf(Some(tree.ident.to_string()), Some(tree.rename.to_string())),
        UseTree::Glob(_) => leaf(None, None),
        UseTree::Group(tree) => {
            for tree in &tree.items {
                flatten(tree, above, found);
            }
        }
    }
}

fn is_root(path: &str) -> bool {
    let Some((_, inside)) = path.split_once("/src/") else { return false };
    matches!(inside, "lib.rs" | "main.rs")
        || inside.strip_prefix("bin/").is_some_and(|name| !name.contains('/'))
}

fn name_of(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}
