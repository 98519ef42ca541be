//! Memory for limbs: aligned, on huge pages where the system has them, and used again.
//!
//! A ciphertext of N = 2^16 is ten megabytes; mapping and zeroing that for every result costs as much as adding two of
//! them. So rows come from an [`Arena`], which keeps returned memory.

use std::collections::{BTreeMap, VecDeque};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use memmap2::MmapMut;

use crate::error::Error;

const HUGE_PAGE: usize = 2 << 20;
/// From the limbs of a refresh's first steps to those of its last ones.
const MOST_LARGER: usize = 4;

/// Mappings that were given back.
#[derive(Debug)]
pub struct Arena {
    free: Mutex<Free>,
    keep_bytes: AtomicUsize,
}

/// A program goes on with fewer and fewer limbs, then with many again. So a request may be smaller than the kept row: new
/// memory, which the system fills with zeros, costs more than what is left over. Of each size the most recent row is used
/// first. If there are too many, the oldest leaves, whatever its size.
#[derive(Debug, Default)]
struct Free {
    /// By capacity in words, with when they came.
    by_words: BTreeMap<usize, VecDeque<(u64, Mapping)>>,
    bytes: usize,
    clock: u64,
}

#[derive(Debug)]
struct Mapping {
    map: MmapMut,
    /// Words that there is room for.
    capacity: usize,
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
    /// An arena that keeps up to `keep_bytes` of returned memory.
    pub fn new(keep_bytes: usize) -> Arc<Self> {
        Arc::new(Self { free: Mutex::default(), keep_bytes: AtomicUsize::new(keep_bytes) })
    }

    /// `count` words with unspecified content.
    ///
    /// # Errors
    /// [`Error::System`] where the system has no memory.
    pub fn words(self: &Arc<Self>, count: usize) -> Result<Words, Error> {
        let reused = {
            let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
            free.fitting(count)
        };
        let mapping = match reused {
            Some(mapping) => mapping,
            None => Mapping::new(count)?,
        };
        Ok(Words { mapping: Some(mapping), count, arena: Arc::clone(self) })
    }

    /// Bytes that are kept for later.
    pub fn kept_bytes(&self) -> usize {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).bytes
    }

    /// Bytes of returned memory that it keeps.
    pub fn keep_bytes(&self) -> usize {
        self.keep_bytes.load(Ordering::Relaxed)
    }

    /// Keeps so many bytes from now on; what is kept above that leaves with the next return.
    pub fn set_keep_bytes(&self, bytes: usize) {
        self.keep_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Gives everything that is kept back to the system.
    pub fn release(&self) {
        *self.free.lock().unwrap_or_else(PoisonError::into_inner) = Free::default();
    }
}

impl Free {
    /// The last one that came of the smallest size that holds `count` words, if it is not larger by more than this factor.
    fn fitting(&mut self, count: usize) -> Option<Mapping> {
        let mut sizes = self.by_words.range_mut(count..=MOST_LARGER * count);
        let (_, mapping) = sizes.find_map(|(_, kept)| kept.pop_back())?;
        self.bytes -= 8 * mapping.capacity;
        Some(mapping)
    }

    /// The first one that came, of all sizes.
    fn oldest(&mut self) -> Option<Mapping> {
        let first = self.by_words.values_mut().filter(|kept| !kept.is_empty()).min_by_key(|kept| kept[0].0)?;
        let (_, mapping) = first.pop_front()?;
        self.bytes -= 8 * mapping.capacity;
        Some(mapping)
    }

    fn put(&mut self, mapping: Mapping) {
        self.clock += 1;
        self.bytes += 8 * mapping.capacity;
        self.by_words.entry(mapping.capacity).or_default().push_back((self.clock, mapping));
    }
}

impl Mapping {
    fn new(capacity: usize) -> Result<Self, Error> {
        let bytes = 8 * capacity;
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
        Ok(Self { map, capacity, offset })
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
}

impl Drop for Words {
    fn drop(&mut self) {
        let Some(mapping) = self.mapping.take() else { return };
        if 8 * mapping.capacity > self.arena.keep_bytes() {
            return;
        }
        let mut leaving = vec![];
        let mut free = self.arena.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.put(mapping);
        while free.bytes > self.arena.keep_bytes() {
            leaving.extend(free.oldest());
        }
        drop(free); // Unmapping takes a while, and nobody need wait for it.
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
        let larger = arena.words(1025).unwrap();
        drop(first);
        assert_eq!(arena.kept_bytes(), 8 * 1024);
        drop(larger);
        assert_eq!(arena.kept_bytes(), 8 * 1024, "larger than all that may be kept");
        assert_eq!(arena.words(1024).unwrap()[7], 42, "the first came back");
        arena.release();
        assert_eq!(arena.kept_bytes(), 0);
    }

    #[test]
    fn what_is_larger_is_used_for_less_where_it_is_not_much_larger() {
        let arena = Arena::new(8 * 4096);
        let given = [500, 450, 401, 400].map(|count| {
            let mut words = arena.words(count).unwrap();
            words[7] = count as u64;
            words
        });
        drop(given);
        let used = [100, 100, 100, 145].map(|count| arena.words(count).unwrap());
        assert_eq!(used.each_ref().map(|words| words.len()), [100, 100, 100, 145]);
        assert_eq!((used[0][7], used[3][7]), (400, 401), "the smallest that fits, of up to four times as much");
        assert_eq!(arena.kept_bytes(), 8 * (450 + 500));
        drop(used);
        assert_eq!(arena.kept_bytes(), 8 * (450 + 500 + 400 + 100 + 100 + 401), "what it has room for counts");
        assert_eq!(arena.words(401).unwrap()[7], 401);
    }

    #[test]
    fn what_came_first_leaves_whatever_its_size() {
        let arena = Arena::new(8 * 1024);
        let mut given: Vec<Words> = [512, 256, 512].map(|count| arena.words(count).unwrap()).into();
        for (k, words) in given.iter_mut().enumerate() {
            words[7] = 40 + k as u64;
        }
        given.drain(..).for_each(drop);
        assert_eq!(arena.kept_bytes(), 8 * (256 + 512), "two of the three fit");
        assert_eq!(arena.words(512).unwrap()[7], 42, "the last of its size");
        assert_eq!(arena.words(256).unwrap()[7], 41);
        drop(arena.words(1024).unwrap());
        assert_eq!(arena.kept_bytes(), 8 * 1024, "all others made room");
    }

    #[test]
    fn large_rows_start_on_a_huge_page() {
        let words = Arena::new(0).words(HUGE_PAGE / 8 + 1).unwrap();
        assert_eq!(words.as_ptr().align_offset(HUGE_PAGE), 0);
        assert_eq!(words.len(), HUGE_PAGE / 8 + 1);
    }
}
