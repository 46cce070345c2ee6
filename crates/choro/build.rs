//! Tells the linker to put the functions that each client needs together.
//!
//! A worker is a fork, and the kernel maps the code of the program for each anew, 64 KiB at a time:
//! the fewer such parts a short connection needs, the less it costs.

use std::env;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=link/function_order.ld");
    // Tests start few workers, and their programs would take longer to link.
    if env::var("PROFILE").as_deref() == Ok("release")
        && let Ok(folder) = env::var("CARGO_MANIFEST_DIR")
    {
        println!("cargo:rustc-link-arg-bins=-Wl,-T,{folder}/link/function_order.ld");
    }
}
