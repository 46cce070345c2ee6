//! Puts dygraphs, which draws the charts of the page, into the program. It comes from Debian's
//! package `libjs-dygraphs`, and is in no folder of this project.

use std::path::PathBuf;
use std::{env, fs};

/// Folder of the library in Debian and Ubuntu.
const FOLDER: &str = "/usr/share/javascript/dygraphs";

/// Variable with another folder, for systems that do not package it.
const VARIABLE: &str = "CHORO_DYGRAPHS";

/// Begin of the file. The page is written for version 2.
const BEGIN: &str = "/*! @license https://github.com/danvk/dygraphs/blob/v2.";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed={VARIABLE}");
    let folder = env::var_os(VARIABLE).map_or_else(|| PathBuf::from(FOLDER), PathBuf::from);
    let file = folder.join("dygraph.min.js");
    println!("cargo::rerun-if-changed={}", file.display());
    let script = fs::read_to_string(&file).unwrap_or_default();
    if !script.starts_with(BEGIN) {
        println!(
            "cargo::error={} is not dygraphs 2: install Debian's package libjs-dygraphs, or set \
             {VARIABLE} to the folder `dist` of npm's package dygraphs",
            file.display()
        );
        return;
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::write(out.join("dygraph.min.js"), script).expect("cargo has made the folder");
}
