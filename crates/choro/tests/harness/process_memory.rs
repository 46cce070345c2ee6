//! Search for secrets in the memory of processes.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use auth::NtHash;

/// Bytes of memory that are searched at once.
const PART_LEN: usize = 1 << 20;

/// Forms of a password hash: bytes, and hexadecimal digits as in the file.
pub fn forms_of_hash(password: &str) -> Vec<Vec<u8>> {
    let hash = NtHash::of_password(password);
    let digits = hash.as_bytes().map(|byte| format!("{byte:02x}")).concat();
    vec![hash.as_bytes().to_vec(), digits.clone().into_bytes(), digits.to_uppercase().into_bytes()]
}

/// Returns whether the memory of a process holds one of these texts.
pub fn memory_holds(pid: u32, texts: &[Vec<u8>]) -> bool {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("it runs");
    let memory = File::open(format!("/proc/{pid}/mem")).expect("it is ours");
    let longest = texts.iter().map(Vec::len).max().unwrap_or_default();
    let mut part = vec![0; PART_LEN + longest];
    for line in maps.lines().filter(|line| line.contains(" rw")) {
        let (range, _) = line.split_once(' ').expect("a range");
        let (from, to) = range.split_once('-').expect("a range");
        let [from, to] = [from, to].map(|it| u64::from_str_radix(it, 16).expect("a number"));
        for at in (from..to).step_by(PART_LEN) {
            let length = part.len().min(usize::try_from(to - at).expect("it fits"));
            // Devices and pages that are gone cannot be read.
            let Ok(count) = memory.read_at(&mut part[..length], at) else { continue };
            if texts.iter().any(|text| part[..count].windows(text.len()).any(|it| it == text)) {
                return true;
            }
        }
    }
    false
}
