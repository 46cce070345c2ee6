//! The crates of the repository and their files.

use std::fs;
use std::path::Path;

use crate::module_tree;
use crate::source_file::SourceFile;

/// Folders of a crate whose files are no production code.
const TEST_FOLDERS: [&str; 3] = ["tests", "benches", "examples"];
/// Folders beside `crates` that hold one more crate each.
const CRATES_APART: [&str; 1] = ["fuzz"];

/// A crate, with all its Rust files.
#[derive(Debug)]
pub struct Crate {
    /// Its name, which is that of its folder.
    pub name: String,
    /// Text of the crate's Cargo.toml.
    pub manifest: String,
    /// Its files, sorted by path.
    pub files: Vec<SourceFile>,
}

impl Crate {
    /// A crate of these files, given as path and text.
    ///
    /// # Errors
    /// If one of them is not Rust.
    pub fn new(name: &str, manifest: String, files: Vec<(String, String)>) -> Result<Self, String> {
        let parsed = files.into_iter().map(|(path, text)| SourceFile::parse(&path, text));
        let mut files = parsed.collect::<Result<Vec<_>, _>>()?;
        files.sort_by(|one, other| one.path.cmp(&other.path));
        for file in &mut files {
            file.is_test = file.path.split('/').any(|folder| TEST_FOLDERS.contains(&folder));
        }
        module_tree::mark_tests(&mut files);
        Ok(Self { name: name.to_owned(), manifest, files })
    }
}

/// Reads all crates of the repository.
///
/// # Errors
/// If a folder or file cannot be read, or a file is not Rust.
pub fn read(root: &Path) -> Result<Vec<Crate>, String> {
    let mut folders = subfolders(&root.join("crates"))?;
    folders.extend(CRATES_APART.map(|name| root.join(name)).into_iter().filter(|at| at.is_dir()));
    folders.iter().map(|folder| read_crate(root, folder)).collect()
}

fn read_crate(root: &Path, folder: &Path) -> Result<Crate, String> {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let manifest = read_text(&folder.join("Cargo.toml"))?;
    let mut files = Vec::new();
    read_sources(root, folder, &mut files)?;
    Crate::new(&name, manifest, files)
}

fn read_sources(
    root: &Path,
    folder: &Path,
    files: &mut Vec<(String, String)>,
) -> Result<(), String> {
    for entry in entries(folder)? {
        let hidden = entry.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        // Cargo's output, of a crate that is no member of the workspace.
        let is_output = entry.ends_with("target");
        if entry.is_dir() && !hidden && !is_output {
            read_sources(root, &entry, files)?;
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            let path = entry.strip_prefix(root).unwrap_or(&entry).to_string_lossy().into_owned();
            files.push((path, read_text(&entry)?));
        }
    }
    Ok(())
}

fn subfolders(folder: &Path) -> Result<Vec<std::path::PathBuf>, String> {
    let found = entries(folder)?;
    Ok(found.into_iter().filter(|path| path.join("Cargo.toml").is_file()).collect())
}

fn entries(folder: &Path) -> Result<Vec<std::path::PathBuf>, String> {
    let failed = |error| format!("{}: {error}", folder.display());
    let found = fs::read_dir(folder).map_err(failed)?;
    let mut paths =
        found.map(|entry| Ok(entry.map_err(failed)?.path())).collect::<Result<Vec<_>, String>>()?;
    paths.sort();
    Ok(paths)
}

fn read_text(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}
