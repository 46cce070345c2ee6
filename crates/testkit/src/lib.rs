//! What tests of the protocol engine need: a store in memory, a clock that a test moves, accounts
//! and shares, and clients that follow a script.
//!
//! A [`World`] is a server with everything around it, and no socket, file, thread or real time in
//! it: the same script makes the same bytes every time. [`World::connect`] gives a [`Peer`], which
//! counts message ids and credits, signs, seals, and checks of every response what a careful client
//! would check.
//!
//! A [`simulation`] is several such worlds over one store and one table of files, with clients that
//! do what they like.

#![forbid(unsafe_code)]

pub mod clock;
pub mod entropy;
pub mod piped;

pub mod store;

pub mod accounts;
pub mod ledger;
pub mod world;

pub mod login;
pub mod peer;
pub mod request;
pub mod response;

pub mod create;
pub mod seeds;

pub mod simulation;

pub use clock::VirtualClock;
pub use create::Create;
pub use login::Login;
pub use peer::Peer;
pub use request::Request;
pub use response::Response;
pub use store::MemoryStore;
pub use world::World;
