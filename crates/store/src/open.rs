//! The store's half of CREATE: [`ObjectOp::Open`](object::ObjectOp::Open), then perhaps
//! `Overwrite`.
//!
//! `Store::run` calls `Store::open` (`existing.rs`). It has `lookup` find the name, and then opens
//! the object (`existing`) or makes one (`create`). Neither truncates: `overwrite` does so later,
//! once the engine has granted the open beside all others.
//!
//! *In*: an [`OpenRequest`](object::OpenRequest); the thread impersonates its user
//! (`Store::start`).
//! *Out*: an [`Opened`](object::Opened), whose `created` says if the name is new, or an NTSTATUS;
//! an error leaves no new object behind. The open stays in the table of `model::opens`, with a
//! descriptor that keeps its inode, until `ObjectOp::Close`.
//!
//! Rights on an existing object are computed before it is opened for data (`security::access`), and
//! the kernel checks them once more. For a new object it is the right to add to the directory.
//!
//! Other processes change the tree meanwhile. A name that vanishes or appears between look-up and
//! open is looked up again, up to `ATTEMPTS_MAX` times; an object is made with O_EXCL, or gets a
//! free name once it has its descriptor (`unseen`). The engine finds out by itself whether another
//! client has deleted the name since.

pub(crate) mod create;
pub(crate) mod existing;
pub(crate) mod lookup;
pub(crate) mod overwrite;
mod unseen;
