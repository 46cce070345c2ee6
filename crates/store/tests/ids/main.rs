//! Random lives of a folder that two users and root have in common, by every way that changes
//! owners and modes, with local processes of theirs in between. After each step the whole tree is
//! looked at: what a client did gave nobody an id that is not theirs. Needs root, and ends at once
//! without it.

mod folder;
mod step;
#[path = "../support/mod.rs"]
mod support;

use proptest::prelude::*;

use folder::{Folder, Setting};
use step::Step;

/// Highest number of steps of one run.
const STEPS_MAX: usize = 60;

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_way_of_a_client_leads_to_an_id_that_is_not_its_users(
        setting in Setting::any(),
        steps in prop::collection::vec(Step::any(), 1..STEPS_MAX)
    ) {
        if support::is_root() {
            let mut folder = Folder::new(setting);
            for step in &steps {
                folder.take(step);
            }
        }
    }
}
