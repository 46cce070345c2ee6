//! Files whose every byte tells where it belongs, and the comparison of files and trees.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};

/// Bytes that are generated or compared at a time.
const BLOCK: usize = 1 << 20;

/// Pseudorandom bytes in groups of eight. A seed gives the same bytes each time, and no two blocks
/// are alike: a lost, repeated or moved block is found.
fn words(seed: u64) -> impl Iterator<Item = [u8; 8]> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    std::iter::repeat_with(move || {
        // xorshift64: fast, and its period is longer than any file.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    })
}

/// So many of these bytes.
pub fn bytes(seed: u64, length: usize) -> Vec<u8> {
    words(seed).flatten().take(length).collect()
}

/// Writes a file of them of this length.
pub fn write_file(path: &Path, length: u64, seed: u64) {
    let mut file = BufWriter::with_capacity(BLOCK, File::create(path).expect("there is space"));
    let mut left = length;
    for word in words(seed) {
        let take = left.min(8);
        file.write_all(&word[..usize::try_from(take).expect("it is at most 8")])
            .expect("there is space");
        left -= take;
        if left == 0 {
            break;
        }
    }
    file.flush().expect("there is space");
}

/// Both files have the same bytes.
#[track_caller]
pub fn assert_same_file(one: &Path, other: &Path) {
    let (mut left, mut right) = (open(one), open(other));
    let (mut left_block, mut right_block) = (vec![0; BLOCK], vec![0; BLOCK]);
    let mut offset = 0;
    loop {
        let left_count = read_block(&mut left, &mut left_block);
        let right_count = read_block(&mut right, &mut right_block);
        let same = left_block[..left_count] == right_block[..right_count];
        assert!(
            same,
            "{} and {} differ in the {BLOCK} bytes from {offset} on \
             ({left_count} and {right_count})",
            one.display(),
            other.display()
        );
        if left_count == 0 {
            return;
        }
        offset += left_count;
    }
}

/// Both trees have the same files with the same bytes, and the same folders.
#[track_caller]
pub fn assert_same_tree(one: &Path, other: &Path) {
    let (left, right) = (list_tree(one), list_tree(other));
    let missing: Vec<&PathBuf> = left.keys().filter(|path| !right.contains_key(*path)).collect();
    let added: Vec<&PathBuf> = right.keys().filter(|path| !left.contains_key(*path)).collect();
    assert!(missing.is_empty() && added.is_empty(), "missing: {missing:?}, added: {added:?}");
    for (path, is_folder) in &left {
        assert_eq!(right.get(path), Some(is_folder), "{}", path.display());
        if !is_folder {
            assert_same_file(&one.join(path), &other.join(path));
        }
    }
}

/// Entries below a directory, and whether each is a directory.
fn list_tree(root: &Path) -> BTreeMap<PathBuf, bool> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("it can be listed") {
            let entry = entry.expect("it can be listed");
            let is_folder = entry.file_type().expect("it exists").is_dir();
            let path = entry.path();
            found.insert(path.strip_prefix(root).expect("it is below").to_owned(), is_folder);
            if is_folder {
                folders.push(path);
            }
        }
    }
    found
}

#[track_caller]
fn open(path: &Path) -> File {
    File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Reads until the block is full or the file ends.
fn read_block(file: &mut File, block: &mut [u8]) -> usize {
    let mut filled = 0;
    while filled < block.len() {
        match file.read(&mut block[filled..]).expect("it can be read") {
            0 => break,
            count => filled += count,
        }
    }
    filled
}
