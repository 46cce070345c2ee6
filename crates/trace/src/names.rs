//! Small sets of named things that events are counted by.

/// Key of an event's series: a number in the page and in probes, a name in reports.
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
            /// All values, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Number in the page and in probes.
            #[must_use]
            pub const fn number(self) -> u64 {
                self as u64
            }

            /// Name in reports and metrics.
            #[must_use]
            pub fn name(self) -> &'static str {
                Self::NAMES[self as usize]
            }

            /// Returns the value with a number; the last one for an unknown number.
            #[must_use]
            pub fn from_number(number: u64) -> Self {
                let index = usize::try_from(number).unwrap_or(usize::MAX);
                Self::ALL[index.min(Self::ALL.len() - 1)]
            }
        }
    };
}

kinds! {
    /// Phases of workers and requests.
    ///
    /// A worker is in exactly one phase at any time, and so is each of its requests; so the times
    /// of all phases add up to the elapsed time.
    Phase {
        /// Of a worker: there is nothing to do.
        Waiting = "waiting for events",
        /// Taking bytes from sockets; of a request, from its first byte to its last.
        Receiving = "receiving",
        /// Of a request: waiting behind others of its frame, or, once answered, for the rest of its
        /// compound.
        /// compound.
        Queued = "queued",
        /// Of a request: throttled by a limit.
        Throttled = "throttled",
        /// Decrypting requests and verifying their signatures.
        Verifying = "verifying",
        /// Decoding bytes of a request.
        Parsing = "parsing",
        /// The engine executes the request.
        Running = "running",
        /// The file system executes an operation.
        Storage = "storage",
        /// Of a request: until other clients acknowledge a break.
        Break = "waiting for a break",
        /// Of a request: until an event, for as long as it takes: a lock, a change.
        Event = "waiting for an event",
        /// Of a request: until another process of the server answers.
        Peer = "waiting for a process",
        /// Reading or changing the tables that all processes share.
        Table = "tables",
        /// Signing and encrypting of responses.
        Signing = "signing",
        /// Handing bytes to sockets; of a request, from its response to the last byte taken.
        Sending = "sending",
        /// Of a worker: handling messages of other processes.
        Messages = "messages",
        /// Of a worker: everything else.
        Other = "other work",
    }
}

kinds! {
    /// Commands by their numbers in [MS-SMB2] 2.2.1.2.
    Operation {
        /// Command 0: [MS-SMB2] 2.2.3.
        Negotiate = "NEGOTIATE",
        /// Command 1: [MS-SMB2] 2.2.5.
        SessionSetup = "SESSION_SETUP",
        /// Command 2: [MS-SMB2] 2.2.7.
        Logoff = "LOGOFF",
        /// Command 3: [MS-SMB2] 2.2.9.
        TreeConnect = "TREE_CONNECT",
        /// Command 4: [MS-SMB2] 2.2.11.
        TreeDisconnect = "TREE_DISCONNECT",
        /// Command 5: [MS-SMB2] 2.2.13.
        Create = "CREATE",
        /// Command 6: [MS-SMB2] 2.2.15.
        Close = "CLOSE",
        /// Command 7: [MS-SMB2] 2.2.17.
        Flush = "FLUSH",
        /// Command 8: [MS-SMB2] 2.2.19.
        Read = "READ",
        /// Command 9: [MS-SMB2] 2.2.21.
        Write = "WRITE",
        /// Command 10: [MS-SMB2] 2.2.26.
        Lock = "LOCK",
        /// Command 11: [MS-SMB2] 2.2.31.
        Ioctl = "IOCTL",
        /// Command 12: [MS-SMB2] 2.2.30.
        Cancel = "CANCEL",
        /// Command 13: [MS-SMB2] 2.2.28.
        Echo = "ECHO",
        /// Command 14: [MS-SMB2] 2.2.33.
        QueryDirectory = "QUERY_DIRECTORY",
        /// Command 15: [MS-SMB2] 2.2.35.
        ChangeNotify = "CHANGE_NOTIFY",
        /// Command 16: [MS-SMB2] 2.2.37.
        QueryInfo = "QUERY_INFO",
        /// Command 17: [MS-SMB2] 2.2.39.
        SetInfo = "SET_INFO",
        /// Command 18: [MS-SMB2] 2.2.23, 2.2.24.
        OplockBreak = "OPLOCK_BREAK",
        /// Any number without a command.
        Unknown = "unknown",
    }
}

kinds! {
    /// Operations of the file system, as coarsely as administrators need them.
    StoreOperation {
        /// Opening or creating a file by name.
        Open = "open",
        /// Closing an open of a file.
        Close = "close",
        /// Closing an open and deleting the name.
        Remove = "remove",
        /// Reading data of a file.
        Read = "read",
        /// Writing data of a file.
        Write = "write",
        /// Putting data on stable storage.
        Flush = "flush",
        /// Copying and sharing data between files.
        Copy = "copy",
        /// Reading attributes, times and sizes.
        QueryMetadata = "query metadata",
        /// Changing attributes, times and sizes.
        SetMetadata = "set metadata",
        /// Renaming files and creating hard links.
        Rename = "rename",
        /// Listing entries of a directory.
        ReadDirectory = "read directory",
        /// Reading a file's security descriptor.
        ReadSecurity = "read security",
        /// Changing a file's security descriptor.
        WriteSecurity = "write security",
        /// Reading or changing streams and extended attributes.
        Attributes = "extended attributes",
        /// Reading size and free space of the file system.
        QueryVolume = "query volume",
        /// Any operation not listed above.
        Other = "other",
    }
}

kinds! {
    /// Outcome of a logon, for its counter.
    LogonOutcome {
        /// A user has proved the password.
        User = "user",
        /// The client is a guest.
        Guest = "guest",
        /// The client logged on as anonymous.
        Anonymous = "anonymous",
        /// The password of a known user was wrong.
        WrongPassword = "wrong password",
        /// The Kerberos ticket was not valid.
        WrongTicket = "wrong ticket",
        /// The user has no account.
        NoSuchUser = "no such user",
        /// The logon was refused after too many failures.
        TooManyFailures = "too many failures",
        /// The client named another server as its target.
        AnotherServer = "another server",
        /// The logon was refused for another reason.
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
