//! The figures of all classes of service, and of the storage that they share, in memory of all
//! processes.
//!
//! The supervisor creates the page; other processes join it, and fail if it is from another version
//! of the server.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use qos::class::CLASSES_MAX;
use qos::device::{self, DEVICES_MAX};
use qos::model::SlowStorage;
use qos::{Class, ClassId, Device, DeviceId, Slot, Slots};

use crate::shared_memory::{Shared, SharedMemory};

/// Slots and devices, mapped into one process. A clone uses the same mapping.
#[derive(Clone, Debug)]
pub struct QosPage {
    memory: Arc<SharedMemory<Memory>>,
}

/// Content of the file, in its order.
#[derive(Debug)]
#[repr(C)]
struct Memory {
    /// [`VERSION`], once the file is complete.
    version: AtomicU64,
    slots: [Slot; CLASSES_MAX],
    devices: [Device; DEVICES_MAX],
    /// Number of workers with a client.
    clients: AtomicU32,
    slow_storage: SlowStorage,
}

// SAFETY: the page consists of atomics, which have no invalid bytes.
unsafe impl Shared for Memory {}

/// Name of the file in the lock directory.
const NAME: &str = "qos";

/// Version of the file's layout and meaning: increased with each change of its content. It includes
/// the length of the file, which reveals most changes without a new number.
const VERSION: u64 = 4 << 32 | size_of::<Memory>() as u64;

impl QosPage {
    /// Creates the page, without slots in use: for a starting supervisor.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn create(lock_dir: &Path) -> io::Result<Self> {
        let memory: SharedMemory<Memory> = SharedMemory::create(&lock_dir.join(NAME))?;
        memory.version.store(VERSION, Ordering::Release);
        Ok(Self { memory: Arc::new(memory) })
    }

    /// Opens the supervisor's page, without a change to it.
    ///
    /// # Errors
    /// `NotFound` if no supervisor has created it; `InvalidData` if it is from another version;
    /// else those of the file system.
    pub fn join(lock_dir: &Path) -> io::Result<Self> {
        let is_another = || {
            let why = "the classes of service are from another version of the server";
            io::Error::new(io::ErrorKind::InvalidData, why)
        };
        let memory: SharedMemory<Memory> =
            SharedMemory::join(&lock_dir.join(NAME)).map_err(|error| match error.kind() {
                io::ErrorKind::InvalidData => is_another(),
                _ => error,
            })?;
        match memory.version.load(Ordering::Acquire) {
            VERSION => Ok(Self { memory: Arc::new(memory) }),
            _ => Err(is_another()),
        }
    }

    /// Gives each class a slot, and sets its limits there: for the supervisor. Slots of former
    /// classes lose their limits, and are reused.
    pub fn configure<'c>(&self, classes: impl Iterator<Item = &'c Class> + Clone) {
        self.configure_slots(classes);
        self.share();
    }

    /// Shares devices if a class has a part of its own. Called after such a part was set or
    /// removed.
    pub fn share(&self) {
        device::share(self.devices(), self.slots());
    }

    /// True if a device is shared.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.devices().iter().any(|device| device.number().is_some() && device.is_shared())
    }

    /// Sets the recent stall of storage: the parts of a thousand in which all tasks of the machine
    /// waited for it. For the supervisor.
    pub fn set_stalled(&self, stalled: u64) {
        self.devices().iter().for_each(|device| device.controller.set_stalled(stalled));
    }

    /// Returns the slot of the storage device with this kernel number, if one is free.
    #[must_use]
    pub fn device(&self, number: u64) -> Option<DeviceId> {
        device::place(self.devices(), self.slots(), number)
    }

    /// Removes a dead worker: for the supervisor.
    pub fn remove_worker(&self, unique_id: u64) {
        let used = self.devices().iter().filter(|device| device.number().is_some());
        used.for_each(|device| device.remove_worker(unique_id));
    }

    /// Sets the number of workers with a client: for the supervisor.
    pub fn set_clients(&self, clients: u32) {
        self.memory.clients.store(clients, Ordering::Relaxed);
    }

    /// Artificial delays of storage, for tests.
    #[must_use]
    pub fn slow_storage(&self) -> &SlowStorage {
        &self.memory.slow_storage
    }

    fn configure_slots<'c>(&self, classes: impl Iterator<Item = &'c Class> + Clone) {
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

    /// Returns the slot of a class.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<ClassId> {
        let slots = self.slots().iter();
        (0..).zip(slots).find(|(_, slot)| slot.name().as_deref() == Some(name)).map(|(id, _)| id)
    }
}

