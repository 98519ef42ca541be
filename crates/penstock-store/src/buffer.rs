//! Memory for rows: aligned for direct I/O, on huge pages where the system has them, counted, and used again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::{io, mem};

use bytemuck::{Pod, Zeroable, cast_slice, cast_slice_mut, try_zeroed_slice_box};
use memmap2::MmapMut;

use crate::{ALIGNMENT, Error, Result};

/// Rows from here on are mapped, smaller ones come from the heap: a mapping costs two calls of the system.
const MAPPED_BYTES: usize = 64 << 10;

/// The unit that direct I/O asks for: a page, at a page's boundary.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(4096))]
struct Page([u8; ALIGNMENT]);

/// Whole pages, zeros at first.
enum Pages {
    Heap(Box<[Page]>),
    /// The system places mappings next to each other and joins equal ones. A key's rows are all mapped before the first
    /// is written, so that they lie on huge pages though none of them fills one. That costs one fault for every 2 MiB
    /// instead of 512, and few entries of the processor's address translation.
    Mapped(MmapMut),
}

impl Pages {
    fn new(count: usize) -> Result<Self> {
        let bytes = count * ALIGNMENT;
        let on_heap = || match try_zeroed_slice_box(count) {
            Ok(pages) => Ok(Self::Heap(pages)),
            Err(()) => Err(Error::io("memory for rows", "take", io::ErrorKind::OutOfMemory.into())),
        };
        if bytes < MAPPED_BYTES {
            return on_heap();
        }
        let Ok(map) = MmapMut::map_anon(bytes) else { return on_heap() };
        #[cfg(target_os = "linux")]
        let _ = map.advise(memmap2::Advice::HugePage); // Only a hint: without huge pages everything works, slower.
        Ok(Self::Mapped(map))
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Heap(pages) => cast_slice(pages),
            Self::Mapped(map) => map,
        }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Heap(pages) => cast_slice_mut(pages),
            Self::Mapped(map) => map,
        }
    }
}

/// A buffer of whole pages. Dropped, it goes back to its pool.
pub struct Row {
    pages: Pages,
    pool: Arc<Pool>,
}

impl Row {
    pub fn bytes(&self) -> &[u8] {
        self.pages.bytes()
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.pages.bytes_mut()
    }

    /// The buffer as words. A row of a small ring fills only the first N of them.
    pub fn words(&self) -> &[u64] {
        cast_slice(self.bytes())
    }

    pub fn words_mut(&mut self) -> &mut [u64] {
        cast_slice_mut(self.bytes_mut())
    }
}

impl Drop for Row {
    fn drop(&mut self) {
        self.pool.take_back(mem::replace(&mut self.pages, Pages::Heap(Box::default())));
    }
}

/// Buffers that were used before: memory fresh from the system costs a fault a page, as much as reading it from a
/// fast disk. Buffers in use and buffers kept together stay within the limit, as long as those in use alone do.
pub struct Pool {
    limit_bytes: u64,
    state: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    in_use_bytes: u64,
    kept_bytes: u64,
    by_bytes: HashMap<usize, Vec<Pages>>,
}

impl Pool {
    pub fn new(limit_bytes: u64) -> Arc<Self> {
        Arc::new(Self { limit_bytes, state: Mutex::default() })
    }

    /// A buffer of at least `bytes`, with the content of its last use.
    ///
    /// # Errors
    /// `Io`: the system has no memory left.
    pub fn row(self: &Arc<Self>, bytes: usize) -> Result<Row> {
        let bytes = bytes.next_multiple_of(ALIGNMENT);
        let size = bytes as u64;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.in_use_bytes += size;
        let known = state.by_bytes.get_mut(&bytes).and_then(Vec::pop);
        if known.is_some() {
            state.kept_bytes -= size;
        } else if state.in_use_bytes + state.kept_bytes > self.limit_bytes {
            // Kept buffers of another size are in the way.
            state.by_bytes.clear();
            state.kept_bytes = 0;
        }
        drop(state);
        let pages = match known {
            Some(pages) => Ok(pages),
            None => Pages::new(bytes / ALIGNMENT),
        };
        if pages.is_err() {
            self.state.lock().unwrap_or_else(PoisonError::into_inner).in_use_bytes -= size;
        }
        Ok(Row { pages: pages?, pool: self.clone() })
    }

