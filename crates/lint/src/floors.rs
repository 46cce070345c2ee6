//! The order of crates and modules. What stands higher may import what stands lower.

/// Crates, the lowest first. A crate depends on lower floors only, tests apart, and one that is not
/// listed stands on the highest.
pub const CRATES: &[&[&str]] = &[
    &["mistake"],
    &["confinement", "dtyp", "lint", "slow_fs", "trace", "uring"],
    &["tdb"],
    &["arbitration", "auth", "ctdb", "logon", "object", "qos", "rpc", "wire"],
    &["crypto"],
    &["model"],
    &["engine"],
    &["client", "config", "messaging", "proto", "store", "tables"],
    &["bench_messaging", "interfaces", "testkit", "users"],
    &["bench", "settings"],
    &["process"],
    &["auditd", "logond", "notifyd", "observe", "shares"],
    &["commandd", "discovery", "worker"],
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
        name: "engine",
        floors: &[
            // Values: requests, responses, and what the worker gets.
            &["change", "effect", "notice", "protection", "unconfirmed_breaks"],
            &["pending_command", "outgoing", "request", "response"],
            // Tables, and the objects in them that a command may access.
            &["audit", "files", "globals", "in_flight", "scope", "server", "storage", "throttle"],
            // Services.
            &[
                "break_notification",
                "changed_file",
                "channel_list",
                "inspection",
                "joining",
                "piped_write",
                "respond",
                "teardown",
                "throttled",
                "watches",
            ],
            // From an event to its command, and back.
            &["administration", "cancel", "events", "pending", "receive"],
        ],
    },
    Building {
        name: "proto",
        floors: &[
            &["dfs"],
            &["command", "fsctl"],
            // The table of commands.
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
