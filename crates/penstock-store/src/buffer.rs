//! Memory for rows: aligned for direct I/O, counted, and used again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytemuck::{Pod, Zeroable, cast_slice, cast_slice_mut, zeroed_slice_box};

use crate::shape::ALIGNMENT;

/// The unit that direct I/O asks for: a page, at a page's boundary.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(4096))]
struct Page([u8; ALIGNMENT]);

/// A buffer of whole pages. Dropped, it goes back to its pool.
pub struct Row {
    pages: Box<[Page]>,
    pool: Option<Arc<Pool>>,
}

impl Row {
    /// A buffer of at least `bytes`, without a pool.
    pub fn new(bytes: usize) -> Self {
        Self { pages: zeroed_slice_box(bytes.div_ceil(ALIGNMENT)), pool: None }
    }

    pub fn bytes(&self) -> &[u8] {
        cast_slice(&self.pages)
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        cast_slice_mut(&mut self.pages)
    }

    /// The buffer as words. A row of a small ring fills only the first N of them.
    pub fn words(&self) -> &[u64] {
        cast_slice(&self.pages)
    }

    pub fn words_mut(&mut self) -> &mut [u64] {
        cast_slice_mut(&mut self.pages)
    }
}

impl Drop for Row {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.take() {
            pool.take_back(std::mem::take(&mut self.pages));
        }
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
    by_pages: HashMap<usize, Vec<Box<[Page]>>>,
}

impl Pool {
    pub fn new(limit_bytes: u64) -> Arc<Self> {
        Arc::new(Self { limit_bytes, state: Mutex::default() })
    }

    /// A buffer of at least `bytes`; what it holds is left over from its last use.
    pub fn row(self: &Arc<Self>, bytes: usize) -> Row {
        let pages = bytes.div_ceil(ALIGNMENT);
        let size = (pages * ALIGNMENT) as u64;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.in_use_bytes += size;
        let known = state.by_pages.get_mut(&pages).and_then(Vec::pop);
        if known.is_some() {
            state.kept_bytes -= size;
        } else if state.in_use_bytes + state.kept_bytes > self.limit_bytes {
            // Kept buffers of another size are in the way.
            state.by_pages.clear();
            state.kept_bytes = 0;
        }
        drop(state);
        Row { pages: known.unwrap_or_else(|| zeroed_slice_box(pages)), pool: Some(self.clone()) }
    }

    fn take_back(&self, pages: Box<[Page]>) {
        let size = (pages.len() * ALIGNMENT) as u64;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.in_use_bytes -= size;
        if state.in_use_bytes + state.kept_bytes + size <= self.limit_bytes {
            state.kept_bytes += size;
            state.by_pages.entry(pages.len()).or_default().push(pages);
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
        for bytes in [1, 4096, 4097, 1 << 19] {
            let row = Row::new(bytes);
            assert_eq!(row.bytes().as_ptr() as usize % ALIGNMENT, 0);
            assert_eq!(row.bytes().len(), bytes.next_multiple_of(ALIGNMENT));
        }
    }

    #[test]
    fn a_pool_keeps_no_more_than_its_limit() {
        let pool = Pool::new(3 * 4096);
        let rows: Vec<Row> = (0..3).map(|_| pool.row(4096)).collect();
        assert_eq!(pool.held_bytes(), (3 * 4096, 0));
        drop(rows);
        assert_eq!(pool.held_bytes(), (0, 3 * 4096));
        let one = pool.row(4096);
        assert_eq!(pool.held_bytes(), (4096, 2 * 4096));
        // Another size: what is kept makes room.
        let two = pool.row(2 * 4096);
        assert_eq!(pool.held_bytes(), (3 * 4096, 0));
        drop((one, two));
        assert_eq!(pool.held_bytes(), (0, 3 * 4096));
    }
}
