//! A world with shares of all kinds and, in some of the seeds, a limit of bandwidth.

use std::time::Duration;

use proto::share::AppleShare;
use qos::class::{InterimResponses, Limits, Match};
use qos::{Class, Meter};
use testkit::class_slot::membership_of_alice;
use testkit::entropy::Random;
use testkit::{ClassSlot, World};

/// Bytes that the limited share moves in a second.
const BANDWIDTH: u64 = 70_000;

/// Returns the world of a seed, without clients.
pub(crate) fn world(seed: u64, random: &mut Random) -> World {
    let delays = random.percent(30);
    let world = World::with_seed(seed, |settings| {
        settings.persistent_handles = true;
        settings.posix_extensions = true;
        settings.dfs = true;
        if delays {
            settings.interim_delay = Duration::from_millis(100);
        }
    });
    world.add_share("mac", |share| share.apple = Some(apple()));
    world.add_share("dfs", |share| share.is_dfs_root = true);
    world.add_file("dfs", "deep/file", b"here");
    world.add_link("dfs", "deep/link", "msdfs:one\\share,/two/share/sub");
    for share in ["data", "mac"] {
        world.add_file(share, "a", b"some data");
        world.add_directory(share, "dir");
        world.add_file(share, "dir/x", b"more");
    }
    let is_ca = random.percent(33);
    world.change_share("data", |share| share.is_ca = is_ca);
    if random.percent(50) {
        limit(&world, random);
    }
    if random.percent(50) {
        world.serve_at_once();
    }
    world
}

fn apple() -> AppleShare {
    AppleShare {
        model: "M".to_owned(),
        full_sync: true,
        hides_file_ids: true,
        posix_opens: true,
        copies_files: true,
        nfs_entries: true,
        ignores_empty_lists: true,
    }
}

/// Limits the bandwidth of the share `data`.
fn limit(world: &World, random: &mut Random) {
    let mut limits = Limits::default();
    limits.numbers[Meter::Bandwidth as usize] = Some(BANDWIDTH);
    let class = Class {
        name: "slow".to_owned(),
        matches: vec![Match::default()],
        limits,
        interim_responses: random.one_of(&[
            InterimResponses::Yes,
            InterimResponses::No,
            InterimResponses::Auto,
        ]),
    };
    world.set_slots(Box::new(ClassSlot::new(&limits)));
    let membership = membership_of_alice(&class, "data");
    world.change_share("data", |share| share.classes = membership);
}
