//! Names of streams, and of the extended attributes that hold them.

use dtyp::upcase;

/// Prefix of the extended attributes that hold streams.
pub(crate) const PREFIX: &str = "user.DosStream.";

/// The type of every stream that there is.
const SUFFIX: &str = ":$DATA";

/// Streams of Apple's clients: the Finder's information, and the resource fork.
pub(crate) const AFP_INFO: &str = "AFP_AfpInfo";
pub(crate) const AFP_RESOURCE: &str = "AFP_Resource";

/// Character that Apple's clients send in place of a colon, which would end a stream's name.
const COLON: &str = "\u{F022}";

/// A stream, by the name that it has on disk.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct StreamName {
    /// The name without colons and type.
    pub(crate) name: String,
    /// Name of the extended attribute of the stream.
    pub(crate) attribute: String,
}

/// Names of the streams that a listing for Apple's clients reads.
#[derive(Debug)]
pub(crate) struct AppleNames {
    pub(crate) info: StreamName,
    pub(crate) resource: StreamName,
}

impl AppleNames {
    pub(crate) fn new() -> Self {
        Self { info: StreamName::new(AFP_INFO), resource: StreamName::new(AFP_RESOURCE) }
    }
}

impl StreamName {
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), attribute: format!("{PREFIX}{name}{SUFFIX}") }
    }

    pub(crate) fn from_attribute(attribute: &str) -> Option<Self> {
        let stored = attribute.strip_prefix(PREFIX)?;
        let name = stored.strip_suffix(SUFFIX).unwrap_or(stored);
        (!name.is_empty())
            .then(|| Self { name: Self::shown(name), attribute: attribute.to_owned() })
    }

    /// The stream that a file of a depot holds, if it has the form of one.
    pub(crate) fn from_file(file: &str) -> Option<Self> {
        let stored = file.strip_prefix(':').filter(|stored| !stored.starts_with(':'))?;
        Self::from_attribute(&format!("{PREFIX}{stored}"))
    }

    /// Name of the stream's file in a depot.
    pub(crate) fn file(&self) -> String {
        format!(":{}", self.attribute.strip_prefix(PREFIX).unwrap_or(&self.name))
    }

    /// Returns the name by which clients know a stream that other programs have named.
    pub(crate) fn shown(name: &str) -> String {
        name.replace(':', COLON)
    }

    /// True for the stream with the Finder's information.
    pub(crate) fn is_afp_info(&self) -> bool {
        upcase::equal_ignoring_case(&self.name, AFP_INFO)
    }

    /// True for the resource fork of an Apple client's file.
    pub(crate) fn is_resource_fork(&self) -> bool {
        upcase::equal_ignoring_case(&self.name, AFP_RESOURCE)
    }

    /// The same in every process, because processes meet in the tables by it; never 0, which is the
    /// unnamed stream. FNV-1a over the folded name.
    pub(crate) fn identity(&self) -> u64 {
        let folded = upcase::fold(&self.name);
        let hash = folded.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        hash.max(1)
    }
}
