//! Group ids that winbindd gave to groups of the domain before.
//!
//! winbindd says the same of a group that has no id and of one whose id it cannot find out just now
//! (`winbindd/wb_sids2xids.c` of Samba 4.25). The kernel checks POSIX ACLs by ids, so a user would
//! gain what an entry for a lost group denies. Therefore a group that had an id keeps its users out
//! while it has none.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use dtyp::Sid;

/// Groups that have an id, by the time at which it was last seen. All threads share them.
#[derive(Debug, Default)]
pub(crate) struct KnownGroups(Mutex<HashMap<Sid, Instant>>);

impl KnownGroups {
    /// Takes the ids of groups as winbindd has just given them, one for each SID, and returns those
    /// of groups that have one.
    ///
    /// # Errors
    /// A group that had an id has none now.
    pub(crate) fn ids(
        &self,
        now: Instant,
        sids: &[Sid],
        ids: &[Option<u32>],
    ) -> Result<Vec<u32>, Sid> {
        // Nothing panics with the lock held.
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_recent = |seen: &Instant| now.saturating_duration_since(*seen) < REMEMBERED_FOR;
        let mut found = Vec::with_capacity(sids.len());
        for (sid, id) in sids.iter().zip(ids) {
            match id {
                Some(id) => {
                    if known.len() >= GROUPS_KNOWN_MAX && !known.contains_key(sid) {
                        known.retain(|_, seen| is_recent(seen));
                    }
                    if known.len() < GROUPS_KNOWN_MAX || known.contains_key(sid) {
                        known.insert(sid.clone(), now);
                    }
                    found.push(*id);
                }
                None if known.get(sid).is_some_and(is_recent) => return Err(sid.clone()),
                None => {}
            }
        }
        Ok(found)
    }
}

/// Highest number of remembered groups. Further groups of a large domain have the id that winbindd
/// gives, or none.
const GROUPS_KNOWN_MAX: usize = 65_536;

/// Time for which a group is remembered after its id was last seen: an administrator may have taken
/// the id away. winbindd itself asks again after some minutes.
const REMEMBERED_FOR: Duration = Duration::from_secs(86_400);

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use dtyp::Sid;

    use super::{GROUPS_KNOWN_MAX, KnownGroups, REMEMBERED_FOR};

    fn group(number: usize) -> Sid {
        Sid::new(5, &[21, 1, 2, 3, u32::try_from(number).expect("a few")])
    }

    #[test]
    fn a_group_that_loses_its_id_keeps_its_users_out() {
        let (known, now) = (KnownGroups::default(), Instant::now());
        let sids = [group(1), group(2)];
        assert_eq!(known.ids(now, &sids, &[Some(100), None]), Ok(vec![100]), "one never had any");
        assert_eq!(known.ids(now, &sids, &[None, None]), Err(group(1)));
        assert_eq!(known.ids(now, &sids, &[Some(100), Some(200)]), Ok(vec![100, 200]));
        assert_eq!(known.ids(now, &sids, &[Some(100), None]), Err(group(2)));
        let later = now + REMEMBERED_FOR;
        assert_eq!(known.ids(later, &sids, &[None, None]), Ok(vec![]), "an id taken away");
    }

    #[test]
    fn remembered_groups_are_bounded_and_make_room_in_time() {
        let (known, now) = (KnownGroups::default(), Instant::now());
        let sids: Vec<Sid> = (0..=GROUPS_KNOWN_MAX).map(group).collect();
        let ids = vec![Some(7); sids.len()];
        assert_eq!(known.ids(now, &sids, &ids).map(|ids| ids.len()), Ok(sids.len()));
        let last = &sids[GROUPS_KNOWN_MAX..];
        assert_eq!(known.ids(now, last, &[None]), Ok(vec![]), "there was no room");
        assert_eq!(known.ids(now, &sids[..1], &[None]), Err(group(0)));
        let later = now + REMEMBERED_FOR;
        assert_eq!(known.ids(later, last, &[Some(7)]), Ok(vec![7]));
        assert_eq!(known.ids(later, last, &[None]), Err(last[0].clone()));
    }
}
