//! POSIX files as the object store: names, opens, extended attributes, streams.
