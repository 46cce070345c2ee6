//! The slot of one class of service, shared by a test and its world.

use std::sync::Arc;

use qos::class::{Class, Limits};
use qos::{Device, Membership, Slot, Slots, Subject};

/// Slots and devices with one class and one device.
#[derive(Clone, Debug)]
pub struct ClassSlot(Arc<Vec<Slot>>, Arc<Vec<Device>>);

impl ClassSlot {
    /// Makes the slot of a class with these limits.
    #[must_use]
    pub fn new(limits: &Limits) -> Self {
        let slots = Self(Arc::new(vec![Slot::default()]), Arc::new(vec![Device::default()]));
        slots.slot().configure(limits);
        slots
    }

    /// The slot, with the figures of the class.
    #[must_use]
    pub fn slot(&self) -> &Slot {
        &self.0[0]
    }
}

impl Slots for ClassSlot {
    fn slots(&self) -> &[Slot] {
        &self.0
    }

    fn devices(&self) -> &[Device] {
        &self.1
    }

    fn clients(&self) -> u32 {
        4
    }
}

/// Makes the requests of the user alice in a share members of a class.
///
/// # Panics
/// Never: the address is one.
#[must_use]
pub fn membership_of_alice(class: &Class, share: &str) -> Arc<Membership> {
    let client = "192.0.2.1".parse().expect("an address");
    let subject = Subject { client, user: "alice", is_in_group: &|_| false, share };
    Arc::new(Membership::of([(0, class)], subject))
}
