//! Environment for tests of the protocol engine: a store in memory, a clock under the test's
//! control, accounts and shares, and clients that follow a script.
//!
//! A [`World`] is a server with everything around it, without sockets, files, threads or real time:
//! the same script makes the same bytes every time. [`World::connect`] returns a [`Peer`], which
//! counts message ids and credits, signs, seals, and checks every response as a careful client
//! would.
//!
//! A [`simulation`] consists of several such worlds over one store and one table of files, with
//! clients that act at random.

#![forbid(unsafe_code)]

pub mod clock;
pub mod entropy;
pub mod piped;

pub mod store;

pub mod accounts;
pub mod class_slot;
pub mod domain;
pub mod ledger;
pub mod world;

pub mod login;
pub mod outcome;
pub mod peer;
pub mod request;
pub mod response;

pub mod create;
pub mod seeds;

pub mod simulation;

pub use class_slot::ClassSlot;
pub use clock::VirtualClock;
pub use create::Create;
pub use login::Login;
pub use outcome::Outcome;
pub use peer::Peer;
pub use request::Request;
pub use response::Response;
pub use store::MemoryStore;
pub use world::World;
