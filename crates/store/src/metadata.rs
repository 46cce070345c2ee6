//! Metadata of objects: times, attributes, streams, reparse points, snapshots, volumes.

pub(crate) mod afp_info;
pub(crate) mod apple_double;
pub(crate) mod apple_double_conversion;
pub(crate) mod backups;
pub(crate) mod basic;
pub(crate) mod clusters;
pub(crate) mod dos_attributes;
pub(crate) mod extended_attributes;
pub(crate) mod mode_attributes;
pub(crate) mod quota;
pub(crate) mod reparse;
pub(crate) mod reparse_attribute;
pub(crate) mod snapshot;
pub(crate) mod stream;
pub(crate) mod stream_form;
mod stream_list;
pub(crate) mod volume;
