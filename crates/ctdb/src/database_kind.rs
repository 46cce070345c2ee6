//! Kinds of databases of a cluster.

/// Whether a database outlives the cluster, and how it is spread.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum DatabaseKind {
    /// Whole on each node and on disk; changed by transactions.
    Persistent,
    /// Whole on each node, and empty after a start of the cluster; changed by transactions.
    Replicated,
    /// Each record is on one node at a time, and is lost with it.
    Volatile,
}
