//! Quality of service as pure functions; time is an argument.
//!
//! Two mechanisms together. Credits ([`credits`]) bound the requests that a client may have
//! outstanding. A [`gate`] decides when each request begins, by the limits of all [`class`]es that
//! it belongs to: those of its client, user, share and file. The consumption of a class is counted
//! in a [`slot`] of memory that all workers share, so that a limit applies to all processes
//! together. Beneath the limits, classes share the capacity of a storage [`device`], which a
//! [`controller`] measures.

#![forbid(unsafe_code)]

pub mod class;
pub mod controller;
pub mod credits;
pub mod device;
pub mod gate;
pub mod model;
mod pace;
pub mod slot;

pub use class::{Class, ClassId, Classes, Cost, Kind, Limits, Membership, Meter, Subject};
pub use device::{Device, DeviceId};
pub use gate::{Admission, Gate};
pub use slot::{Slot, Slots};
