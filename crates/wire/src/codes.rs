//! Numbers with names, and lists of them.
//!
//! A code is a newtype and not an enum, so that unknown values survive: `proto` decides on their
//! meaning.

use std::fmt;

use zerocopy::FromBytes;
use zerocopy::little_endian::U16;

/// Declares a code: the newtype, its named values, its `Debug` by name, and both conversions.
macro_rules! codes {
    ($(#[$meta:meta])* $type:ident($repr:ty) {
        $($(#[doc = $doc:literal])* $name:ident = $value:literal,)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
        pub struct $type(pub $repr);

        impl $type {
            $(
                #[doc = concat!("`", stringify!($name), "`.")]
                $(#[doc = $doc])*
                pub const $name: Self = Self($value);
            )*
        }

        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match *self {
                    $(Self::$name => f.write_str(stringify!($name)),)*
                    Self(other) => write!(f, "{}({other:#x})", stringify!($type)),
                }
            }
        }

        impl From<$repr> for $type {
            fn from(value: $repr) -> Self {
                Self(value)
            }
        }

        impl From<$type> for $repr {
            fn from(code: $type) -> Self {
                code.0
            }
        }
    };
}
pub(crate) use codes;

/// A list of 16-bit codes: a view of received bytes, or of values to send.
#[derive(Clone, Copy)]
pub struct Codes<'a, T>(Source<'a, T>);

#[derive(Clone, Copy)]
enum Source<'a, T> {
    Received(&'a [U16]),
    Values(&'a [T]),
}

impl<'a, T: Copy + From<u16> + Into<u16>> Codes<'a, T> {
    /// A list of `values`, to be sent.
    #[must_use]
    pub const fn new(values: &'a [T]) -> Self {
        Self(Source::Values(values))
    }

    /// A view of these little-endian bytes; an odd last byte is left out.
    #[must_use]
    pub fn from_bytes(bytes: &'a [u8]) -> Self {
        let even = &bytes[..bytes.len() & !1];
        let list = <[U16]>::ref_from_bytes(even).expect("an even number of unaligned bytes");
        Self(Source::Received(list))
    }

    /// Number of codes.
    #[must_use]
    pub const fn len(&self) -> usize {
        match self.0 {
            Source::Received(list) => list.len(),
            Source::Values(list) => list.len(),
        }
    }

    /// True if the list is empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The codes in the order of the sender.
    pub fn iter(&self) -> impl Iterator<Item = T> + use<'a, T> {
        let Self(source) = *self;
        (0..self.len()).map(move |index| match source {
            Source::Received(list) => T::from(list[index].get()),
            Source::Values(list) => list[index],
        })
    }

    /// Appends the codes, two bytes each.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.iter().for_each(|code| out.extend_from_slice(&code.into().to_le_bytes()));
    }
}

impl<T: Copy + Eq + From<u16> + Into<u16>> Codes<'_, T> {
    /// Whether the list has `code`.
    #[must_use]
    pub fn contains(&self, code: T) -> bool {
        self.iter().any(|each| each == code)
    }
}

impl<T: Copy + From<u16> + Into<u16>> Default for Codes<'_, T> {
    fn default() -> Self {
        Self::new(&[])
    }
}

impl<T: Copy + Eq + From<u16> + Into<u16>> PartialEq for Codes<'_, T> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<T: Copy + Eq + From<u16> + Into<u16>> Eq for Codes<'_, T> {}

impl<T: Copy + fmt::Debug + From<u16> + Into<u16>> fmt::Debug for Codes<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
