//! Symbolic Link Error Response: [MS-SMB2] 2.2.2.2.1.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::DecodeError;
use crate::message;

bitflags::bitflags! {
    /// Flags of the link: [MS-SMB2] 2.2.2.2.1.
    #[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
    pub struct SymbolicLinkFlags: u32 {
        /// The target is relative to the link's directory.
        const RELATIVE = 0x0000_0001;

        const _ = !0;
    }
}

/// Target of a link in the path, sent with STATUS_STOPPED_ON_SYMLINK.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct SymbolicLinkError<'a> {
    /// Length in bytes of the end of the path, behind the link, in UTF-16LE.
    pub unparsed_path_length: u16,
    /// Whether the target is relative.
    pub flags: SymbolicLinkFlags,
    /// The target, in UTF-16LE.
    pub substitute_name: &'a [u8],
    /// The target in a form for display, in UTF-16LE.
    pub print_name: &'a [u8],
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct Layout {
    sym_link_length: U32,
    sym_link_error_tag: U32,
    reparse_tag: U32,
    reparse_data_length: U16,
    unparsed_path_length: U16,
    substitute_name_offset: U16,
    substitute_name_length: U16,
    print_name_offset: U16,
    print_name_length: U16,
    flags: U32,
}

/// `SYML`.
const SYM_LINK_ERROR_TAG: u32 = 0x4C4D_5953;

/// IO_REPARSE_TAG_SYMLINK, the only kind of link in this error.
const REPARSE_TAG: u32 = 0xA000_000C;

/// Bytes of ReparseDataLength apart from the names: from SubstituteNameOffset to Flags.
const REPARSE_FIXED: u16 = 12;

impl<'a> SymbolicLinkError<'a> {
    /// Decodes ErrorData, or the data of an error context.
    ///
    /// # Errors
    ///
    /// If the data is no symbolic link, or a name leaves it.
    pub fn decode(data: &'a [u8]) -> Result<Self, DecodeError> {
        let (layout, path_buffer) = message::prefix::<Layout>(data)?;
        for (field, got, want) in [
            ("SymLinkErrorTag", layout.sym_link_error_tag.get(), SYM_LINK_ERROR_TAG),
            ("ReparseTag", layout.reparse_tag.get(), REPARSE_TAG),
        ] {
            if got != want {
                return Err(DecodeError::BadValue { field, value: got.into() });
            }
        }
        let name = |offset: U16, length: U16| {
            message::slice(path_buffer, offset.get().into(), length.get().into())
        };
        Ok(Self {
            unparsed_path_length: layout.unparsed_path_length.get(),
            flags: SymbolicLinkFlags::from_bits_retain(layout.flags.get()),
            substitute_name: name(layout.substitute_name_offset, layout.substitute_name_length)?,
            print_name: name(layout.print_name_offset, layout.print_name_length)?,
        })
    }

    /// Appends the structure.
    ///
    /// # Panics
    ///
    /// If the names together are longer than 65,000 bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let substitute_name_length = message::len16(self.substitute_name);
        let print_name_length = message::len16(self.print_name);
        let reparse_data_length = substitute_name_length
            .checked_add(print_name_length)
            .and_then(|names| names.checked_add(REPARSE_FIXED))
            .expect("paths are shorter than 32 KiB");
        let behind_length = size_of::<Layout>() - size_of::<U32>() - usize::from(REPARSE_FIXED);
        let behind_length = u32::try_from(behind_length).expect("a dozen bytes");
        let layout = Layout {
            sym_link_length: (behind_length + u32::from(reparse_data_length)).into(),
            sym_link_error_tag: SYM_LINK_ERROR_TAG.into(),
            reparse_tag: REPARSE_TAG.into(),
            reparse_data_length: reparse_data_length.into(),
            unparsed_path_length: self.unparsed_path_length.into(),
            substitute_name_offset: U16::ZERO,
            substitute_name_length: substitute_name_length.into(),
            print_name_offset: substitute_name_length.into(),
            print_name_length: print_name_length.into(),
            flags: self.flags.bits().into(),
        };
        message::put(out, &layout);
        out.extend_from_slice(self.substitute_name);
        out.extend_from_slice(self.print_name);
    }
}
