//! The search for the action of a call.

use std::collections::BTreeMap;

use libc::sock_filter;

use crate::instruction::{JUMP, instruction, return_value};

/// Result of the search for a call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Action {
    /// A value that seccomp(2) lists for filters.
    Return(u32),
    /// Conditions on the arguments, by their place in the list of conditions.
    Verify(usize),
}

/// Numbers with the same action: the first one, up to the next run.
type Run = (u32, Action);

/// Joins adjacent numbers with the same action. `outside` is the action of calls up to `last`
/// without one of their own, `newer` that of all behind it.
pub(crate) fn runs(
    actions: &BTreeMap<u32, Action>,
    outside: Action,
    (last, newer): (u32, Action),
) -> Vec<Run> {
    let action = |number: u32| actions.get(&number).copied().unwrap_or(outside);
    let each = (0..=last).map(|number| (number, action(number))).chain([(last + 1, newer)]);
    let mut runs: Vec<Run> = Vec::new();
    for (number, action) in each {
        if runs.last().is_none_or(|(_, before)| *before != action) {
            runs.push((number, action));
        }
    }
    runs
}

/// Target of a comparison of numbers.
#[derive(Clone, Copy, Debug)]
enum Target {
    /// Another instruction, by the number of instructions to skip.
    Skip(usize),
    /// The end with this value.
    Return(u32),
}

#[derive(Clone, Copy, Debug)]
enum Node {
    /// Whether the number is this one or a higher one, and the targets if it is, and if not.
    Compare(u32, Target, Target),
    /// The end of the search at conditions.
    Verify(usize),
}

/// Makes the instructions for a loaded number: a search by halves for its run, then the values that
/// they return, then `conditions`.
///
/// # Errors
/// There are more runs than a comparison can skip.
pub(crate) fn search(
    runs: &[Run],
    conditions: &[Vec<sock_filter>],
) -> Result<Vec<sock_filter>, String> {
    let nodes = part(runs).into_nodes();
    let mut values: Vec<u32> = Vec::new();
    for (_, action) in runs {
        if let Action::Return(value) = *action
            && !values.contains(&value)
        {
            values.push(value);
        }
    }
    let mut end = nodes.len() + values.len();
    let mut starts = Vec::new();
    for it in conditions {
        starts.push(end);
        end += it.len();
    }
    let skip = |place: usize, target| {
        let skipped = match target {
            Target::Skip(skipped) => Some(skipped),
            Target::Return(value) => values
                .iter()
                .position(|it| *it == value)
                .map(|index| nodes.len() + index - place - 1),
        };
        let skipped = skipped.and_then(|it| u8::try_from(it).ok());
        skipped.ok_or_else(|| "too many runs of numbers".to_owned())
    };
    let mut instructions = Vec::new();
    for (place, node) in nodes.iter().enumerate() {
        instructions.push(match *node {
            Node::Compare(first, holds, fails) => {
                let skips = (skip(place, holds)?, skip(place, fails)?);
                instruction(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, skips, first)
            }
            Node::Verify(index) => {
                let start = starts.get(index).ok_or("no such conditions")?;
                let skipped = u32::try_from(start - place - 1).map_err(|it| it.to_string())?;
                instruction(JUMP, (0, 0), skipped)
            }
        });
    }
    instructions.extend(values.into_iter().map(return_value));
    instructions.extend(conditions.iter().flatten().copied());
    Ok(instructions)
}

/// A part of the search: nodes, or a value that all comparisons share.
enum Part {
    Nodes(Vec<Node>),
    Value(u32),
}

impl Part {
    /// Returns the target of a comparison that is so many nodes before this part.
    fn target(&self, skipped: usize) -> Target {
        match self {
            Self::Nodes(_) => Target::Skip(skipped),
            Self::Value(value) => Target::Return(*value),
        }
    }

    fn into_nodes(self) -> Vec<Node> {
        match self {
            Self::Nodes(nodes) => nodes,
            Self::Value(_) => Vec::new(),
        }
    }
}

/// Makes the search in some runs, at least one.
fn part(runs: &[Run]) -> Part {
    match runs {
        [(_, Action::Return(value))] => Part::Value(*value),
        [(_, Action::Verify(index))] => Part::Nodes(vec![Node::Verify(*index)]),
        _ => {
            let (lower, upper) = runs.split_at(runs.len() / 2);
            let (first, above, below) = (upper[0].0, part(upper), part(lower));
            let (below_target, below) = (below.target(0), below.into_nodes());
            let node = Node::Compare(first, above.target(below.len()), below_target);
            let nodes = [node].into_iter().chain(below).chain(above.into_nodes());
            Part::Nodes(nodes.collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{Action, runs, search};
    use crate::instruction::{follow, load, return_value};

    /// More instructions for a call make each new worker slower: the kernel runs a filter for each
    /// call that there is.
    const WAY_MAX: usize = 11;

    const LAST: u32 = 400;

    #[test]
    fn adjacent_numbers_with_the_same_action_are_one_run() {
        let [allow, outside, newer] = [1, 2, 3].map(Action::Return);
        let allowed = [0, 1, 2, 5].map(|number| (number, allow));
        let expected = [(0, allow), (3, outside), (5, allow), (6, outside), (LAST + 1, newer)];
        assert_eq!(runs(&BTreeMap::from(allowed), outside, (LAST, newer)), expected);
        let nothing = [(0, outside), (LAST + 1, newer)];
        assert_eq!(runs(&BTreeMap::new(), outside, (LAST, newer)), nothing);
    }

    #[test]
    fn the_search_finds_the_action_of_each_number_on_a_short_way() {
        let [allow, refuse, outside, newer] = [1, 2, 3, 4].map(Action::Return);
        // The value of conditions says which they are.
        let value = |place: usize| 1_000 + u32::try_from(place).expect("they are few");
        for count in 0..60 {
            let mut conditions = Vec::new();
            let mut actions = BTreeMap::new();
            for index in 0..count {
                let action = match index % 3 {
                    0 => allow,
                    1 => refuse,
                    _ => {
                        conditions.push(vec![return_value(value(conditions.len()))]);
                        Action::Verify(conditions.len() - 1)
                    }
                };
                actions.insert(3 * index, action);
            }
            let found = search(&runs(&actions, outside, (LAST, newer)), &conditions);
            let mut program = vec![load(0)];
            program.extend(found.expect("it is short enough"));
            for number in (0..LAST + 5).chain([u32::MAX]) {
                let other = if number > LAST { newer } else { outside };
                let expected = match actions.get(&number).copied().unwrap_or(other) {
                    Action::Return(value) => value,
                    Action::Verify(place) => value(place),
                };
                let (found, way) = follow(&program, number, [0; 6]);
                assert_eq!(found, expected, "{number} of {count}");
                assert!(way <= WAY_MAX, "{number} of {count}: {way}");
            }
        }
    }

    #[test]
    fn more_than_a_comparison_can_skip_is_an_error() {
        let actions = (0..300).map(|it| (2 * it, Action::Return(1))).collect();
        let runs = runs(&actions, Action::Return(2), (600, Action::Return(3)));
        search(&runs, &[]).expect_err("a jump has eight bits");
    }
}
