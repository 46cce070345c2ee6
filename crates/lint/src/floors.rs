//! The order of crates and modules. What stands higher may import what stands lower.

/// Crates, the lowest first. A crate depends on lower floors only, tests apart, and one that is not
/// listed stands on the highest.
pub const CRATES: &[&[&str]] = &[
    &["dtyp", "lint", "tdb", "trace", "uring"],
    &["arbitration", "auth", "object", "qos", "rpc", "wire"],
    &["crypto"],
    &["model"],
    &["client", "config", "messaging", "proto", "store", "tables"],
    &["bench_messaging", "interfaces", "testkit", "users"],
    &["bench", "settings"],
    &["process"],
    &["notifyd", "observe", "shares"],
    &["worker"],
    &["supervisor"],
    &["choro", "fuzz"],
];

/// The floors of one crate.
#[derive(Debug)]
pub struct Building {
    /// Name of the crate it describes.
    pub name: &'static str,
    /// Modules, the lowest floor first. Modules of one floor may import each other. One that is not
    /// listed stands where its parent does, or on the highest floor.
    pub floors: &'static [&'static [&'static str]],
}

/// The crates whose modules have floors.
pub const BUILDINGS: &[Building] = &[
    Building {
        name: "proto",
        floors: &[
            // From a frame to its commands, and back.
            &["engine"],
            &["command", "fsctl"],
            &["dispatch"],
        ],
    },
    Building {
        name: "store",
        floors: &[
            // Calls of the system, below everything that decides.
            &["errno", "sys"],
            &["names", "settings"],
            &["cache"],
            // Shares, opens and paths: what the operations have in common.
            &["model"],
            &["security"],
            &["metadata"],
            &["data"],
            &["open"],
            &["directory"],
        ],
    },
];
