//! [MS-SMB2] 3.3 without sockets, files, clocks or threads.

#![forbid(unsafe_code)]
