//! Opening a library of the system.

use libloading::Library;

/// A library that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{name} cannot be used: {error}; it is in Debian's package {package}")]
pub struct LibraryError {
    /// File name of the library.
    pub name: &'static str,
    // Package that has it.
    pub package: &'static str,
    /// Message of the dynamic linker.
    pub error: String,
}

/// Opens a library for the rest of the process's life: its functions are used without counting.
///
/// # Safety
/// The library's initialization must be sound in a process with threads.
pub(crate) unsafe fn open(
    name: &'static str,
    package: &'static str,
) -> Result<&'static Library, LibraryError> {
    // SAFETY: the caller's promise.
    match unsafe { Library::new(name) } {
        Ok(library) => Ok(Box::leak(Box::new(library))),
        Err(error) => Err(LibraryError { name, package, error: error.to_string() }),
    }
}

/// Defines the table of a library's functions, and how to fill it.
macro_rules! functions {
    (
        $(#[$doc:meta])*
        $table:ident of $file:literal in $package:literal {
            $($name:ident: fn($($argument:ty),* $(,)?) $(-> $result:ty)?;)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub(super) struct $table {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl $table {
            /// Opens the library and finds all functions.
            pub(super) fn open() -> Result<Self, crate::LibraryError> {
                // SAFETY: the libraries have no initialization but that of their own data.
                let library = unsafe { crate::library::open($file, $package)? };
                let missing = |error: libloading::Error| crate::LibraryError {
                    name: $file,
                    package: $package,
                    error: error.to_string(),
                };
                Ok(Self {
                    $(
                        // SAFETY: the type is that of the function in the library's header.
                        $name: *unsafe {
                            library.get(concat!(stringify!($name), "\0").as_bytes())
                        }
                        .map_err(missing)?,
                    )*
                })
            }
        }
    };
}

pub(crate) use functions;
