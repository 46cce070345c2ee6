//! The table of commands: adding one is a module in `command` and a line here.

use arbitration::FileKey;
use object::{FileIdentity, Piped};
use trace::Phase;
use wire::{Decode, FileId};

use crate::command::change_notify::ChangeNotify;
use crate::command::close::Close;
use crate::command::create::Create;
use crate::command::echo::Echo;
use crate::command::flush::Flush;
use crate::command::ioctl::Ioctl;
use crate::command::lock::Lock;
use crate::command::logoff::Logoff;
use crate::command::negotiate::Negotiate;
use crate::command::oplock_break::OplockBreak;
use crate::command::query_directory::QueryDirectory;
use crate::command::query_info::QueryInfo;
use crate::command::read::Read;
use crate::command::session_setup::SessionSetup;
use crate::command::set_info::SetInfo;
use crate::command::tree_connect::TreeConnect;
use crate::command::tree_disconnect::TreeDisconnect;
use crate::command::write::Write;
use crate::command::{Abandoned, Command};
use crate::effect::Reply;
use crate::fsctl::smbtorture;
use crate::reject::Reject;
use crate::request::Incoming;
use crate::response::Step;
use crate::scope::Scope;
use crate::server::Server;

/// What became of a request, and the open that it names.
pub(crate) type Outcome = (Result<Step<Pending>, Reject>, Option<FileId>);

macro_rules! commands {
    ($($code:ident => $name:ident,)*) => {
        /// What a command keeps while it waits.
        #[derive(Debug)]
        pub(crate) enum Pending {
            $($name(<$name as Command>::Pending),)*
        }

        pub(crate) fn start(
            server: &mut Server,
            incoming: &Incoming,
            related: Option<Option<FileId>>,
        ) -> Outcome {
            if let Some(answer) = smbtorture::force_unacked_timeout(server, incoming) {
                return (answer.map(Step::Done), None);
            }
            // Decoding a body takes no longer than looking at the clock.
            incoming.trace.enter(Phase::Running);
            match incoming.header.command {
                $(wire::Command::$code => {
                    start_one::<$name>(server, incoming, related, Pending::$name)
                })*
                _ => (Err(Reject::UnknownCommand), None),
            }
        }

        pub(crate) fn resume(
            server: &mut Server,
            incoming: &Incoming,
            file_id: Option<FileId>,
            pending: Pending,
            reply: Reply,
        ) -> Result<Step<Pending>, Reject> {
            match pending {
                $(Pending::$name(pending) => {
                    let request = (incoming, file_id);
                    resume_one::<$name>(server, request, pending, reply, Pending::$name)
                })*
            }
        }

        pub(crate) fn waits_for(pending: &Pending) -> Option<FileKey> {
            match pending {
                $(Pending::$name(pending) => $name::waits_for(pending),)*
            }
        }

        pub(crate) fn changes(pending: &Pending) -> Option<(FileIdentity, u64)> {
            match pending {
                $(Pending::$name(pending) => $name::changes(pending),)*
            }
        }

        pub(crate) fn abandon(pending: Pending, reply: Option<Reply>) -> Abandoned {
            match pending {
                $(Pending::$name(pending) => $name::abandon(pending, reply),)*
            }
        }
    };
}

// CANCEL has no response and no scope: `receive` serves it.
commands! {
    NEGOTIATE => Negotiate,
    SESSION_SETUP => SessionSetup,
    LOGOFF => Logoff,
    TREE_CONNECT => TreeConnect,
    TREE_DISCONNECT => TreeDisconnect,
    CREATE => Create,
    CLOSE => Close,
    FLUSH => Flush,
    READ => Read,
    WRITE => Write,
    LOCK => Lock,
    IOCTL => Ioctl,
    ECHO => Echo,
    QUERY_DIRECTORY => QueryDirectory,
    CHANGE_NOTIFY => ChangeNotify,
    QUERY_INFO => QueryInfo,
    SET_INFO => SetInfo,
    OPLOCK_BREAK => OplockBreak,
}

/// `related` is set in a related request: the FileId that the request before handed down.
///
/// Never a part of `start`, nor `resume_one` of `resume`: there all commands would have one place for
/// their outcome, from which it is copied.
#[inline(never)]
fn start_one<C: Command>(
    server: &mut Server,
    incoming: &Incoming,
    related: Option<Option<FileId>>,
    keep: impl FnOnce(C::Pending) -> Pending,
) -> Outcome {
    let behind = incoming.piped.borrow().as_ref().map_or(0, Piped::length);
    let request = match C::Request::decode_front(&incoming.message, behind) {
        Ok(request) => request,
        Err(error) => return (Err(Reject::Malformed(error)), None),
    };
    let file_id = match (request.file_id(), related) {
        (Some(_), Some(None)) => return (Err(Reject::NoRelatedFileId), None),
        (Some(_), Some(handed_down)) => handed_down,
        (named, _) => named,
    };
    let outcome = C::Scope::resolve(server, incoming, file_id).and_then(|mut scope| {
        scope.verify_channel_sequence(incoming)?;
        C::start(scope, incoming, request)
    });
    (outcome.map(|step| step.map(keep)), file_id)
}

#[inline(never)]
fn resume_one<C: Command>(
    server: &mut Server,
    (incoming, file_id): (&Incoming, Option<FileId>),
    pending: C::Pending,
    reply: Reply,
    keep: impl FnOnce(C::Pending) -> Pending,
) -> Result<Step<Pending>, Reject> {
    let reject = match C::Scope::resolve(server, incoming, file_id) {
        Ok(scope) => {
            return C::resume(scope, incoming, pending, reply).map(|step| step.map(keep));
        }
        Err(reject) => reject,
    };
    // What the request was about is gone: its session logged off, its open closed.
    let abandoned = C::abandon(pending, Some(reply));
    server.globals.outbox.effects.extend(abandoned.effect.map(|effect| (None, effect)));
    if let Some(response) = C::outlived().filter(|_| reject != Reject::NoSuchOpen) {
        return Ok(Step::Done(response));
    }
    Err(abandoned.reject.unwrap_or(reject))
}
