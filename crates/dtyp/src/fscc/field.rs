//! Structures of fixed size, declared as lists of fields.

use crate::reader::Reader;
use crate::{AccessMask, FileAttributes, FileTime, Guid};

/// A field of fixed size, little-endian.
pub(crate) trait Field: Sized {
    const LEN: usize;
    fn put(&self, out: &mut Vec<u8>);
    fn take(reader: &mut Reader<'_>) -> Option<Self>;
}

macro_rules! integer_fields {
    ($($type:ty),*) => {$(
        impl Field for $type {
            const LEN: usize = size_of::<Self>();
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            fn take(reader: &mut Reader<'_>) -> Option<Self> {
                reader.array().map(Self::from_le_bytes)
            }
        }
    )*};
}

integer_fields!(u8, u16, u32, u64);

/// Fields that wrap an integer, with both conversions.
macro_rules! wrapped_fields {
    ($($type:ty = $integer:ty, $value:ident => $get:expr, $make:expr;)*) => {$(
        impl Field for $type {
            const LEN: usize = <$integer>::LEN;
            fn put(&self, out: &mut Vec<u8>) {
                let $value = self;
                <$integer>::put(&$get, out);
            }
            fn take(reader: &mut Reader<'_>) -> Option<Self> {
                <$integer>::take(reader).map($make)
            }
        }
    )*};
}

wrapped_fields! {
    AccessMask = u32, value => value.bits(), Self::from_bits_retain;
    FileAttributes = u32, value => value.bits(), Self::from_bits_retain;
    FileTime = u64, value => value.0, FileTime;
    // BOOLEAN: [MS-DTYP] 2.2.4. Any value but zero is true.
    bool = u8, value => u8::from(*value), |value| value != 0;
    Guid = [u8; 16], value => value.0, Guid;
}

impl<const N: usize> Field for [u8; N] {
    const LEN: usize = N;
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
    fn take(reader: &mut Reader<'_>) -> Option<Self> {
        reader.array()
    }
}

/// Bytes that are written as zero and ignored by readers.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Reserved<const BYTES: usize>;

impl<const BYTES: usize> Field for Reserved<BYTES> {
    const LEN: usize = BYTES;
    fn put(&self, out: &mut Vec<u8>) {
        out.resize(out.len() + BYTES, 0);
    }
    fn take(reader: &mut Reader<'_>) -> Option<Self> {
        reader.bytes(BYTES).map(|_| Self)
    }
}

/// Declares structures of fixed size with `LEN`, `encode` and `decode`.
macro_rules! fixed {
    ($($(#[doc = $doc:literal])* $name:ident[$len:literal] {
        $($(#[doc = $field_doc:literal])* $field:ident: $type:ty,)*
    })*) => {$(
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
        pub struct $name {
            $($(#[doc = $field_doc])* pub $field: $type,)*
        }

        impl $name {
            /// Length of the packet form in bytes.
            pub const LEN: usize = $len;

            /// Appends the packet form to `out`.
            pub fn encode(&self, out: &mut Vec<u8>) {
                use crate::fscc::field::Field;
                const { assert!(0 $(+ <$type>::LEN)* == $len, "the fields add up") };
                $(self.$field.put(out);)*
            }

            /// Reads the packet form from the front of `bytes`; `None` if it is incomplete.
            #[must_use]
            pub fn decode(bytes: &[u8]) -> Option<Self> {
                let reader = &mut crate::reader::Reader::new(bytes);
                Some(Self { $($field: crate::fscc::field::Field::take(reader)?,)* })
            }
        }
    )*};
}

pub(crate) use fixed;