    /// Takes so many bytes from the system, as rows of `bytes`, and keeps them, as far as limit and system allow. Every
    /// page is written once, by all processors: a virtual machine gets many of its pages only then, at microseconds each.
    pub fn reserve(self: &Arc<Self>, bytes: usize, total_bytes: u64) {
        let in_use_bytes = self.state.lock().unwrap_or_else(PoisonError::into_inner).in_use_bytes;
        let room = total_bytes.min(self.limit_bytes.saturating_sub(in_use_bytes));
        let count = room / bytes.next_multiple_of(ALIGNMENT) as u64;
        let mut rows: Vec<Row> = (0..count).map_while(|_| self.row(bytes).ok()).collect();
        let share = rows.len().div_ceil(thread::available_parallelism().map_or(1, usize::from)).max(1);
        thread::scope(|scope| {
            for part in rows.chunks_mut(share) {
                // Without a further thread these pages come at their first use.
                let _ = thread::Builder::new().spawn_scoped(scope, move || {
                    for page in part.iter_mut().flat_map(|row| row.bytes_mut().chunks_mut(ALIGNMENT)) {
                        page[0] = 0;
                    }
                });
            }
        });
    }

    fn take_back(&self, pages: Pages) {
        let bytes = pages.bytes().len();
        let size = bytes as u64;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.in_use_bytes -= size;
        if state.in_use_bytes + state.kept_bytes + size <= self.limit_bytes {
            state.kept_bytes += size;
            state.by_bytes.entry(bytes).or_default().push(pages);
        }
    }

    #[cfg(test)]
    fn held_bytes(&self) -> (u64, u64) {
        let state = self.state.lock().unwrap();
        (state.in_use_bytes, state.kept_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_lie_at_page_boundaries() {
        for bytes in [1, 4096, 4097, MAPPED_BYTES, 1 << 19] {
            let row = Pool::new(0).row(bytes).unwrap();
            assert_eq!(row.bytes().as_ptr() as usize % ALIGNMENT, 0);
            assert_eq!(row.bytes().len(), bytes.next_multiple_of(ALIGNMENT));
        }
    }

    #[test]
    fn a_pool_keeps_no_more_than_its_limit() {
        let pool = Pool::new(3 * 4096);
        let rows: Vec<Row> = (0..3).map(|_| pool.row(4096).unwrap()).collect();
        assert_eq!(pool.held_bytes(), (3 * 4096, 0));
        drop(rows);
        assert_eq!(pool.held_bytes(), (0, 3 * 4096));
        let one = pool.row(4096).unwrap();
        assert_eq!(pool.held_bytes(), (4096, 2 * 4096));
        // Another size: kept buffers make room.
        let two = pool.row(2 * 4096).unwrap();
        assert_eq!(pool.held_bytes(), (3 * 4096, 0));
        drop((one, two));
        assert_eq!(pool.held_bytes(), (0, 3 * 4096));
    }

    #[test]
    fn what_is_reserved_is_kept_up_to_the_limit() {
        let pool = Pool::new(5 * MAPPED_BYTES as u64);
        let row = pool.row(MAPPED_BYTES).unwrap();
        pool.reserve(MAPPED_BYTES, 2 * MAPPED_BYTES as u64);
        assert_eq!(pool.held_bytes(), (MAPPED_BYTES as u64, 2 * MAPPED_BYTES as u64));
        pool.reserve(MAPPED_BYTES, 9 * MAPPED_BYTES as u64);
        assert_eq!(pool.held_bytes(), (MAPPED_BYTES as u64, 4 * MAPPED_BYTES as u64));
        drop(row);
        assert_eq!(pool.held_bytes(), (0, 5 * MAPPED_BYTES as u64));
    }
}
