//! CREATE, with everything at what most tests want.

use dtyp::{AccessMask, FileAttributes, utf16};
use wire::OplockLevel;
use wire::create::{
    CreateDisposition, CreateOptions, CreateRequest, ImpersonationLevel, ShareAccess,
};
use wire::create_context::{CreateContextData, CreateContextList, CreateContextName};
use wire::{Encode, FileId};

/// A CREATE request.
#[derive(Clone, Debug)]
pub struct Create {
    name: Vec<u8>,
    /// Rights.
    pub desired_access: AccessMask,
    /// Attributes of a new file.
    pub file_attributes: FileAttributes,
    /// What others may do.
    pub share_access: ShareAccess,
    /// What to do with what is there, and with what is not.
    pub create_disposition: CreateDisposition,
    /// Options.
    pub create_options: CreateOptions,
    /// ImpersonationLevel.
    pub impersonation_level: ImpersonationLevel,
    contexts: CreateContextList,
    oplock_level: OplockLevel,
}

/// What a CREATE that went well led to.
#[derive(Clone, Copy, Debug)]
pub struct Created {
    /// The open.
    pub file_id: FileId,
    /// What was done.
    pub action: wire::create::CreateAction,
    /// Bytes in the file.
    pub end_of_file: u64,
    /// Its attributes.
    pub attributes: FileAttributes,
}

impl Create {
    /// Opens what is there, for reading, writing and deleting, and leaves everything to others.
    #[must_use]
    pub fn open(name: &str) -> Self {
        Self::with_disposition(name, CreateDisposition::OPEN)
    }

    /// Opens or creates a file.
    #[must_use]
    pub fn open_if(name: &str) -> Self {
        Self::with_disposition(name, CreateDisposition::OPEN_IF)
    }

    /// Creates a file that is not there yet.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self::with_disposition(name, CreateDisposition::CREATE)
    }

    /// Opens or creates a directory.
    #[must_use]
    pub fn directory(name: &str) -> Self {
        Self::open_if(name).options(CreateOptions::DIRECTORY_FILE)
    }

    /// Any disposition.
    #[must_use]
    pub fn with_disposition(name: &str, create_disposition: CreateDisposition) -> Self {
        Self {
            name: utf16::to_bytes(name),
            desired_access: AccessMask::FILE_ALL,
            file_attributes: FileAttributes::empty(),
            share_access: ShareAccess::READ | ShareAccess::WRITE | ShareAccess::DELETE,
            create_disposition,
            create_options: CreateOptions::empty(),
            impersonation_level: ImpersonationLevel::IMPERSONATION,
            contexts: CreateContextList::new(),
            oplock_level: OplockLevel::NONE,
        }
    }

    /// Other rights.
    #[must_use]
    pub fn access(self, desired_access: AccessMask) -> Self {
        Self { desired_access, ..self }
    }

    /// Other attributes.
    #[must_use]
    pub fn attributes(self, file_attributes: FileAttributes) -> Self {
        Self { file_attributes, ..self }
    }

    /// Leaves others other things.
    #[must_use]
    pub fn share(self, share_access: ShareAccess) -> Self {
        Self { share_access, ..self }
    }

    /// Other options.
    #[must_use]
    pub fn options(self, create_options: CreateOptions) -> Self {
        Self { create_options, ..self }
    }

    /// Goes away with its last open.
    #[must_use]
    pub fn delete_on_close(mut self) -> Self {
        self.create_options |= CreateOptions::DELETE_ON_CLOSE;
        self
    }

    /// An oplock, or with a context for it a lease.
    #[must_use]
    pub fn oplock(mut self, level: OplockLevel) -> Self {
        self.oplock_level = level;
        self
    }

    /// A further create context.
    #[must_use]
    pub fn context<'a, T: CreateContextData<'a>>(mut self, context: &T) -> Self {
        self.contexts.push(context);
        self
    }

    /// A further create context, whatever is in it.
    #[must_use]
    pub fn raw_context(mut self, name: CreateContextName<'_>, data: &[u8]) -> Self {
        self.contexts.push_raw(name, data);
        self
    }
}

impl Encode for Create {
    fn encode(&self, out: &mut Vec<u8>) {
        let request = CreateRequest {
            requested_oplock_level: self.oplock_level,
            impersonation_level: self.impersonation_level,
            desired_access: self.desired_access,
            file_attributes: self.file_attributes,
            share_access: self.share_access,
            create_disposition: self.create_disposition,
            create_options: self.create_options,
            name: &self.name,
            create_contexts: self.contexts.contexts(),
        };
        request.encode(out);
    }
}
