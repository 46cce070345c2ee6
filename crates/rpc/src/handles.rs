//! Context handles: C706 chapter 6.1.6 and appendix N.

use dtyp::NtStatus;

use crate::pdu::Fault;

/// Bytes of a handle: [MS-RPCE] 2.2.1.1.
pub(crate) const HANDLE_LEN: usize = 20;

/// Highest number of open handles of one pipe; clients use one or two.
const HANDLES_MAX: usize = 64;

/// Context handles of one pipe, which end with it.
#[derive(Debug, Default)]
pub(crate) struct Handles {
    /// Number of handles opened so far: a handle is never used twice.
    given: u64,
    open: Vec<Handle>,
}

/// An open handle of a client.
#[derive(Clone, Debug)]
struct Handle {
    number: u64,
    object: HandleObject,
    granted_access: u32,
}

/// Object that a handle stands for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum HandleObject {
    /// A local group of samr, in a domain.
    Alias(SamDomain, u32),
    /// A domain of samr.
    Domain(SamDomain),
    /// A group of samr's account domain.
    Group(u32),
    /// The policy of lsarpc.
    Policy,
    /// The server of samr.
    Server,
    /// Name of a share that NetrShareDelCommit removes: [MS-SRVS] 3.1.4.15.
    Share(String),
    /// A user of samr's account domain.
    User(u32),
}

/// A domain of samr: [MS-SAMR] 3.1.4.2.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum SamDomain {
    /// Accounts of this server.
    Account,
    /// Groups that are the same on every server.
    Builtin,
}

impl Handles {
    /// Opens a new handle for an object, with these rights.
    ///
    /// # Errors
    /// INSUFFICIENT_RESOURCES if the pipe has [`HANDLES_MAX`] open handles.
    pub(crate) fn open(
        &mut self,
        object: HandleObject,
        granted_access: u32,
    ) -> Result<[u8; 20], NtStatus> {
        if self.open.len() >= HANDLES_MAX {
            return Err(NtStatus::INSUFFICIENT_RESOURCES);
        }
        self.given += 1;
        self.open.push(Handle { number: self.given, object, granted_access });
        let mut handle = [0; 20];
        handle[12..].copy_from_slice(&self.given.to_le_bytes());
        Ok(handle)
    }

    /// Refuses a handle that this pipe has not open.
    pub(crate) fn verify(&self, handle: [u8; 20]) -> Result<(), Fault> {
        self.position(handle).map(drop)
    }

    /// Returns the object of a handle, and its rights.
    pub(crate) fn object(&self, handle: [u8; 20]) -> Result<(HandleObject, u32), Fault> {
        self.position(handle).map(|at| (self.open[at].object.clone(), self.open[at].granted_access))
    }

    /// Closes a handle of this pipe.
    pub(crate) fn close(&mut self, handle: [u8; 20]) -> Result<(), Fault> {
        let at = self.position(handle)?;
        self.open.swap_remove(at);
        Ok(())
    }

    fn position(&self, handle: [u8; 20]) -> Result<usize, Fault> {
        let (zeros, number) = handle.split_last_chunk::<8>().expect("20 bytes");
        let number = u64::from_le_bytes(*number);
        let found = self.open.iter().position(|open| open.number == number);
        found.filter(|_| zeros.iter().all(|byte| *byte == 0)).ok_or(Fault::ContextMismatch)
    }
}
