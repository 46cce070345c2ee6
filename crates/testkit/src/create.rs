//! CREATE, with defaults for most tests.

use dtyp::{AccessMask, FileAttributes, utf16};
use wire::OplockLevel;
use wire::create::{
    CreateDisposition, CreateOptions, CreateRequest, ImpersonationLevel, ShareAccess,
};
use wire::create_context::{CreateContextData, CreateContextList, CreateContextName};
use wire::{Encode, FileId};

/// A CREATE request under construction.
#[derive(Clone, Debug)]
pub struct Create {
    name: Vec<u8>,
    /// DesiredAccess of the request, as rights.
    pub desired_access: AccessMask,
    /// Attributes of a new file.
    pub file_attributes: FileAttributes,
    /// ShareAccess: access allowed to other opens.
    pub share_access: ShareAccess,
    /// CreateDisposition, for existing and for missing files.
    pub create_disposition: CreateDisposition,
    /// CreateOptions of the request, as flags.
    pub create_options: CreateOptions,
    /// ImpersonationLevel of the request, `Impersonation` by default.
    pub impersonation_level: ImpersonationLevel,
    contexts: CreateContextList,
    oplock_level: OplockLevel,
}

/// Result of a successful CREATE.
#[derive(Clone, Copy, Debug)]
pub struct Created {
    /// FileId of the new open.
    pub file_id: FileId,
    /// CreateAction that the server took.
    pub action: wire::create::CreateAction,
    /// EndofFile in bytes, as of the open.
    pub end_of_file: u64,
    /// FileAttributes, as of the open.
    pub attributes: FileAttributes,
}

impl Create {
    /// Opens an existing file for reading, writing and deleting, with all access shared.
    #[must_use]
    pub fn open(name: &str) -> Self {
        Self::with_disposition(name, CreateDisposition::OPEN)
    }

    /// Opens or creates a file.
    #[must_use]
    pub fn open_if(name: &str) -> Self {
        Self::with_disposition(name, CreateDisposition::OPEN_IF)
    }

    /// Creates a file that must not exist yet.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self::with_disposition(name, CreateDisposition::CREATE)
    }

    /// Opens or creates a directory.
    #[must_use]
    pub fn directory(name: &str) -> Self {
        Self::open_if(name).options(CreateOptions::DIRECTORY_FILE)
    }

    /// Creates a request with any disposition.
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

    /// Sets DesiredAccess to other rights.
    #[must_use]
    pub fn access(self, desired_access: AccessMask) -> Self {
        Self { desired_access, ..self }
    }

    /// Sets FileAttributes to other attributes.
    #[must_use]
    pub fn attributes(self, file_attributes: FileAttributes) -> Self {
        Self { file_attributes, ..self }
    }

    /// Sets ShareAccess to other flags.
    #[must_use]
    pub fn share(self, share_access: ShareAccess) -> Self {
        Self { share_access, ..self }
    }

    /// Sets CreateOptions to other flags.
    #[must_use]
    pub fn options(self, create_options: CreateOptions) -> Self {
        Self { create_options, ..self }
    }

    /// Deletes the file with the close of its last open.
    #[must_use]
    pub fn delete_on_close(mut self) -> Self {
        self.create_options |= CreateOptions::DELETE_ON_CLOSE;
        self
    }

    /// Requests an oplock, or with a context for it a lease.
    #[must_use]
    pub fn oplock(mut self, level: OplockLevel) -> Self {
        self.oplock_level = level;
        self
    }

    /// Adds a further create context.
    #[must_use]
    pub fn context<'a, T: CreateContextData<'a>>(mut self, context: &T) -> Self {
        self.contexts.push(context);
        self
    }

    /// Adds a further create context with any data.
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
