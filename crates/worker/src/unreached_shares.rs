//! Shares whose directories have no rule in this process: they were added, made or mounted after
//! its rules, which cannot grow.
//!
//! The supervisor makes rules for later workers, if they would be others. Then the client gets one
//! of these: its connections end, and it connects again. One with open files would lose them, so it
//! is refused.

pub(super) mod waiting;

use std::path::{Path, PathBuf};

use object::RootId;
use process::control::ToSupervisor;
use proto::{Reply, RequestId, ShareRefusal};
use tracing::{info, warn};

use super::event_loop::Worker;
use waiting::UnreachedShare;

impl Worker {
    /// Lets a tree connect wait for the supervisor's answer.
    pub(super) fn share_unreached(
        &mut self,
        request: Option<RequestId>,
        root: Option<RootId>,
        name: &str,
        path: PathBuf,
    ) {
        root.into_iter().for_each(|it| self.close_root(it));
        let share = UnreachedShare { request, name: name.to_owned(), path };
        if let Err(share) = self.unreached_shares.keep(share) {
            return self.refuse_unreached(share, "too many of its connects wait");
        }
        let number = self.path_rules.number();
        if self.control.send(ToSupervisor::LacksPaths { number }).is_err() {
            self.path_rules_answered(false);
        }
    }

    /// Ends the connections of a client for which newer rules are there, or refuses what waits.
    pub(super) fn path_rules_answered(&mut self, are_newer: bool) {
        let waiting = self.unreached_shares.take();
        let has_opens = self.server.file_opens().next().is_some();
        if let (true, false, [first, ..]) = (are_newer, has_opens, &waiting[..]) {
            let UnreachedShare { name, path, .. } = first;
            let path = path.display();
            info!(
                "share {name}: {path} is newer than this client's process; the client connects \
                 again, to another one"
            );
            return self.leave_client("a share is newer than its process");
        }
        let why = match are_newer {
            true => "its client has open files in a process that is older than the share",
            false => NO_RULE,
        };
        waiting.into_iter().for_each(|share| self.refuse_unreached(share, why));
    }

    fn refuse_unreached(&mut self, share: UnreachedShare, why: &str) {
        let UnreachedShare { request, name, path } = share;
        warn_of(&name, &path, why);
        self.answer(request, Reply::Share(Err(ShareRefusal::BadNetworkName)));
        self.serve_effects();
    }
}

/// Links in the part of a path that a variable stands for lead where no rule is.
const NO_RULE: &str = "processes of clients have no rule for it: a link leads there from the path \
                       of the share, or it is new; mount it there instead (`mount --bind`), or \
                       name it in a share";

fn warn_of(name: &str, path: &Path, why: &str) {
    warn!("share {name}: {} is not served: {why}", path.display());
}
