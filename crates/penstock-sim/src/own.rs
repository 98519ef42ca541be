//! Policies that are not of the engine: priorities that somebody has computed for all accesses, and policies that
//! answer call by call.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use crate::cache::{Fate, Policy, Replay, run};
use crate::error::length;
use crate::{Accesses, Error, Watch};

const NEVER: i64 = -1;

/// A priority for each access: what its object is worth from then on.
#[derive(Debug, Clone, Copy)]
pub struct Priorities<'a> {
    /// `(m,)` the object with the least priority leaves first; not a number: the object is not kept.
    pub values: &'a [f64],
    /// Whether a hit gives its object a new priority; else it keeps the one that it came in with.
    pub on_hit: bool,
    /// Whether an object passes by where it would push out one with a higher priority.
    pub bypass: bool,
    /// Whether priorities count from the last victim's: an unused object ages.
    pub aging: bool,
}

/// Plays `accesses` through an empty cache of `capacity_bytes`, whose residents leave by their priorities. Of equal
/// ones the one that got it first leaves first.
///
/// # Errors
/// As [`crate::replay`]; [`Error::Length`]: not one priority for each access.
pub fn replay_priorities(
    accesses: &Accesses<'_>,
    priorities: Priorities<'_>,
    capacity_bytes: i64,
    detail: bool,
    watch: &mut Watch<'_>,
) -> Result<Replay, Error> {
    length("priorities", priorities.values.len(), accesses.len(), "one element for each access")?;
    let residents =
        Residents { priorities, order: BTreeSet::new(), place: vec![None; accesses.num_objects()], age: 0.0 };
    replay_under(accesses, residents, capacity_bytes, detail, watch)
}

/// As [`crate::replay`], under a policy that no file of the engine has.
///
/// # Errors
/// As [`crate::replay`].
pub fn replay_under(
    accesses: &Accesses<'_>,
    policy: impl Policy,
    capacity_bytes: i64,
    detail: bool,
    watch: &mut Watch<'_>,
) -> Result<Replay, Error> {
    let capacity = u64::try_from(capacity_bytes)
        .map_err(|_| Error::value("capacity_bytes", capacity_bytes, "a capacity is not negative"))?;
    run(accesses, capacity, policy, detail, watch)
}

/// `(m,)` each: the uses of an access's object before and after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uses {
    /// Position of the next access to the same object; the number of accesses where there is none.
    pub next: Vec<i64>,
    /// Position of the last one before; -1 where there is none.
    pub last: Vec<i64>,
    /// Uses of the object so far, this access included.
    pub count: Vec<i64>,
}

/// The uses of every object, in one pass.
pub fn uses(accesses: &Accesses<'_>) -> Uses {
    let n = accesses.len();
    let mut found = Uses { next: vec![n as i64; n], last: vec![NEVER; n], count: vec![1; n] };
    let mut seen: Vec<Option<u32>> = vec![None; accesses.num_objects()];
    for (at, &object) in accesses.objects().iter().enumerate() {
        if let Some(before) = seen[object as usize].replace(at as u32) {
            found.next[before as usize] = at as i64;
            found.last[at] = i64::from(before);
            found.count[at] = found.count[before as usize] + 1;
        }
    }
    found
}

/// The place of a resident among all: by priority, then by the access that gave it.
#[derive(Debug, Clone, Copy)]
struct Place {
    priority: f64,
    at: u32,
    object: u32,
}

impl Ord for Place {
    fn cmp(&self, other: &Self) -> Ordering {
        self.priority.total_cmp(&other.priority).then(self.at.cmp(&other.at)).then(self.object.cmp(&other.object))
    }
}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Place {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Place {}

/// Residents in the order in which they leave.
struct Residents<'a> {
    priorities: Priorities<'a>,
    order: BTreeSet<Place>,
    /// Of each object that is resident.
    place: Vec<Option<Place>>,
    /// What the priorities of new accesses count from.
    age: f64,
}

impl Residents<'_> {
    fn of(&self, object: u32, at: u32) -> Place {
        // Minus zero is zero.
        Place { priority: self.priorities.values[at as usize] + self.age + 0.0, at, object }
    }

    fn put(&mut self, place: Place) {
        self.remove(place.object);
        self.order.insert(place);
        self.place[place.object as usize] = Some(place);
    }

    fn remove(&mut self, object: u32) {
        if let Some(place) = self.place[object as usize].take() {
            self.order.remove(&place);
        }
    }
}

