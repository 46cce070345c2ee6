//! Requester of a deletion: the open that has marked a file, which may end before the last one.

use std::net::SocketAddr;
use std::sync::Arc;

use dtyp::Sid;

use crate::host_path::HostPath;
use crate::open::OpenEntry;

/// Highest number of groups, by ids and by SIDs, that a record keeps of a user. Each request for
/// the file reads the record; a user in more of them deletes with the server's rights.
pub const GROUPS_KEPT_MAX: usize = 1_024;

/// Bytes of all other parts of a requester, and of a user.
const PARTS_BYTES: usize = 64;

/// Bytes of a SID of a domain, with its length.
const SID_BYTES: usize = 32;

/// Open that has marked a file or a stream for deletion. The removal has its share, its name of
/// the file and the rights of its user, whichever open ends last.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Requester {
    /// Name of the file, as [`crate::OpenFacts::link`]: a stream goes only by the same one.
    pub link: u64,
    /// Share that the file was opened through.
    pub share: String,
    /// Path of the share's root on the host.
    pub folder: String,
    /// The path beneath the share as its clients see it, with `\`.
    pub path: String,
    /// The path on disk, as [`crate::OpenFacts::path_on_disk`].
    pub path_on_disk: Option<String>,
    /// True for POSIX names, as [`crate::OpenFacts::is_posix`].
    pub is_posix: bool,
    /// User of the open; `None` if that open ended without its worker, and nobody knows the user.
    pub user: Option<Arc<RequestingUser>>,
}

/// User of a tree connect, with all that a removal needs of it later, in another process.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RequestingUser {
    /// Name of the user as configured.
    pub name: String,
    /// Domain or workgroup of the user.
    pub domain: String,
    /// True for guests and anonymous users.
    pub is_guest: bool,
    /// Address and port of the client.
    pub client: SocketAddr,
    /// Name of the client machine, as the client gave it; unproven.
    pub client_name: String,
    /// Address and port that the client connected to.
    pub server: SocketAddr,
    /// Number of the dialect of its connection.
    pub dialect: u16,
    /// Folder of the recycle bin below the share, with the substitutions of the tree connect.
    /// Empty for none.
    pub recycle_bin: String,
    /// Rights that the kernel and descriptors check; `None` for a user in too many groups, and for
    /// a server that has one user for all.
    pub rights: Option<Arc<UserRights>>,
}

/// Ids and SIDs of a user.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct UserRights {
    /// The user's id on this system.
    pub uid: u32,
    /// Id of the primary group.
    pub gid: u32,
    /// Ids of the supplementary groups.
    pub groups: Vec<u32>,
    /// The user's SID, if it is another than the one that stands for the uid.
    pub sid: Option<Sid>,
    /// Groups of which the ids say nothing.
    pub sids: Vec<Sid>,
}

impl Requester {
    /// Returns the requester that an open is.
    #[must_use]
    pub fn of(open: &OpenEntry, user: Option<Arc<RequestingUser>>) -> Self {
        let facts = &open.facts;
        Self {
            link: facts.link,
            share: facts.share.clone(),
            folder: facts.folder.clone(),
            path: facts.path.clone(),
            path_on_disk: facts.path_on_disk.clone(),
            is_posix: facts.is_posix,
            user,
        }
    }

    /// Path of the file on the host.
    #[must_use]
    pub fn host_path(&self) -> HostPath<'_> {
        let on_disk = self.path_on_disk.as_deref();
        HostPath { folder: &self.folder, path: &self.path, on_disk }
    }

    /// Returns the bytes that it takes in a record, about.
    pub(crate) fn bytes(&self) -> usize {
        let on_disk = self.path_on_disk.as_ref().map_or(0, String::len);
        let path = self.share.len() + self.folder.len() + self.path.len() + on_disk;
        PARTS_BYTES + path + self.user.as_ref().map_or(0, |it| it.bytes())
    }

    /// Returns whether an open of this user in this share deletes as the requester would: with the
    /// same rights, and into the same recycle bin.
    #[must_use]
    pub fn deletes_as(&self, share: &str, folder: &str, user: Option<&RequestingUser>) -> bool {
        let is_same_user = match (&self.user, user) {
            (Some(own), Some(other)) => own.deletes_as(other),
            (own, other) => own.is_none() && other.is_none(),
        };
        self.share == share && self.folder == folder && is_same_user
    }
}

impl RequestingUser {
    fn bytes(&self) -> usize {
        let texts = [&self.name, &self.domain, &self.client_name, &self.recycle_bin];
        let groups =
            |it: &UserRights| size_of::<u32>() * it.groups.len() + SID_BYTES * it.sids.len();
        let rights = self.rights.as_deref().map_or(0, groups);
        PARTS_BYTES + texts.iter().map(|it| it.len()).sum::<usize>() + rights
    }

    fn deletes_as(&self, other: &Self) -> bool {
        self.name == other.name
            && self.domain == other.domain
            && self.is_guest == other.is_guest
            && self.recycle_bin == other.recycle_bin
            && self.rights == other.rights
    }
}
