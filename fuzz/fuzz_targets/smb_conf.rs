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
    // A file with control characters in it is printed as well as can be, and no better.
    if text.contains(|c: char| c.is_control() && !matches!(c, '\n' | '\t')) {
        return;
    }
    let (again, _) = Config::parse(&rendered, "rendered").expect("what we print can be read");
    assert_eq!(render_effective(&again, false), rendered, "printing is stable");
});
