//! The table of commands: a new one needs a module in `command` and a line here.
//!
//! The engine calls `start` for each request (from `receive::run`) and `resume` for each reply or
//! wake-up (from `pending::resume_request`). Both resolve the command's scope first. A `Step::Wait`
//! for an operation that the store carries out at once is resumed within the same call; any other
//! step goes back to the engine, which answers, waits or suspends.

use engine::effect::Reply;
use engine::globals::Globals;
use engine::pending_command::{PENDING_COMMAND_BYTES, PendingCommand};
use engine::request::Incoming;
use engine::response::{Response, Step};
use engine::scope::{Scope, StorageOutcome};
use engine::server::{Commands, Server};
use engine::storage::Storage;
use model::connection::Connection;
use model::now::Now;
use model::reject::{Disconnect, Reject};
use trace::Phase;
use wire::{Decode, FileId};

use crate::command::Command;
use crate::command::change_notify::ChangeNotify;
use crate::command::close::Close;
use crate::command::create::Create;
use crate::command::echo::Echo;
use crate::command::flush::Flush;
use crate::command::ioctl::Ioctl;
use crate::command::lock::Lock;
use crate::command::logoff::Logoff;
use crate::command::negotiate::{self, Negotiate};
use crate::command::oplock_break::OplockBreak;
use crate::command::query_directory::QueryDirectory;
use crate::command::query_info::QueryInfo;
use crate::command::read::Read;
use crate::command::session_setup::SessionSetup;
use crate::command::set_info::SetInfo;
use crate::command::tree_connect::TreeConnect;
use crate::command::tree_disconnect::TreeDisconnect;
use crate::command::write::Write;
use crate::fsctl::smbtorture;

macro_rules! commands {
    (
        wait { $($code:ident => $name:ident,)* }
        never { $($quick_code:ident => $quick:ident,)* }
    ) => {
        $(const _: () =
            assert!(size_of::<<$name as Command>::Pending>() <= PENDING_COMMAND_BYTES);)*

        impl Commands for Table {
            fn start(
                &self,
                server: &mut Server,
                incoming: &Incoming,
                related: Option<Option<FileId>>,
                named: &mut Option<FileId>,
                storage: &mut dyn Storage,
            ) -> Result<Step, Reject> {
                if incoming.header.command == wire::Command::IOCTL
                    && let Some(answer) = smbtorture::force_unacked_timeout(server, incoming)
                {
                    return answer.map(Step::Done);
                }
                // Decoding a body takes no longer than reading the clock.
                incoming.trace.enter(Phase::Running);
                match incoming.header.command {
                    $(wire::Command::$code => {
                        start_command::<$name>(server, incoming, related, named, storage)
                    })*
                    $(wire::Command::$quick_code => {
                        start_command::<$quick>(server, incoming, related, named, storage)
                    })*
                    _ => Err(Reject::UnknownCommand),
                }
            }

            fn resume(
                &self,
                server: &mut Server,
                incoming: &Incoming,
                file_id: Option<FileId>,
                pending: Box<dyn PendingCommand>,
                reply: Reply,
            ) -> Result<Step, Reject> {
                match incoming.header.command {
                    $(wire::Command::$code => {
                        resume_command::<$name>(server, (incoming, file_id), pending, reply)
                    })*
                    other => unreachable!("{other:?} never waits"),
                }
            }

            fn negotiate_smb1(
                &self,
                connection: &mut Connection,
                globals: &mut Globals,
                frame: &[u8],
                now: Now,
            ) -> Result<Response, Disconnect> {
                negotiate::smb1(connection, globals, frame, now)
            }
        }
    };
}

/// The commands, as the engine calls them.
#[derive(Debug)]
pub(crate) struct Table;

// CANCEL has no response and no scope: `engine::cancel` serves it.
commands! {
    wait {
        NEGOTIATE => Negotiate,
        SESSION_SETUP => SessionSetup,
        TREE_CONNECT => TreeConnect,
        CREATE => Create,
        CLOSE => Close,
        FLUSH => Flush,
        READ => Read,
        WRITE => Write,
        LOCK => Lock,
        IOCTL => Ioctl,
        QUERY_DIRECTORY => QueryDirectory,
        CHANGE_NOTIFY => ChangeNotify,
        QUERY_INFO => QueryInfo,
        SET_INFO => SetInfo,
    }
    never {
        LOGOFF => Logoff,
        TREE_DISCONNECT => TreeDisconnect,
        ECHO => Echo,
        OPLOCK_BREAK => OplockBreak,
    }
}

/// Begins a request of one command. `related` is set in a related request: the FileId of the
/// previous request of the compound.
///
/// Never inlined into `start`, nor `resume_command` into `resume`: all commands would then share
/// one place for their outcome, from which it is copied.
#[inline(never)]
fn start_command<C: Command>(
    server: &mut Server,
    incoming: &Incoming,
    related: Option<Option<FileId>>,
    named: &mut Option<FileId>,
    storage: &mut dyn Storage,
) -> Result<Step, Reject> {
    let request = match incoming.bytes_behind() {
        0 => C::Request::decode(&incoming.message),
        behind => C::Request::decode_front(&incoming.message, behind),
    }
    .map_err(Reject::Malformed)?;
    *named = match (request.file_id(), related) {
        (Some(_), Some(None)) => return Err(Reject::NoRelatedFileId),
        (Some(_), Some(handed_down)) => handed_down,
        (named, _) => named,
    };
    let is_alone = server.is_alone();
    let mut scope = C::Scope::resolve(server, incoming, *named)?;
    incoming.trace.belongs_to(scope.party(&incoming.header));
    if !scope.continues_sequence(&incoming.header) {
        scope.verify_channel_sequence(incoming)?;
    }
    let mut outcome = C::start(scope.lend(), incoming, request);
    loop {
        let (effect, pending) = match outcome {
            Ok(Step::Done(response)) => return Ok(Step::Done(response)),
            Ok(Step::Wait(effect, pending)) => (effect, pending),
            other => return other.map(Step::boxed),
        };
        let Some(in_storage) = scope.storage() else {
            return Ok(Step::Wait(effect, pending).boxed());
        };
        match in_storage.ask_at_once(incoming, is_alone, effect, pending, storage) {
            StorageOutcome::Answered(result, pending) => {
                outcome = C::resume(scope.lend(), incoming, pending, Reply::Object(result));
            }
            StorageOutcome::Waits(waits) => return Ok(waits.boxed()),
        }
    }
}

#[inline(never)]
fn resume_command<C: Command>(
    server: &mut Server,
    (incoming, file_id): (&Incoming, Option<FileId>),
    pending: Box<dyn PendingCommand>,
    reply: Reply,
) -> Result<Step, Reject> {
    let reject = match C::Scope::resolve(server, incoming, file_id) {
        Ok(scope) => {
            let step = C::resume(scope, incoming, pending.downcast(), reply)?;
            return Ok(step.boxed());
        }
        Err(reject) => reject,
    };
    // The request's session, tree connect or open is gone.
    let reason = server.abandon(pending, Some(reply));
    if let Some(response) = C::outlived().filter(|_| reject != Reject::NoSuchOpen) {
        return Ok(Step::Done(response));
    }
    Err(reason.unwrap_or(reject))
}
