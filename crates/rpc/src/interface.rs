//! Interfaces, and the pipes that provide them.
//!
//! An interface is one file with a static [`Interface`], and one line in the list below.

mod enumeration;
mod lsarpc;
mod samr;
mod srvsvc;
mod unsupported;
mod wkssvc;

use crate::handles::Handles;
use crate::ndr::Reader;
use crate::pdu::{Fault, SyntaxId};
use crate::win32::Win32Error;
use crate::{Caller, Catalogue};

/// An interface behind a pipe, with its operations.
#[derive(Debug)]
pub(crate) struct Interface {
    /// Name of the pipe, in lower case.
    pub(crate) name: &'static str,
    pub(crate) syntax: SyntaxId,
    /// Operations by opnum, in ascending order.
    pub(crate) operations: &'static [(u16, Operation)],
    /// Opnums of operations that may need answers of others. They run twice, without an effect of
    /// their own: first to collect the questions.
    pub(crate) asking: &'static [u16],
}

/// Inputs of an operation besides its parameters.
pub(crate) struct Environment<'a> {
    pub(crate) catalogue: &'a dyn Catalogue,
    pub(crate) caller: &'a Caller,
    pub(crate) handles: &'a mut Handles,
}

impl Environment<'_> {
    /// Returns an error of the request to administrators, and a refusal to all others.
    pub(crate) fn for_administrators(&self, error: Win32Error) -> Win32Error {
        if self.catalogue.is_administrator(self.caller) { error } else { Win32Error::ACCESS_DENIED }
    }
}

/// An operation: decodes its parameters, and returns the results as a stub.
pub(crate) type Operation = fn(&mut Reader<'_>, &mut Environment<'_>) -> Result<Vec<u8>, Fault>;

impl Interface {
    pub(crate) fn call(
        &self,
        opnum: u16,
        stub: &[u8],
        environment: &mut Environment<'_>,
    ) -> Result<Vec<u8>, Fault> {
        let operation = self.operations.iter().find(|(number, _)| *number == opnum);
        let (_, operation) = operation.ok_or(Fault::OperationRange)?;
        environment.catalogue.begin_call(environment.caller);
        let result = operation(&mut Reader::new(stub), environment);
        environment.catalogue.end_call();
        result
    }
}

macro_rules! interfaces {
    ($($(#[doc = $doc:literal])* $pipe:ident => $module:ident,)*) => {
        /// Pipes that can be opened.
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        pub enum PipeName {
            $($(#[doc = $doc])* $pipe,)*
        }

        impl PipeName {
            /// All pipes, in alphabetical order.
            pub const ALL: &[Self] = &[$(Self::$pipe,)*];

            pub(crate) fn interface(self) -> &'static Interface {
                match self {
                    $(Self::$pipe => &$module::INTERFACE,)*
                }
            }
        }
    };
}

interfaces! {
    /// The local security authority: [MS-LSAT], [MS-LSAD].
    Lsarpc => lsarpc,
    /// The security account manager: [MS-SAMR].
    Samr => samr,
    /// The server service: [MS-SRVS].
    Srvsvc => srvsvc,
    /// The workstation service: [MS-WKST].
    Wkssvc => wkssvc,
}

impl PipeName {
    /// Returns the pipe named `name`, in any case of letters, without a path: `srvsvc`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|pipe| pipe.as_str().eq_ignore_ascii_case(name))
    }

    /// Name of the pipe, in lower case.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.interface().name
    }
}
