//! Data in pipes. Tests put no more in than a pipe has room for.

use std::fs::File;
use std::io::{Read, Write};
use std::sync::Arc;

use object::{Pipe, Piped};

/// Such data in a pipe.
///
/// # Panics
/// There are no descriptors.
#[must_use]
pub fn fill(data: &[u8]) -> Piped {
    let (output, mut input) = std::io::pipe().expect("there are descriptors");
    input.write_all(data).expect("it is open");
    let (output, input, counted) = (output.into(), input.into(), Arc::default());
    Piped::new(Pipe { output, input, pages_max: 16, counted }, data.len())
}

/// What is in a pipe.
///
/// # Panics
/// It is less than it is said to be.
#[must_use]
pub fn drain(piped: &Piped) -> Vec<u8> {
    let mut bytes = vec![0; piped.length()];
    let output = piped.pipe().output.try_clone().expect("there are descriptors");
    File::from(output).read_exact(&mut bytes).expect("as many are in it as it says");
    bytes
}
