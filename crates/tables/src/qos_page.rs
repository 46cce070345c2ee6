//! The figures of all classes of service: memory that all processes share.

use std::io;
use std::path::Path;

use qos::class::CLASSES_MAX;
use qos::{Class, ClassId, Slot, Slots};

use crate::shared_memory::{self, Shared, SharedMemory};

// SAFETY: all in it are atomics, for which any bytes are a value.
unsafe impl Shared for Slot {}

/// The slots, as one process sees them.
#[derive(Debug)]
pub struct QosPage {
    slots: SharedMemory<[Slot; CLASSES_MAX]>,
}

/// The file in the lock directory.
const NAME: &str = "qos";

impl QosPage {
    /// Opens the slots of the server on `lock_dir`, and makes them if they are not there. A slot
    /// that is not used takes no memory.
    ///
    /// # Errors
    /// What the file system says.
    pub fn open(lock_dir: &Path) -> io::Result<Self> {
        Ok(Self { slots: SharedMemory::open(&lock_dir.join(NAME))? })
    }

    /// Begins anew: no class has a slot. For a supervisor that starts.
    ///
    /// # Errors
    /// What the file system says.
    pub fn reset(lock_dir: &Path) -> io::Result<()> {
        shared_memory::remove(&lock_dir.join(NAME))
    }

    /// Gives each class a slot, and puts its limits there: for the supervisor. Slots of classes that
    /// are none any more are without limits, and are used again.
    pub fn configure<'c>(&self, classes: impl Iterator<Item = &'c Class> + Clone) {
        let slots = self.slots();
        let names: Vec<&str> = classes.clone().map(|class| &*class.name).collect();
        let is_wanted = |slot: &Slot| slot.name().is_some_and(|it| names.contains(&&*it));
        for slot in slots.iter().filter(|slot| !is_wanted(slot)) {
            slot.release();
        }
        for class in classes {
            let own = self.find(&class.name).map(|id| &slots[usize::from(id)]);
            let Some(slot) = own.or_else(|| slots.iter().find(|slot| slot.name().is_none())) else {
                return; // The configuration has no more classes than there are slots.
            };
            slot.configure(&class.limits);
            if own.is_none() {
                slot.take(&class.name);
            }
        }
    }

    /// The slot of a class.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<ClassId> {
        let slots = self.slots().iter();
        (0..).zip(slots).find(|(_, slot)| slot.name().as_deref() == Some(name)).map(|(id, _)| id)
    }
}

impl Slots for QosPage {
    fn slots(&self) -> &[Slot] {
        &*self.slots
    }
}

#[cfg(test)]
mod tests {
    use qos::class::{InterimResponses, Limits, Match};
    use qos::{Class, Meter, Slots};

    use super::QosPage;

    fn class(name: &str, limit: u64) -> Class {
        let mut limits = Limits::default();
        limits.per_second[Meter::Bandwidth as usize] = Some(limit);
        Class {
            name: name.to_owned(),
            matches: vec![Match::default()],
            limits,
            max_credits: None,
            interim_responses: InterimResponses::Auto,
        }
    }

    #[test]
    fn a_class_keeps_its_slot_and_what_was_set_by_hand() {
        let lock_dir = tempfile::tempdir().expect("a directory");
        let [supervisor, worker] =
            [(); 2].map(|()| QosPage::open(lock_dir.path()).expect("it can be mapped"));
        let (slow, fast) = (class("slow", 10), class("fast", 20));
        supervisor.configure([&slow, &fast].into_iter());
        let at = worker.find("fast").expect("it was configured");
        let limit = |page: &QosPage| page.slots()[usize::from(at)].limits().per_second[0];
        assert_eq!(limit(&worker), Some(20));
        worker.slots()[usize::from(at)].set(Meter::Bandwidth, Some(5));
        supervisor.configure([&fast].into_iter());
        assert_eq!((worker.find("fast"), worker.find("slow")), (Some(at), None));
        assert_eq!(limit(&supervisor), Some(5));
        supervisor.slots()[usize::from(at)].clear(&fast.limits);
        assert_eq!(limit(&worker), Some(20));
    }
}
