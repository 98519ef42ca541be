use crate::Accesses;
use crate::cache::{Fate, Policy, PolicyEntry, run};
use crate::rings::Rings;

pub const ENTRY: PolicyEntry = PolicyEntry {
    name: "s3-fifo",
    summary: "a small queue for newcomers, a main queue for what is used again",
    optimal: false,
    knows_future: false,
    replay: |accesses, capacity, detail, watch| run(accesses, capacity, S3Fifo::new(accesses, capacity), detail, watch),
};

const SMALL: u32 = 0;
const MAIN: u32 = 1;
const GHOST: u32 = 2;
const NOWHERE: u8 = 3;

/// The share of the capacity that new objects have to prove themselves in: one in this many bytes.
const SMALL_SHARE: u64 = 10;
/// Uses that are counted; an object that leaves the small queue with more than one goes to the main.
const MOST_USES: u8 = 3;

/// S3-FIFO: a small queue for newcomers, a main queue for objects used again, and a ghost queue that remembers objects
/// that left the small one. Cheap, and hard to flood with objects that are used once.
///
/// - A newcomer enters the small queue, or the main one if the ghost queue remembers it.
/// - Every use of a resident counts, up to 3.
/// - Room is made in the small queue while it holds a tenth of the capacity or more, else in the
///   main one. The oldest of the small queue goes to the main one if it was used more than once,
///   and its count starts again; otherwise it leaves, and the ghost queue remembers it. The oldest
///   of the main queue goes to its end with one use less, or leaves if it has none left.
/// - The ghost queue remembers objects of as many bytes as the main queue may have, nine tenths.
///
/// Sizes are in bytes, where the paper counts objects. The incoming object, where a part of it is
/// resident, is passed over.
///
/// Source: Yang, Zhang, Qiu, Yue, Vinayak, FIFO queues are all you need for cache eviction, SOSP
/// 2023, algorithm 1.
pub struct S3Fifo {
    queues: Rings,
    place: Vec<u8>,
    uses: Vec<u8>,
    /// Bytes of the objects in the ghost queue.
    ghost_size: Vec<u64>,
    small_bytes: u64,
    small_limit: u64,
    ghost_bytes: u64,
    ghost_limit: u64,
}

impl S3Fifo {
    pub fn new(accesses: &Accesses<'_>, capacity: u64) -> Self {
        let num_objects = accesses.num_objects();
        Self {
            queues: Rings::new(num_objects, 3),
            place: vec![NOWHERE; num_objects],
            uses: vec![0; num_objects],
            ghost_size: vec![0; num_objects],
            small_bytes: 0,
            small_limit: capacity / SMALL_SHARE,
            ghost_bytes: 0,
            ghost_limit: capacity - capacity / SMALL_SHARE,
        }
    }

    #[inline]
    fn push(&mut self, queue: u32, object: u32) {
        self.queues.push(queue, object);
        self.place[object as usize] = queue as u8;
    }

    fn remember(&mut self, object: u32, bytes: u64) {
        self.push(GHOST, object);
        self.ghost_size[object as usize] = bytes;
        self.ghost_bytes += bytes;
        while self.ghost_bytes > self.ghost_limit {
            let Some(oldest) = self.queues.oldest(GHOST) else { break };
            self.forget(oldest);
        }
    }

    fn forget(&mut self, object: u32) {
        self.queues.unlink(object);
        self.place[object as usize] = NOWHERE;
        self.ghost_bytes -= self.ghost_size[object as usize];
    }
}

impl Policy for S3Fifo {
    #[inline]
    fn touch(&mut self, object: u32, _at: u32) -> Fate {
        let uses = &mut self.uses[object as usize];
        *uses = (*uses + 1).min(MOST_USES);
        Fate::Keep
    }

    #[inline]
    fn make_room(&mut self, object: u32, _at: u32, needed: u64, resident: &[u64], victims: &mut Vec<u32>) -> bool {
        let mut freed = 0;
        while freed < needed {
            let small = self.queues.oldest_except(SMALL, object);
            let main = self.queues.oldest_except(MAIN, object);
            match (small, main) {
                (Some(oldest), main) if self.small_bytes >= self.small_limit || main.is_none() => {
                    let bytes = resident[oldest as usize];
                    self.queues.unlink(oldest);
                    self.small_bytes -= bytes;
                    if self.uses[oldest as usize] > 1 {
                        self.uses[oldest as usize] = 0;
                        self.push(MAIN, oldest);
                    } else {
                        self.remember(oldest, bytes);
                        freed += bytes;
                        victims.push(oldest);
                    }
                }
                (_, Some(oldest)) => {
                    self.queues.unlink(oldest);
                    if self.uses[oldest as usize] > 0 {
                        self.uses[oldest as usize] -= 1;
                        self.queues.push(MAIN, oldest);
                    } else {
                        self.place[oldest as usize] = NOWHERE;
                        freed += resident[oldest as usize];
                        victims.push(oldest);
                    }
                }
                _ => break,
            }
        }
        true
    }

    #[inline]
    fn insert(&mut self, object: u32, _at: u32, bytes: u64) {
        self.uses[object as usize] = 0;
        if u32::from(self.place[object as usize]) == GHOST {
            self.forget(object);
            self.push(MAIN, object);
        } else {
            self.push(SMALL, object);
            self.small_bytes += bytes;
        }
    }

    #[inline]
    fn grow(&mut self, object: u32, more: u64) {
        if u32::from(self.place[object as usize]) == SMALL {
            self.small_bytes += more;
        }
    }
}
