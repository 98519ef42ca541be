//! The known future of a program: which keys it will use, at how many limbs, in which order.

use std::collections::HashMap;

use super::pace::Pace;
use crate::KeyName;

/// One use of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    pub name: KeyName,
    pub limbs: usize,
}

/// Uses may come this many places before or after their turn, so that several threads can share one future. A use that
/// falls further behind is taken to be left out.
const WINDOW: usize = 1024;

/// The uses to come. Positions behind the cursor are over.
pub(super) struct Future {
    uses: Vec<Use>,
    done: Vec<bool>,
    cursor: usize,
    /// Uses of other futures that come before the first of this one.
    lead: usize,
    by_key: HashMap<KeyName, Places>,
    pub(super) pace: Pace,
}

/// The uses of one key.
struct Places {
    positions: Vec<u32>,
    /// The most limbs of any use from each place on: none at more limbs need be looked for.
    most_limbs_after: Vec<u32>,
}

impl Future {
    #[cfg(test)]
    pub(super) fn new(uses: Vec<Use>) -> Self {
        Self::after(uses, 0)
    }

    /// A future that begins once `lead` uses of others are over.
    pub(super) fn after(uses: Vec<Use>, lead: usize) -> Self {
        let mut by_key: HashMap<KeyName, Places> = HashMap::new();
        for (position, each) in uses.iter().enumerate() {
            let places = by_key
                .entry(each.name.clone())
                .or_insert_with(|| Places { positions: vec![], most_limbs_after: vec![] });
            places.positions.push(position as u32);
            places.most_limbs_after.push(each.limbs as u32);
        }
        for places in by_key.values_mut() {
            let mut most = 0;
            for limbs in places.most_limbs_after.iter_mut().rev() {
                most = most.max(*limbs);
                *limbs = most;
            }
        }
        Self { done: vec![false; uses.len()], uses, cursor: 0, lead, by_key, pace: Pace::default() }
    }

    /// The number of uses until the key is used with at least `limbs` limbs, without the first `after` uses; `None`:
    /// never.
    pub(super) fn next_use(&self, name: &KeyName, limbs: usize, after: usize) -> Option<usize> {
        let places = self.by_key.get(name)?;
        let start = self.cursor.saturating_add(after.saturating_sub(self.lead));
        let first = places.positions.partition_point(|&position| (position as usize) < start);
        for (&position, &most) in places.positions[first..].iter().zip(&places.most_limbs_after[first..]) {
            if (most as usize) < limbs {
                return None;
            }
            let position = position as usize;
            if !self.done[position] && self.uses[position].limbs >= limbs {
                return Some(position - self.cursor + self.lead);
            }
        }
        None
    }

    /// Notes that a key is used now. False where the future does not have it here.
    pub(super) fn advance(&mut self, name: &KeyName, limbs: usize) -> bool {
        let end = self.uses.len().min(self.cursor + WINDOW);
        let here = |position: &usize| {
            !self.done[*position] && self.uses[*position].name == *name && self.uses[*position].limbs == limbs
        };
        let Some(position) = (self.cursor..end).find(here) else { return false };
        self.done[position] = true;
        // Half a window behind, a use is taken to be left out.
        self.cursor = self.cursor.max(position.saturating_sub(WINDOW / 2));
        while self.done.get(self.cursor) == Some(&true) {
            self.cursor += 1;
        }
        true
    }

    /// The next uses, `(how many uses from now, use)`, nearest first.
    pub(super) fn coming(&self) -> impl Iterator<Item = (usize, &Use)> {
        let coming = (self.cursor..self.uses.len()).filter(|&at| !self.done[at]);
        coming.map(|at| (at - self.cursor + self.lead, &self.uses[at]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{Random, shape};
    use crate::{KeyId, Tenant};

    fn uses(count: usize, keys: u64, seed: u64) -> Vec<Use> {
        let (tenant, digest) = (Tenant::new("t").unwrap(), shape(64, 5, 2, 3).digest());
        let mut random = Random::new(seed);
        let key = |element| KeyName::new(tenant.clone(), digest, KeyId::Rot(2 * element + 3));
        (0..count).map(|_| Use { name: key(random.below(keys)), limbs: 1 + random.below(5) as usize }).collect()
    }

    #[test]
    fn next_uses_are_those_of_a_search() {
        let uses = uses(200, 7, 1);
        let mut future = Future::new(uses.clone());
        for at in 0..uses.len() {
            for each in &uses[..20] {
                for limbs in 1..=5 {
                    for after in [0, 1, 9, 500] {
                        let is_next = |place: &usize| uses[*place].name == each.name && uses[*place].limbs >= limbs;
                        let found = (at + after..uses.len()).find(is_next).map(|place| place - at);
                        assert_eq!(future.next_use(&each.name, limbs, after), found);
                    }
                }
            }
            assert!(future.advance(&uses[at].name, uses[at].limbs));
        }
        assert_eq!(future.coming().count(), 0);
        assert!(!future.advance(&uses[0].name, uses[0].limbs));
    }

    #[test]
    fn a_future_after_others_is_as_far_away_as_they_are_long() {
        let uses = uses(60, 7, 3);
        let (now, later) = (Future::new(uses.clone()), Future::after(uses.clone(), 25));
        for each in &uses {
            for after in [0, 10, 25, 40] {
                let expected = now.next_use(&each.name, each.limbs, after.max(25) - 25).map(|distance| distance + 25);
                assert_eq!(later.next_use(&each.name, each.limbs, after), expected);
            }
        }
        assert_eq!(later.coming().next(), Some((25, &uses[0])));
    }

    #[test]
    fn uses_may_come_out_of_turn_and_may_be_left_out() {
        let uses = uses(3000, 50, 2);
        let mut future = Future::new(uses.clone());
        // Two threads: one does the even places, the other the odd ones a little later.
        for at in (0..40).step_by(2).chain((1..40).step_by(2)) {
            assert!(future.advance(&uses[at].name, uses[at].limbs));
        }
        assert_eq!(future.coming().next(), Some((0, &uses[40])));
        // The use at 40 never comes: after half a window it is given up.
        for each in &uses[41..2000] {
            future.advance(&each.name, each.limbs);
        }
        assert!(future.cursor > 40);
    }
}
