//! Memory for limbs: aligned, on huge pages where the system has them, and used again.
//!
//! A ciphertext of N = 2^16 is ten megabytes; mapping and zeroing that for every result costs as much as adding two of
//! them. So rows come from an [`Arena`], which keeps what is given back.

use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

use memmap2::MmapMut;

use crate::error::Error;

const HUGE_PAGE: usize = 2 << 20;

/// Mappings that were given back, by size.
#[derive(Debug)]
pub struct Arena {
    free: Mutex<Free>,
    keep_bytes: usize,
}

#[derive(Debug, Default)]
struct Free {
    by_words: HashMap<usize, Vec<Mapping>>,
    bytes: usize,
}

#[derive(Debug)]
struct Mapping {
    map: MmapMut,
    /// Bytes before the first word: the mapping starts on a page, the words on a huge page where that pays.
    offset: usize,
}

/// Words of 64 bits, 64-byte aligned. Their content is unspecified until it is written. Back to the arena when dropped.
#[derive(Debug)]
pub struct Words {
    mapping: Option<Mapping>,
    count: usize,
    arena: Arc<Arena>,
}

impl Arena {
    /// An arena that keeps up to `keep_bytes` of what is given back.
    pub fn new(keep_bytes: usize) -> Arc<Self> {
        Arc::new(Self { free: Mutex::default(), keep_bytes })
    }

    /// `count` words with unspecified content.
    ///
    /// # Errors
    /// [`Error::System`] where the system has no memory.
    pub fn words(self: &Arc<Self>, count: usize) -> Result<Words, Error> {
        let reused = {
            let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
            let mapping = free.by_words.get_mut(&count).and_then(Vec::pop);
            if mapping.is_some() {
                free.bytes -= 8 * count;
            }
            mapping
        };
        let mapping = match reused {
            Some(mapping) => mapping,
            None => Mapping::new(8 * count)?,
        };
        Ok(Words { mapping: Some(mapping), count, arena: Arc::clone(self) })
    }

    /// Bytes that are kept for later.
    pub fn kept_bytes(&self) -> usize {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).bytes
    }

    /// Gives everything that is kept back to the system.
    pub fn release(&self) {
        *self.free.lock().unwrap_or_else(PoisonError::into_inner) = Free::default();
    }
}

impl Mapping {
    fn new(bytes: usize) -> Result<Self, Error> {
        let huge = bytes >= HUGE_PAGE / 4;
        let length = if huge { bytes.next_multiple_of(HUGE_PAGE) + HUGE_PAGE } else { bytes.max(1) };
        let map = MmapMut::map_anon(length)
            .map_err(|why| Error::System { what: "memory for limbs", why: format!("{length} bytes: {why}") })?;
        let offset = if huge { map.as_ptr().align_offset(HUGE_PAGE) } else { 0 };
        #[cfg(target_os = "linux")]
        if huge {
            // Only a hint: without huge pages everything works, slower.
            let _ = map.advise_range(memmap2::Advice::HugePage, offset, bytes);
        }
        Ok(Self { map, offset })
    }
}

impl Deref for Words {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        match &self.mapping {
            Some(mapping) => bytemuck::cast_slice(&mapping.map[mapping.offset..mapping.offset + 8 * self.count]),
            None => &[],
        }
    }
}

impl DerefMut for Words {
    fn deref_mut(&mut self) -> &mut [u64] {
        match &mut self.mapping {
            Some(mapping) => {
                bytemuck::cast_slice_mut(&mut mapping.map[mapping.offset..mapping.offset + 8 * self.count])
            }
            None => &mut [],
        }
    }
}

impl Words {
    /// The arena that these words came from, and return to.
    pub fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }

    /// The same words elsewhere.
    ///
    /// # Errors
    /// [`Error::System`] where the system has no memory.
    pub fn duplicate(&self) -> Result<Self, Error> {
        let mut copy = self.arena.words(self.count)?;
        copy.copy_from_slice(self);
        Ok(copy)
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        let Some(mapping) = self.mapping.take() else { return };
        let mut free = self.arena.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.bytes + 8 * self.count <= self.arena.keep_bytes {
            free.bytes += 8 * self.count;
            free.by_words.entry(self.count).or_default().push(mapping);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_is_used_again_up_to_the_limit() {
        let arena = Arena::new(8 * 1024);
        let mut first = arena.words(1024).unwrap();
        first[7] = 42;
        assert_eq!(first.as_ptr().align_offset(64), 0);
        let second = arena.words(1024).unwrap();
        drop(first);
        assert_eq!(arena.kept_bytes(), 8 * 1024);
        drop(second);
        assert_eq!(arena.kept_bytes(), 8 * 1024, "the second does not fit beside the first");
        assert_eq!(arena.words(1024).unwrap()[7], 42, "the first came back");
        arena.release();
        assert_eq!(arena.kept_bytes(), 0);
    }

    #[test]
    fn large_rows_start_on_a_huge_page() {
        let words = Arena::new(0).words(HUGE_PAGE / 8 + 1).unwrap();
        assert_eq!(words.as_ptr().align_offset(HUGE_PAGE), 0);
        assert_eq!(words.len(), HUGE_PAGE / 8 + 1);
    }
}
