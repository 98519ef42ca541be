//! Replacement policies: each file of this folder is one. It implements [`Policy`] and states its [`PolicyEntry`] as
//! `ENTRY`; `build.rs` finds it, and nothing else is edited.

pub use crate::cache::{Fate, Policy, PolicyEntry};

use crate::Error;

// A module for each file, and `POLICIES`: the entry of each, by the names of the files.
include!(concat!(env!("OUT_DIR"), "/policies.rs"));

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
        let message = by_name("none").map(|_| ()).unwrap_err().to_string();
        let known: Vec<_> = POLICIES.iter().map(|entry| entry.name).collect();
        assert_eq!(message, format!("unknown policy 'none'; known: {}", known.join(", ")));
    }
}
