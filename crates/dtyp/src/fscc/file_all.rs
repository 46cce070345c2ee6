//! FileAllInformation: [MS-FSCC] 2.4.2.

use super::{
    FileAccessInformation, FileAlignmentInformation, FileBasicInformation, FileEaInformation,
    FileInternalInformation, FileModeInformation, FileNameInformation, FilePositionInformation,
    FileStandardInformation,
};

/// Nine classes of one file, one after the other.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct FileAllInformation {
    /// BasicInformation.
    pub basic: FileBasicInformation,
    /// StandardInformation.
    pub standard: FileStandardInformation,
    /// InternalInformation.
    pub internal: FileInternalInformation,
    /// EaInformation.
    pub ea: FileEaInformation,
    /// AccessInformation.
    pub access: FileAccessInformation,
    /// PositionInformation.
    pub position: FilePositionInformation,
    /// ModeInformation.
    pub mode: FileModeInformation,
    /// AlignmentInformation.
    pub alignment: FileAlignmentInformation,
    /// NameInformation.
    pub name: FileNameInformation,
}

impl FileAllInformation {
    /// Appends the packet form to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.basic.encode(out);
        self.standard.encode(out);
        self.internal.encode(out);
        self.ea.encode(out);
        self.access.encode(out);
        self.position.encode(out);
        self.mode.encode(out);
        self.alignment.encode(out);
        self.name.encode(out);
    }

    /// Reads the packet form; `None` if it is incomplete or the name is not UTF-16.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            basic: FileBasicInformation::decode(bytes)?,
            standard: FileStandardInformation::decode(bytes.get(40..)?)?,
            internal: FileInternalInformation::decode(bytes.get(64..)?)?,
            ea: FileEaInformation::decode(bytes.get(72..)?)?,
            access: FileAccessInformation::decode(bytes.get(76..)?)?,
            position: FilePositionInformation::decode(bytes.get(80..)?)?,
            mode: FileModeInformation::decode(bytes.get(88..)?)?,
            alignment: FileAlignmentInformation::decode(bytes.get(92..)?)?,
            name: FileNameInformation::decode(bytes.get(96..)?)?,
        })
    }
}
