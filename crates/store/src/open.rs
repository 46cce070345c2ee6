//! CREATE: looking up a path, opening, creating and overwriting.

pub(crate) mod create;
pub(crate) mod existing;
pub(crate) mod lookup;
pub(crate) mod overwrite;
