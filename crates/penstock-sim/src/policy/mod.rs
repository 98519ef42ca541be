//! Replacement policies. A new one is a module that implements [`Policy`] and a line in [`POLICIES`].

mod arc;
mod belady;
mod fifo;
mod lfu;
mod lru;
mod optimal;
mod position_set;
mod rings;
mod s3fifo;

pub use arc::Arc;
pub use belady::Belady;
pub use fifo::Fifo;
pub use lfu::Lfu;
pub use lru::Lru;
pub use optimal::Optimal;
pub use s3fifo::S3Fifo;

use crate::{
    Accesses, Error, Replay, Watch,
    replay::{run, run_store},
};

/// What happens to an object after a touch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Keep,
    /// Its room is given up at once; not counted as an eviction. The policy has forgotten it.
    Release,
}

/// The order in which residents leave. The cache itself (sizes, accounts, partial loads) is shared
/// by all policies and calls this.
///
/// Duties: be deterministic; break ties by object number; never choose the incoming object; keep
/// the state small (`O(objects)`, or `O(accesses)` where the future must be known).
pub trait Policy {
    /// Resident `object` is accessed at position `at`, hit or miss.
    fn touch(&mut self, object: u32, at: u32) -> Fate;

    /// Whether `object`, not resident, is worth loading into the cache at all.
    fn admits(&mut self, _object: u32, _at: u32) -> bool {
        true
    }

    /// Chooses residents other than `object` that hold at least `needed` bytes together, forgets
    /// them and appends them to `victims`; or returns `false`, having changed nothing: the access
    /// is then bypassed. `resident[o]` is the bytes of `o` in the cache.
    fn make_room(&mut self, object: u32, at: u32, needed: u64, resident: &[u64], victims: &mut Vec<u32>) -> bool;

    /// `object` has become resident, with `bytes`, by the access at position `at`.
    fn insert(&mut self, object: u32, at: u32, bytes: u64);

    /// Resident `object`, just touched, has `more` bytes in the cache than before.
    fn grow(&mut self, _object: u32, _more: u64) {}
}

/// A line of the registry.
pub struct PolicyEntry {
    pub name: &'static str,
    /// One sentence for listings.
    pub summary: &'static str,
    /// Whether no other policy can have more hits where all objects are of one size.
    pub optimal: bool,
    replay: fn(&Accesses<'_>, u64, bool, &mut Watch<'_>) -> Result<Replay, Error>,
}

/// All policies, by name.
pub const POLICIES: &[PolicyEntry] = &[
    PolicyEntry {
        name: "lru",
        summary: "evicts what was used longest ago",
        optimal: false,
        replay: |accesses, capacity, detail, watch| run(accesses, capacity, Lru::new(accesses), detail, watch),
    },
    PolicyEntry {
        name: "fifo",
        summary: "evicts what came in longest ago",
        optimal: false,
        replay: |accesses, capacity, detail, watch| run(accesses, capacity, Fifo::new(accesses), detail, watch),
    },
    PolicyEntry {
        name: "lfu",
        summary: "evicts what was used the fewest times since it came in",
        optimal: false,
        replay: |accesses, capacity, detail, watch| run(accesses, capacity, Lfu::new(accesses), detail, watch),
    },
    PolicyEntry {
        name: "s3-fifo",
        summary: "a small queue for newcomers, a main queue for what is used again",
        optimal: false,
        replay: |accesses, capacity, detail, watch| {
            run(accesses, capacity, S3Fifo::new(accesses, capacity), detail, watch)
        },
    },
    PolicyEntry {
        name: "arc",
        summary: "adapts between what was used lately and what is used often",
        optimal: false,
        replay: |accesses, capacity, detail, watch| {
            run(accesses, capacity, Arc::new(accesses, capacity), detail, watch)
        },
    },
    PolicyEntry {
        name: "belady",
        summary: "knows the future: evicts the object that is used again last",
        optimal: true,
        replay: |accesses, capacity, detail, watch| run(accesses, capacity, Belady::new(accesses), detail, watch),
    },
    PolicyEntry {
        name: "optimal",
        summary: "knows the future and keeps parts of objects: no policy loads fewer bytes",
        optimal: true,
        replay: |accesses, capacity, detail, watch| {
            run_store(accesses, capacity, Optimal::new(accesses, capacity), detail, watch)
        },
    },
];

impl PolicyEntry {
    /// Plays `accesses` through an empty cache of `capacity` bytes.
    ///
    /// # Errors
    /// [`Error::Interrupted`] by the watch; [`Error::Conservation`] for a defect.
    pub fn replay(
        &self,
        accesses: &Accesses<'_>,
        capacity: u64,
        detail: bool,
        watch: &mut Watch<'_>,
    ) -> Result<Replay, Error> {
        (self.replay)(accesses, capacity, detail, watch)
    }
}

/// The policy called `name`.
///
/// # Errors
/// [`Error::UnknownPolicy`]
pub fn by_name(name: &str) -> Result<&'static PolicyEntry, Error> {
    POLICIES.iter().find(|entry| entry.name == name).ok_or_else(|| Error::UnknownPolicy {
        name: name.to_owned(),
        known: POLICIES.iter().map(|entry| entry.name).collect::<Vec<_>>().join(", "),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_known() {
        for (i, entry) in POLICIES.iter().enumerate() {
            assert!(POLICIES[..i].iter().all(|other| other.name != entry.name), "{}", entry.name);
            assert_eq!(by_name(entry.name).unwrap().name, entry.name);
        }
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let message = by_name("mru").map(|_| ()).unwrap_err().to_string();
        assert_eq!(message, "unknown policy 'mru'; known: lru, fifo, lfu, s3-fifo, arc, belady, optimal");
    }
}
