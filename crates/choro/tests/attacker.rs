//! The attacker's list: attempts of a worker that was taken over, in a client's session.
//!
//! The page `docs/design/attacks.md` has each with the layer that stops it, or with its consequence
//! where nothing does. `make mutations` takes layers away and sees these tests fail.

#[path = "attacker/attack.rs"]
mod attack;
#[path = "attacker/files.rs"]
mod files;
mod harness;
#[path = "attacker/kernel.rs"]
mod kernel;
#[path = "attacker/message.rs"]
mod message;
#[path = "attacker/network.rs"]
mod network;
#[path = "attacker/page.rs"]
mod page;
#[path = "attacker/processes.rs"]
mod processes;
#[path = "attacker/ring.rs"]
mod ring;
#[path = "attacker/scene.rs"]
mod scene;
#[path = "attacker/server.rs"]
mod server;
#[path = "attacker/taken_over.rs"]
mod taken_over;

use attack::Attack;
use harness::runs_as_root;
use harness::smbtorture::progress;
use scene::Scene;
use taken_over::Failure;

/// All attacks, by their targets. Those that end the worker or its client come last.
const ATTACKS: &[&[Attack]] = &[
    files::ATTACKS,
    processes::ATTACKS,
    kernel::ATTACKS,
    network::ATTACKS,
    server::ATTACKS,
    network::LAST,
    server::LAST,
];

#[test]
fn each_attack_by_a_worker_that_was_taken_over_fails_or_is_known() {
    if !runs_as_root() {
        return progress("a server without root has nothing that a worker could take");
    }
    if let Some(why) = confinement::unavailable() {
        return progress(&why);
    }
    let server = scene::start();
    let Some(mut scene) = Scene::new(&server) else {
        return progress("tracing a process of the server is forbidden here");
    };
    let mut complaints = Vec::new();
    for attack in ATTACKS.iter().copied().flatten() {
        let answer = (attack.attempt)(&mut scene);
        if let Err(Failure::Absent(it)) = answer {
            progress(&format!("{}: not tried without {it}", attack.name));
        }
        complaints.extend(attack.judge(&answer));
    }
    drop(scene);
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    server.stop();
}

#[test]
fn the_page_of_attacks_has_each_with_its_layer_or_its_consequence() {
    page::verify(ATTACKS);
}
