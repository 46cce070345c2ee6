//! FSCTLs.
