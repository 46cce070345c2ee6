//! Filling the free pieces of the heap. It needs the first thread of a process, so it has a `main`.

use std::hint::black_box;

/// Lengths of allocations in bytes. glibc keeps small, medium and large ones apart.
const SIZES: [usize; 3] = [40, 400, 4_000];

fn main() {
    filled_pieces_are_not_used_again();
}

fn filled_pieces_are_not_used_again() {
    let allocate = |size: usize| black_box(vec![1_u8; size].into_boxed_slice());
    let (kept, freed): (Vec<_>, Vec<_>) =
        SIZES.iter().cycle().take(90).map(|size| (allocate(*size), allocate(*size))).unzip();
    let last = kept.iter().map(|it| it.as_ptr().addr()).max().expect("there are some");
    drop(freed);
    let again = allocate(SIZES[1]);
    assert!(again.as_ptr().addr() < last, "the allocator uses pieces again");
    drop(again);
    process::fill_holes();
    first_pieces_of_different_sizes_lie_together();
    for size in SIZES.into_iter().flat_map(|size| [size; 50]) {
        let new = allocate(size);
        assert!(new.as_ptr().addr() > last, "{size}");
        std::mem::forget(new);
    }
}

/// No page is touched for each size: a fork would have as many pages of its own.
fn first_pieces_of_different_sizes_lie_together() {
    let pieces = [40, 400, 1_000].map(|size| black_box(vec![1_u8; size].into_boxed_slice()));
    let addresses = pieces.each_ref().map(|it| it.as_ptr().addr());
    let distance = addresses.iter().max().expect("three") - addresses.iter().min().expect("three");
    assert!(distance < 4_096, "{addresses:x?}");
    std::mem::forget(pieces);
}
