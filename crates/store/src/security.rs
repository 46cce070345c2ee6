//! Users, credentials, security descriptors, and the rights that follow from them.

pub(crate) mod access;
pub(crate) mod credentials;
pub(crate) mod descriptor;
pub(crate) mod given_mode;
pub(crate) mod host_rights;
pub(crate) mod mapping;
pub(crate) mod mode;
pub(crate) mod nt_acl;
pub(crate) mod openness;
pub(crate) mod posix_acl;
pub(crate) mod rights;
pub(crate) mod stored;