impl Slots for QosPage {
    fn slots(&self) -> &[Slot] {
        &self.memory.slots
    }

    fn devices(&self) -> &[Device] {
        &self.memory.devices
    }

    fn clients(&self) -> u32 {
        self.memory.clients.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::sync::atomic::Ordering;

    use qos::class::{InterimResponses, Limits, Match};
    use qos::{Class, Meter, Slots};

    use super::{QosPage, VERSION};

    fn class(name: &str, limit: u64) -> Class {
        let mut limits = Limits::default();
        limits.numbers[Meter::Bandwidth as usize] = Some(limit);
        Class {
            name: name.to_owned(),
            matches: vec![Match::default()],
            limits,
            interim_responses: InterimResponses::Auto,
        }
    }

    /// Pages of a supervisor and of a worker.
    fn pair() -> (tempfile::TempDir, [QosPage; 2]) {
        let lock_dir = tempfile::tempdir().expect("a directory");
        let supervisor = QosPage::create(lock_dir.path()).expect("it can be made");
        let worker = QosPage::join(lock_dir.path()).expect("it is there");
        (lock_dir, [supervisor, worker])
    }

    #[test]
    fn joining_creates_no_page_and_accepts_no_other_version() {
        let lock_dir = tempfile::tempdir().expect("a directory");
        let refused = |lock_dir: &tempfile::TempDir| {
            QosPage::join(lock_dir.path()).expect_err("there is nothing to join").kind()
        };
        assert_eq!(refused(&lock_dir), ErrorKind::NotFound);
        assert_eq!(std::fs::read_dir(lock_dir.path()).expect("a directory").count(), 0);
        let page = QosPage::create(lock_dir.path()).expect("it can be made");
        QosPage::join(lock_dir.path()).expect("it is of this version");
        page.memory.version.store(VERSION + (1 << 32), Ordering::Release);
        assert_eq!(refused(&lock_dir), ErrorKind::InvalidData);
        std::fs::write(lock_dir.path().join(super::NAME), b"short").expect("it is ours");
        assert_eq!(refused(&lock_dir), ErrorKind::InvalidData);
        assert_eq!(std::fs::read(lock_dir.path().join(super::NAME)).expect("it is"), b"short");
    }

    #[test]
    fn a_device_has_one_place_for_all_and_room_of_the_dead_is_given_back() {
        let (_lock_dir, [supervisor, worker]) = pair();
        let mut heavy = class("heavy", 10);
        heavy.limits.numbers[Meter::Weight as usize] = Some(8);
        supervisor.configure([&heavy].into_iter());
        let id = worker.device(7).expect("there is room");
        assert_eq!((supervisor.device(7), supervisor.device(8)), (Some(id), Some(id + 1)));
        let device = &supervisor.devices()[usize::from(id)];
        assert!(device.is_shared() && device.number() == Some(7));
        let client = dtyp::ServerId { pid: 1, unique_id: 5 };
        let mut gate = qos::Gate::new(Box::new(worker), client);
        let classes = qos::Classes { ids: [].into(), device: Some(id) };
        let cost = qos::Cost { kind: qos::Kind::Read, bytes: 1, kept: 0 };
        assert_eq!(gate.admit(0, &classes, cost, 1), qos::Admission::Begins);
        assert_eq!(device.in_flight(), 1);
        std::mem::forget(gate);
        supervisor.remove_worker(client.unique_id);
        assert_eq!(device.in_flight(), 0);
        supervisor.configure(std::iter::empty());
        assert!(!device.is_shared());
    }

    #[test]
    fn a_class_keeps_its_slot_and_its_values_set_by_hand() {
        let (_lock_dir, [supervisor, worker]) = pair();
        let (slow, fast) = (class("slow", 10), class("fast", 20));
        supervisor.configure([&slow, &fast].into_iter());
        let at = worker.find("fast").expect("it was configured");
        let limit = |page: &QosPage| page.slots()[usize::from(at)].limits().numbers[0];
        assert_eq!(limit(&worker), Some(20));
        worker.slots()[usize::from(at)].set(Meter::Bandwidth, Some(5));
        supervisor.configure([&fast].into_iter());
        assert_eq!((worker.find("fast"), worker.find("slow")), (Some(at), None));
        assert_eq!(limit(&supervisor), Some(5));
        supervisor.slots()[usize::from(at)].clear(&fast.limits);
        assert_eq!(limit(&worker), Some(20));
    }
}
