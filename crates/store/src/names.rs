//! Names of objects, as clients see them and as they are on disk.

pub(crate) mod character_mappings;
pub(crate) mod short_name;
