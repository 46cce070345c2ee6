//! Records emitted events for tests.

use std::cell::RefCell;

/// An event that was emitted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Recorded {
    /// Name of the event in the schema.
    pub name: &'static str,
    /// Arguments, in the order of the schema.
    pub arguments: Vec<u64>,
}

#[derive(Debug, Default)]
pub(crate) struct Recorder(RefCell<Vec<Recorded>>);

impl Recorder {
    pub(crate) fn record(&self, name: &'static str, arguments: &[u64]) {
        self.0.borrow_mut().push(Recorded { name, arguments: arguments.to_vec() });
    }

    pub(crate) fn events(&self) -> Vec<Recorded> {
        self.0.borrow().clone()
    }
}
