//! Random lives of one file, beside a plain model of what its clients believe.
//!
//! The model tracks notifications to clients, and knows nothing of the record's decisions: it has
//! its own rules for conflicts and caching. Workers read the record late and in any order, as
//! messages arrive.

mod model;
mod step;

use proptest::prelude::*;

use model::Model;
use step::Step;

/// Highest number of steps of one life.
const STEPS_MAX: usize = 60;

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 4_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_sequence_of_operations_keeps_the_promises_of_the_record(
        steps in prop::collection::vec(Step::any(), 1..STEPS_MAX)
    ) {
        let mut model = Model::default();
        for step in &steps {
            model.take(step);
            model.verify();
        }
        model.end();
    }
}
