//! Answers to questions of clients, kept for a second: a frame may repeat a question some hundred
//! times, and each answer reads files.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Longest time for which a change of a file may stay unseen.
pub(super) const AGE_MAX: Duration = Duration::from_secs(1);

/// Answers that are kept at most. A worker's clients that list shares at the same time are fewer.
const ANSWERS_MAX: usize = 16;

/// Answers by their questions, oldest first.
#[derive(Debug)]
pub(super) struct RecentAnswers<Question, Answer>(Mutex<Vec<(Instant, Question, Answer)>>);

impl<Question, Answer> Default for RecentAnswers<Question, Answer> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<Question: Clone + PartialEq, Answer: Clone> RecentAnswers<Question, Answer> {
    /// Returns the kept answer, or that of `find`, which is kept then.
    pub(super) fn find(
        &self,
        now: Instant,
        question: &Question,
        find: impl FnOnce() -> Answer,
    ) -> Answer {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(since, ..)| now.saturating_duration_since(*since) < AGE_MAX);
        if let Some((_, _, answer)) = kept.iter().find(|(_, known, _)| known == question) {
            return answer.clone();
        }
        let answer = find();
        if kept.len() == ANSWERS_MAX {
            kept.remove(0);
        }
        kept.push((now, question.clone(), answer.clone()));
        answer
    }
}

/// A limit on what is looked up in a second without a kept answer.
#[derive(Debug, Default)]
pub(super) struct LookUps(Mutex<Option<(Instant, u32)>>);

impl LookUps {
    /// Counts one more; returns whether there are no more than `max` in this second.
    pub(super) fn take(&self, now: Instant, max: u32) -> bool {
        let mut second = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = second.filter(|(since, _)| now.saturating_duration_since(*since) < AGE_MAX);
        let (since, count) = begun.unwrap_or((now, 0));
        *second = Some((since, count.saturating_add(1)));
        count < max
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Instant;

    use super::{AGE_MAX, ANSWERS_MAX, LookUps, RecentAnswers};

    #[test]
    fn an_answer_is_found_once_a_second_for_each_question() {
        let (recent, begin) = (RecentAnswers::default(), Instant::now());
        let found = Cell::new(0);
        let ask = |now, question: &str| {
            recent.find(now, &question.to_owned(), || {
                found.set(found.get() + 1);
                found.get()
            })
        };
        for _ in 0..500 {
            assert_eq!((ask(begin, "a"), ask(begin + AGE_MAX / 2, "b")), (1, 2));
        }
        assert_eq!((ask(begin + AGE_MAX, "a"), ask(begin + AGE_MAX, "b")), (3, 2));
    }

    #[test]
    fn the_oldest_answer_gives_way() {
        let (recent, now) = (RecentAnswers::default(), Instant::now());
        for number in 0..=ANSWERS_MAX {
            assert_eq!(recent.find(now, &number, || number), number);
        }
        assert_eq!(recent.find(now, &1, || 99), 1, "it is kept");
        assert_eq!(recent.find(now, &0, || 99), 99, "it is not");
    }

    #[test]
    fn look_ups_are_limited_in_each_second() {
        let (look_ups, begin) = (LookUps::default(), Instant::now());
        let allowed = |now| (0..500).filter(|_| look_ups.take(now, 3)).count();
        assert_eq!((allowed(begin), allowed(begin + AGE_MAX / 2)), (3, 0));
        assert_eq!(allowed(begin + AGE_MAX), 3);
    }
}
