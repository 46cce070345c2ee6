//! Users that workers have asked for a moment ago.
//!
//! Each client's worker asks for its user, and many clients of one user come together. An answer of
//! the last second saves a thread's turn: a thirtieth of the time in which a client logs on.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use process::{NameAnswer, NameQuestion};

/// Age of the oldest answer. A worker caches the rights of a user as long.
const RECENT_NAMES_AGE_MAX: Duration = Duration::from_secs(1);

/// Answers. One more clears them.
const RECENT_NAMES_MAX: usize = 256;

/// Groups of a user whose answer is kept.
const RECENT_GROUPS_MAX: usize = 512;

/// Answers of the name service, by question.
#[derive(Debug, Default)]
pub(crate) struct RecentNames {
    /// With the times of the questions.
    answers: HashMap<NameQuestion, (Instant, NameAnswer)>,
}

impl RecentNames {
    /// Returns the answer to a question that was asked a moment ago.
    pub(crate) fn find(&self, now: Instant, question: &NameQuestion) -> Option<&NameAnswer> {
        let (asked, answer) = self.answers.get(question)?;
        (now.saturating_duration_since(*asked) < RECENT_NAMES_AGE_MAX).then_some(answer)
    }

    /// Keeps an answer, if it is a user, or says whether a netgroup has one.
    pub(crate) fn keep(&mut self, asked: Instant, question: NameQuestion, answer: &NameAnswer) {
        let is_kept = match answer {
            NameAnswer::User(Some(user)) => user.groups.len() <= RECENT_GROUPS_MAX,
            NameAnswer::Membership(_) => true,
            NameAnswer::User(None) | NameAnswer::Named(_) => false,
        };
        if !is_kept {
            return;
        }
        if self.answers.len() >= RECENT_NAMES_MAX {
            self.answers.clear();
        }
        self.answers.insert(question, (asked, answer.clone()));
    }
}

#[cfg(test)]
mod tests {
    use process::SystemUser;

    use super::*;

    fn question(number: usize) -> NameQuestion {
        NameQuestion::User(format!("user{number}"))
    }

    fn user(groups: usize) -> NameAnswer {
        NameAnswer::User(Some(SystemUser { groups: vec![7; groups], ..SystemUser::default() }))
    }

    #[test]
    fn an_answer_is_kept_for_a_second_from_its_question() {
        let mut names = RecentNames::default();
        let asked = Instant::now();
        names.keep(asked, question(1), &user(1));
        let before = asked + RECENT_NAMES_AGE_MAX - Duration::from_nanos(1);
        assert_eq!(names.find(before, &question(1)), Some(&user(1)));
        assert_eq!(names.find(before, &question(2)), None);
        assert_eq!(names.find(asked + RECENT_NAMES_AGE_MAX, &question(1)), None);
    }

    #[test]
    fn an_answer_about_a_netgroup_is_kept_too() {
        let mut names = RecentNames::default();
        let asked = Instant::now();
        let (netgroup, user) = ("team".to_owned(), "anna".to_owned());
        let question = NameQuestion::Netgroup { netgroup, user };
        names.keep(asked, question.clone(), &NameAnswer::Membership(false));
        assert_eq!(names.find(asked, &question), Some(&NameAnswer::Membership(false)));
    }

    #[test]
    fn nobody_is_taken_for_missing_a_moment_later() {
        let mut names = RecentNames::default();
        let asked = Instant::now();
        names.keep(asked, question(1), &NameAnswer::User(None));
        assert_eq!(names.find(asked, &question(1)), None);
    }

    #[test]
    fn answers_have_a_bound() {
        let mut names = RecentNames::default();
        let asked = Instant::now();
        names.keep(asked, question(0), &user(RECENT_GROUPS_MAX + 1));
        assert_eq!(names.find(asked, &question(0)), None, "it is too large");
        for number in 0..=RECENT_NAMES_MAX {
            names.keep(asked, question(number), &user(RECENT_GROUPS_MAX));
            assert!(names.answers.len() <= RECENT_NAMES_MAX);
            assert!(names.find(asked, &question(number)).is_some());
        }
    }
}
