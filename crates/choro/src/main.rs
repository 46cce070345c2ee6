//! Choro, an SMB3 file server.

fn main() {}
