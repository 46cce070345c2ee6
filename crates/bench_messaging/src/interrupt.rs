//! The end of a run before its time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, ensure};

/// Set when the run is to end: by SIGINT or SIGTERM. The servers are stopped then, too.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// One that the signals set.
    ///
    /// # Errors
    ///
    /// When they cannot be caught.
    pub fn of_signals() -> Result<Self> {
        let interrupt = Self::default();
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&interrupt.0))?;
        }
        Ok(interrupt)
    }

    /// # Errors
    ///
    /// When it is set.
    pub fn check(&self) -> Result<()> {
        ensure!(!self.0.load(Ordering::Relaxed), "interrupted");
        Ok(())
    }
}
