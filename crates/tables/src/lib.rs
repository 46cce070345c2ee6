//! The global tables: clients, sessions, tree connects and opens of all workers.
