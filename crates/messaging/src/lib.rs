//! Messages between the processes of one server.
