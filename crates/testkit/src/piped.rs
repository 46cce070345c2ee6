//! Data in pipes, never more than a pipe can hold.

use std::fs::File;
use std::io::{Read, Write};
use std::sync::Arc;

use object::{Pipe, Piped};

/// Writes data into a new pipe.
///
/// # Panics
/// No descriptor is left.
#[must_use]
pub fn fill(data: &[u8]) -> Piped {
    let (output, mut input) = std::io::pipe().expect("there are descriptors");
    input.write_all(data).expect("it is open");
    let (output, input, counted) = (output.into(), input.into(), Arc::default());
    Piped::new(Pipe { output, input, pages_max: 16, counted }, data.len())
}

/// Reads all data of a pipe.
///
/// # Panics
/// The pipe contains less than its length says.
#[must_use]
pub fn drain(piped: &Piped) -> Vec<u8> {
    let mut bytes = vec![0; piped.length()];
    let output = piped.pipe().output.try_clone().expect("there are descriptors");
    File::from(output).read_exact(&mut bytes).expect("as many are in it as it says");
    bytes
}
