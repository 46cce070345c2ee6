//! Small sets of named things that events are counted by.

/// What an event may be counted by: a number in the page and in probes, a name in reports.
pub trait Kind: Copy {
    /// All names, in the order of their numbers.
    const NAMES: &'static [&'static str];
}

macro_rules! kinds {
    ($(#[$meta:meta])* $kind:ident { $($(#[$doc:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        #[repr(u8)]
        pub enum $kind { $($(#[$doc])* $variant,)* }

        impl Kind for $kind {
            const NAMES: &'static [&'static str] = &[$($name,)*];
        }

        impl $kind {
            /// All of them, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Its number in the page and in probes.
            #[must_use]
            pub const fn number(self) -> u64 {
                self as u64
            }

            /// Its name in reports.
            #[must_use]
            pub fn name(self) -> &'static str {
                Self::NAMES[self as usize]
            }

            /// What a number stands for; the last one for a number that stands for nothing.
            #[must_use]
            pub fn from_number(number: u64) -> Self {
                let index = usize::try_from(number).unwrap_or(usize::MAX);
                Self::ALL[index.min(Self::ALL.len() - 1)]
            }
        }
    };
}

kinds! {
    /// What a worker does, or what a request goes through.
    ///
    /// A worker is in exactly one of them at any time, and so is each of its requests; so the
    /// times in all of them add up to the time that passed.
    Phase {
        /// Of a worker: nothing is to be done.
        Waiting = "waiting for events",
        /// Taking bytes from sockets; of a request, from its first byte to its last.
        Receiving = "receiving",
        /// Of a request: behind others that came with it, or the rest of its compound.
        Queued = "queued",
        /// Of a request: kept back by a limit of bandwidth.
        Held = "held",
        /// Decrypting and verifying signatures.
        Verifying = "verifying",
        /// From bytes to a request.
        Parsing = "parsing",
        /// The engine decides.
        Running = "running",
        /// The file system works.
        Storage = "storage",
        /// Of a request: until other clients give up what they keep of a file.
        Break = "waiting for a break",
        /// Of a request: until something happens, for as long as it takes: a lock, a change.
        Event = "waiting for an event",
        /// Of a request: until another process of the server answers.
        Peer = "waiting for a process",
        /// The tables that all processes share.
        Table = "tables",
        /// Signing and encrypting.
        Signing = "signing",
        /// Handing bytes to sockets; of a request, from its response to the last byte taken.
        Sending = "sending",
        /// Of a worker: messages of other processes.
        Messages = "messages",
        /// Of a worker: everything else.
        Other = "other work",
    }
}

kinds! {
    /// The commands of [MS-SMB2] 2.2.1.2, by their numbers there.
    Operation {
        /// 0
        Negotiate = "NEGOTIATE",
        /// 1
        SessionSetup = "SESSION_SETUP",
        /// 2
        Logoff = "LOGOFF",
        /// 3
        TreeConnect = "TREE_CONNECT",
        /// 4
        TreeDisconnect = "TREE_DISCONNECT",
        /// 5
        Create = "CREATE",
        /// 6
        Close = "CLOSE",
        /// 7
        Flush = "FLUSH",
        /// 8
        Read = "READ",
        /// 9
        Write = "WRITE",
        /// 10
        Lock = "LOCK",
        /// 11
        Ioctl = "IOCTL",
        /// 12
        Cancel = "CANCEL",
        /// 13
        Echo = "ECHO",
        /// 14
        QueryDirectory = "QUERY_DIRECTORY",
        /// 15
        ChangeNotify = "CHANGE_NOTIFY",
        /// 16
        QueryInfo = "QUERY_INFO",
        /// 17
        SetInfo = "SET_INFO",
        /// 18
        OplockBreak = "OPLOCK_BREAK",
        /// Any number that is no command.
        Unknown = "unknown",
    }
}

kinds! {
    /// What the file system is asked to do, as coarsely as an administrator wants to know it.
    StoreOperation {
        /// Opening or creating by name.
        Open = "open",
        /// Closing.
        Close = "close",
        /// Closing and removing the name.
        Remove = "remove",
        /// Reading data.
        Read = "read",
        /// Writing data.
        Write = "write",
        /// Putting data on stable storage.
        Flush = "flush",
        /// Copying and sharing data between files.
        Copy = "copy",
        /// Reading attributes, times and sizes.
        QueryMetadata = "query metadata",
        /// Changing attributes, times and sizes.
        SetMetadata = "set metadata",
        /// Renaming and linking.
        Rename = "rename",
        /// Listing directories.
        ReadDirectory = "read directory",
        /// Reading security descriptors.
        ReadSecurity = "read security",
        /// Changing security descriptors.
        WriteSecurity = "write security",
        /// Streams and extended attributes.
        Attributes = "extended attributes",
        /// Figures of the file system.
        QueryVolume = "query volume",
        /// Everything else.
        Other = "other",
    }
}

kinds! {
    /// What became of a logon.
    LogonOutcome {
        /// A user proved the password.
        User = "user",
        /// Let in as a guest.
        Guest = "guest",
        /// Nobody in particular was let in.
        Anonymous = "anonymous",
        /// The password was wrong.
        WrongPassword = "wrong password",
        /// There is no such user.
        NoSuchUser = "no such user",
        /// Too many logons had failed before.
        TooManyFailures = "too many failures",
        /// The client meant to log on to another server.
        AnotherServer = "another server",
        /// Refused for another reason.
        Refused = "refused",
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind, LogonOutcome, Operation, Phase, StoreOperation};

    #[test]
    fn a_number_that_stands_for_nothing_is_the_last_of_its_kind() {
        assert_eq!(Operation::from_number(8), Operation::Read);
        assert_eq!(Operation::from_number(19), Operation::Unknown);
        assert_eq!(Operation::from_number(u64::MAX), Operation::Unknown);
    }

    #[test]
    fn no_two_of_a_kind_have_the_same_name() {
        let all = [Phase::NAMES, Operation::NAMES, StoreOperation::NAMES, LogonOutcome::NAMES];
        for names in all {
            for (index, name) in names.iter().enumerate() {
                assert!(!names[..index].contains(name), "{name} is there twice");
            }
        }
    }
}
