//! Context handles: C706 chapter 6.1.6 and appendix N.

use dtyp::NtStatus;

use crate::pdu::Fault;

/// Handles that one pipe may hold; clients use one or two.
const HANDLES_MAX: usize = 64;

/// The handles that the operations of one pipe gave out. They end with the pipe.
#[derive(Debug, Default)]
pub(crate) struct Handles {
    /// How many were ever given: a handle is never given twice.
    given: u64,
    open: Vec<u64>,
}

impl Handles {
    /// A new handle.
    ///
    /// # Errors
    /// INSUFFICIENT_RESOURCES if the pipe holds [`HANDLES_MAX`] already.
    pub(crate) fn open(&mut self) -> Result<[u8; 20], NtStatus> {
        if self.open.len() >= HANDLES_MAX {
            return Err(NtStatus::INSUFFICIENT_RESOURCES);
        }
        self.given += 1;
        self.open.push(self.given);
        let mut handle = [0; 20];
        handle[12..].copy_from_slice(&self.given.to_le_bytes());
        Ok(handle)
    }

    /// Refuses what is no handle of this pipe.
    pub(crate) fn verify(&self, handle: [u8; 20]) -> Result<(), Fault> {
        self.position(handle).map(drop)
    }

    /// Ends a handle.
    pub(crate) fn close(&mut self, handle: [u8; 20]) -> Result<(), Fault> {
        let at = self.position(handle)?;
        self.open.swap_remove(at);
        Ok(())
    }

    fn position(&self, handle: [u8; 20]) -> Result<usize, Fault> {
        let (zeros, number) = handle.split_last_chunk::<8>().expect("20 bytes");
        let number = u64::from_le_bytes(*number);
        let found = self.open.iter().position(|open| *open == number);
        found.filter(|_| zeros.iter().all(|byte| *byte == 0)).ok_or(Fault::ContextMismatch)
    }
}
