//! smb.conf. Includes are not followed.
#![no_main]

use config::{Config, render_effective};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let Ok((config, warnings)) = Config::parse(text, "smb.conf") else { return };
    for warning in warnings {
        let _ = warning.to_string();
    }
    let _ = config.directories();
    let rendered = render_effective(&config, false);
    // Rendering may differ: a value that ends in a backslash cannot be written.
    let _ = Config::parse(&rendered, "rendered");
});