impl Policy for Residents<'_> {
    #[inline]
    fn touch(&mut self, object: u32, at: u32) -> Fate {
        if self.priorities.values[at as usize].is_nan() {
            self.remove(object);
            return Fate::Release;
        }
        if self.priorities.on_hit {
            self.put(self.of(object, at));
        }
        Fate::Keep
    }

    #[inline]
    fn admits(&mut self, _object: u32, at: u32) -> bool {
        !self.priorities.values[at as usize].is_nan()
    }

    #[inline]
    fn make_room(&mut self, object: u32, at: u32, needed: u64, resident: &[u64], victims: &mut Vec<u32>) -> bool {
        let own = self.place[object as usize].unwrap_or_else(|| self.of(object, at));
        let (mut freed, mut last) = (0, None);
        for place in self.order.iter().filter(|place| place.object != object) {
            if freed >= needed {
                break;
            }
            if self.priorities.bypass && *place > own {
                victims.clear();
                return false;
            }
            freed += resident[place.object as usize];
            victims.push(place.object);
            last = Some(place.priority);
        }
        for &victim in victims.iter() {
            self.remove(victim);
        }
        if let Some(priority) = last.filter(|priority| self.priorities.aging && priority.is_finite()) {
            self.age = self.age.max(priority);
        }
        true
    }

    #[inline]
    fn insert(&mut self, object: u32, at: u32, _bytes: u64) {
        self.put(self.of(object, at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay;

    const PLAIN: Priorities<'static> = Priorities { values: &[], on_hit: true, bypass: false, aging: false };

    fn with<T>(trace: &[(i32, i64)], then: impl FnOnce(&Accesses<'_>) -> T) -> T {
        let start: Vec<i64> = (0..=trace.len() as i64).collect();
        let (objects, bytes): (Vec<i32>, Vec<i64>) = trace.iter().copied().unzip();
        then(&Accesses::new(&start, &objects, &bytes).unwrap())
    }

    /// Objects of changing sizes, some of them larger than the caches below.
    fn trace() -> Vec<(i32, i64)> {
        let mut state = 12345_u32;
        let mut next = |most: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) % most
        };
        (0..600).map(|_| (next(23) as i32, 1 + i64::from(next(9)))).collect()
    }

    #[test]
    fn positions_are_the_least_recently_used_and_arrivals_the_first_in() {
        with(&trace(), |accesses| {
            let values: Vec<f64> = (0..accesses.len()).map(|at| at as f64).collect();
            for capacity in [0, 5, 20, 60, 1000] {
                for (on_hit, policy) in [(true, "lru"), (false, "fifo")] {
                    let own = Priorities { values: &values, on_hit, ..PLAIN };
                    let got = replay_priorities(accesses, own, capacity, true, &mut || false).unwrap();
                    assert_eq!(got, replay(accesses, policy, capacity, true, &mut || false).unwrap(), "{policy}");
                }
            }
        });
    }

    #[test]
    fn the_next_use_as_a_priority_is_beladys_policy() {
        with(&trace(), |accesses| {
            let n = accesses.len() as i64;
            let next = uses(accesses).next;
            let values: Vec<f64> = next.iter().map(|&at| if at == n { f64::NAN } else { -(at as f64) }).collect();
            for capacity in [0, 5, 20, 60, 1000] {
                let own = Priorities { values: &values, bypass: true, ..PLAIN };
                let got = replay_priorities(accesses, own, capacity, true, &mut || false).unwrap();
                assert_eq!(got, replay(accesses, "belady", capacity, true, &mut || false).unwrap(), "{capacity}");
            }
        });
    }

    #[test]
    fn what_was_not_used_for_long_ages() {
        // 1 is worth 10 and used once; the others are worth 4. With age it leaves after some of them.
        let trace: Vec<(i32, i64)> = std::iter::once((1, 1)).chain((2..12).map(|o| (o, 1))).chain([(1, 1)]).collect();
        with(&trace, |accesses| {
            let values: Vec<f64> = accesses.objects().iter().map(|&o| if o == 1 { 10.0 } else { 4.0 }).collect();
            let last = |aging| {
                let own = Priorities { values: &values, aging, ..PLAIN };
                replay_priorities(accesses, own, 2, true, &mut || false).unwrap().access_miss_bytes.unwrap()[11]
            };
            assert_eq!((last(false), last(true)), (0, 1));
        });
    }

    #[test]
    fn equal_priorities_leave_in_their_order_and_minus_zero_is_zero() {
        with(&[(1, 1), (2, 1), (3, 1), (2, 1), (1, 1)], |accesses| {
            let own = Priorities { values: &[0.0, -0.0, 0.0, -0.0, 0.0], ..PLAIN };
            let got = replay_priorities(accesses, own, 2, true, &mut || false).unwrap();
            assert_eq!(got.access_miss_bytes.unwrap(), [1, 1, 1, 0, 1]);
        });
    }

    #[test]
    fn uses_are_counted_forwards_and_backwards() {
        with(&[(4, 1), (2, 1), (4, 2), (4, 1)], |accesses| {
            let found = uses(accesses);
            assert_eq!(found.next, [2, 4, 3, 4]);
            assert_eq!(found.last, [-1, -1, 0, 2]);
            assert_eq!(found.count, [1, 1, 2, 3]);
        });
    }

    #[test]
    fn each_access_has_a_priority() {
        with(&[(1, 1)], |accesses| {
            let message = replay_priorities(accesses, PLAIN, 1, false, &mut || false).unwrap_err().to_string();
            assert!(message.starts_with("priorities has 0 elements, 1 expected"), "{message}");
            let own = Priorities { values: &[1.0], ..PLAIN };
            let message = replay_priorities(accesses, own, -1, false, &mut || false).unwrap_err().to_string();
            assert!(message.starts_with("capacity_bytes is -1"), "{message}");
        });
    }
}
