//! Orders of administrators about sessions and opens of all clients: [MS-SRVS] 3.1.4.

use arbitration::{FileKey, FileRecord, OpenEntry, OpenId};
use model::now::Now;
use model::reject::Reject;

use crate::server::Server;

impl Server {
    /// Returns the opens of all workers that `select` returns something for, with their files.
    ///
    /// # Errors
    /// If the records cannot be read.
    pub fn list_opens<T>(
        &self,
        select: impl Fn(&FileRecord, &OpenEntry) -> Option<T>,
    ) -> Result<Vec<(FileKey, T)>, Reject> {
        self.globals.files.find_opens(select)
    }

    /// Closes an open of any worker: [MS-SRVS] 3.1.4.4. A disconnected one ends at once.
    ///
    /// # Errors
    /// If the file's record cannot be read or kept.
    pub fn handle_close_open(&mut self, now: Now, file: FileKey, id: OpenId) -> Result<(), Reject> {
        self.globals.files.set_now(now.monotonic);
        let closed = self.globals.files.evict(file, |open| open.id == id);
        if closed.is_ok() {
            self.check_file(file);
        }
        self.quiesce(now);
        closed
    }

    /// Closes a session of this worker: [MS-SRVS] 3.1.4.6. Another one is left alone.
    pub fn handle_close_session(&mut self, now: Now, session_id: u64) {
        self.globals.files.set_now(now.monotonic);
        if self.sessions.contains_key(&session_id) {
            self.globals.outbox.ending_sessions.push(session_id);
        }
        self.quiesce(now);
    }
}
