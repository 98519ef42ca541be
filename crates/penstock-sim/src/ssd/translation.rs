//! The flash translation layer under writes: where each page is now, which blocks are free, what garbage collection and
//! wear-levelling move. A page that was never written lies at its number, so the table holds written pages only. A page
//! stays in its plane, so no plane can fill while others have room.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, VecDeque};

use super::spec::RunSpec;
use crate::{Error, error::conserve};

const INVALID: u64 = u64::MAX;

/// The content of a block that has been written, or has lost a page.
#[derive(Debug, Clone)]
enum Content {
    /// As at first: the pages that are still valid, one bit each, inverted.
    Original(Vec<u64>),
    /// Logical page of each page.
    Written(Vec<u64>),
}

#[derive(Debug, Clone)]
struct Block {
    content: Content,
    invalid: u32,
    programmed: u32,
}

/// A block that is being filled, and its next page.
#[derive(Debug, Clone, Copy)]
struct Active {
    block: u32,
    next: u32,
}

/// The data leaving a plane's block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Collection {
    victim: u32,
    next: u32,
    /// Row of the page that is on its way.
    source: u32,
    /// It levels wear, and does not make room.
    is_cold: bool,
}

#[derive(Debug, Clone, Default)]
struct Plane {
    /// (erases, block)
    free: BTreeSet<(u32, u32)>,
    blocks: HashMap<u32, Block>,
    /// Full blocks with invalid pages, most of them first.
    victims: BTreeSet<(Reverse<u32>, u32)>,
    erases: Vec<u32>,
    host: Option<Active>,
    moved: Option<Active>,
    /// Cold pages have a separate block, so that they do not move again with others.
    cold: Option<Active>,
    collection: Option<Collection>,
    /// Writes that wait for a free page.
    waiting: VecDeque<u32>,
}

/// What a plane's garbage collection does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing to do.
    Nothing,
    /// Move this logical page, which is in this row.
    Move { logical: u64, row: u32 },
    /// Erase the block that begins in this row.
    Erase { row: u32 },
}

#[derive(Debug, Clone)]
pub(crate) struct Translation {
    moved_to: HashMap<u64, u64>,
    planes: Vec<Plane>,
    width: u64,
    block_pages: u32,
    user_blocks: u32,
    collect_below: usize,
    wear_gap: u32,
    pub(crate) host_pages: u64,
    pub(crate) moved_pages: u64,
    pub(crate) erases: u64,
    pub(crate) max_erases: u32,
}

impl Translation {
    pub(crate) fn new(spec: &RunSpec) -> Self {
        let geometry = &spec.geometry;
        let user_blocks = geometry.blocks_per_plane - geometry.spare_blocks;
        let plane = Plane {
            free: (user_blocks..geometry.blocks_per_plane).map(|block| (0, block)).collect(),
            erases: vec![0; geometry.blocks_per_plane as usize],
            ..Plane::default()
        };
        Self {
            moved_to: HashMap::new(),
            planes: vec![plane; geometry.planes() as usize],
            width: geometry.planes(),
            block_pages: geometry.pages_per_block,
            user_blocks,
            collect_below: spec.collect_below as usize,
            wear_gap: spec.wear_gap,
            host_pages: 0,
            moved_pages: 0,
            erases: 0,
            max_erases: 0,
        }
    }

    /// Physical page of a logical one.
    pub(crate) fn find(&self, logical: u64) -> u64 {
        self.moved_to.get(&logical).copied().unwrap_or(logical)
    }

    pub(crate) fn plane_of(&self, logical: u64) -> usize {
        (logical % self.width) as usize
    }

    /// A row for a page that the host writes; `None` until a block has been erased.
    pub(crate) fn row_for_host(&mut self, plane: usize) -> Option<u32> {
        let pages = self.block_pages;
        let plane = &mut self.planes[plane];
        // The last free block is for what garbage collection moves.
        let may_open = plane.free.len() > 1;
        Self::next_row(&mut plane.host, pages, || if may_open { plane.free.pop_first() } else { None })
    }

    /// A row for a page that is moved; cold ones go to the most worn block.
    pub(crate) fn row_for_moved(&mut self, plane: usize) -> Option<u32> {
        let pages = self.block_pages;
        let plane = &mut self.planes[plane];
        if plane.collection.is_some_and(|collection| collection.is_cold) {
            Self::next_row(&mut plane.cold, pages, || plane.free.pop_last())
        } else {
            Self::next_row(&mut plane.moved, pages, || plane.free.pop_first())
        }
    }

    fn next_row(active: &mut Option<Active>, pages: u32, open: impl FnOnce() -> Option<(u32, u32)>) -> Option<u32> {
        let now = match *active {
            Some(now) if now.next < pages => now,
            _ => Active { block: open()?.1, next: 0 },
        };
        *active = Some(Active { next: now.next + 1, ..now });
        Some(now.block * pages + now.next)
    }

    pub(crate) fn wait(&mut self, plane: usize, job: u32) {
        self.planes[plane].waiting.push_back(job);
    }

    /// The write that waits longest, if any, and the row that it may now have.
    pub(crate) fn next_waiting(&mut self, plane: usize) -> Option<(u32, u32)> {
        self.planes[plane].waiting.front()?;
        let row = self.row_for_host(plane)?;
        self.planes[plane].waiting.pop_front().map(|job| (job, row))
    }

    /// A page that the host wrote is programmed.
    pub(crate) fn commit_host(&mut self, logical: u64, row: u32) {
        self.host_pages += 1;
        self.commit(logical, row, true);
    }

    /// A page that was moved is programmed. If the host has written it meanwhile, the copy is stale.
    pub(crate) fn commit_moved(&mut self, logical: u64, row: u32) {
        self.moved_pages += 1;
        let plane = self.plane_of(logical);
        let source = self.planes[plane].collection.map(|collection| collection.source);
        let current = (self.find(logical) / self.width) as u32;
        self.commit(logical, row, source == Some(current));
    }

    fn commit(&mut self, logical: u64, row: u32, is_current: bool) {
        let index = self.plane_of(logical);
        let (block, page) = (row / self.block_pages, row % self.block_pages);
        if is_current {
            let old = (self.find(logical) / self.width) as u32;
            self.invalidate(index, old);
            self.moved_to.insert(logical, u64::from(row) * self.width + index as u64);
        }
        let pages = self.block_pages;
        let plane = &mut self.planes[index];
        let this = plane.blocks.entry(block).or_insert_with(|| Block {
            content: Content::Written(vec![INVALID; pages as usize]),
            invalid: 0,
            programmed: 0,
        });
        this.programmed += 1;
        match &mut this.content {
            Content::Written(logicals) if is_current => logicals[page as usize] = logical,
            _ => this.invalid += 1,
        }
        if this.programmed == pages && this.invalid > 0 {
            plane.victims.insert((Reverse(this.invalid), block));
        }
    }

    fn invalidate(&mut self, index: usize, row: u32) {
        let (block, page) = (row / self.block_pages, row % self.block_pages);
        let pages = self.block_pages;
        let plane = &mut self.planes[index];
        let this = plane.blocks.entry(block).or_insert_with(|| Block {
            content: Content::Original(vec![0; pages.div_ceil(64) as usize]),
            invalid: 0,
            programmed: pages,
        });
        match &mut this.content {
            Content::Original(gone) => gone[(page / 64) as usize] |= 1 << (page % 64),
            Content::Written(logicals) => logicals[page as usize] = INVALID,
        }
        let is_full = this.programmed == pages;
        let is_victim = plane.collection.is_some_and(|collection| collection.victim == block);
        if is_full && !is_victim {
            plane.victims.remove(&(Reverse(this.invalid), block));
            plane.victims.insert((Reverse(this.invalid + 1), block));
        }
        this.invalid += 1;
    }

    /// The logical page in a row, if it is valid.
    fn valid(&self, index: usize, row: u32) -> Option<u64> {
        let (block, page) = (row / self.block_pages, row % self.block_pages);
        let original = u64::from(row) * self.width + index as u64;
        match self.planes[index].blocks.get(&block).map(|block| &block.content) {
            None => Some(original),
            Some(Content::Original(gone)) => (gone[(page / 64) as usize] >> (page % 64) & 1 == 0).then_some(original),
            Some(Content::Written(logicals)) => Some(logicals[page as usize]).filter(|&logical| logical != INVALID),
        }
    }

    /// Begins to collect a plane's garbage if it must and is not at it: whether it has begun.
    pub(crate) fn begin_collection(&mut self, index: usize) -> bool {
        let plane = &self.planes[index];
        if plane.collection.is_some() || plane.free.len() >= self.collect_below {
            return false;
        }
        let cold = self.cold_block(index);
        let Some(victim) = cold.or_else(|| plane.victims.first().map(|&(_, block)| block)) else { return false };
        let plane = &mut self.planes[index];
        if let Some(block) = plane.blocks.get(&victim) {
            plane.victims.remove(&(Reverse(block.invalid), victim));
        }
        plane.collection = Some(Collection { victim, next: 0, source: 0, is_cold: cold.is_some() });
        true
    }

    /// The full block with the fewest erases, if the free blocks are so much more worn: its cold pages go
    /// into a worn block, and it takes the next writes.
    fn cold_block(&self, index: usize) -> Option<u32> {
        if self.wear_gap == 0 {
            return None;
        }
        let plane = &self.planes[index];
        let (freshest, _) = *plane.free.first()?;
        let is_filling =
            |block| [plane.host, plane.moved, plane.cold].iter().flatten().any(|active| active.block == block);
        let is_full = |block: u32| match plane.blocks.get(&block) {
            Some(this) => this.programmed == self.block_pages,
            // Never written: full if it is as at first.
            None => block < self.user_blocks && plane.erases[block as usize] == 0 && !is_filling(block),
        };
        let blocks = 0..plane.erases.len() as u32;
        let coldest = blocks.filter(|&block| is_full(block)).min_by_key(|&block| plane.erases[block as usize])?;
        (freshest > plane.erases[coldest as usize] + self.wear_gap).then_some(coldest)
    }

    /// What a plane's garbage collection does next.
    pub(crate) fn next_step(&mut self, index: usize) -> Step {
        let Some(mut collection) = self.planes[index].collection else { return Step::Nothing };
        while collection.next < self.block_pages {
            let row = collection.victim * self.block_pages + collection.next;
            collection.next += 1;
            if let Some(logical) = self.valid(index, row) {
                collection.source = row;
                self.planes[index].collection = Some(collection);
                return Step::Move { logical, row };
            }
        }
        self.planes[index].collection = Some(collection);
        Step::Erase { row: collection.victim * self.block_pages }
    }

    /// The block of a plane's collection is erased.
    pub(crate) fn erased(&mut self, index: usize) {
        let plane = &mut self.planes[index];
        let Some(collection) = plane.collection.take() else { return };
        let erases = &mut plane.erases[collection.victim as usize];
        *erases += 1;
        plane.blocks.remove(&collection.victim);
        plane.free.insert((*erases, collection.victim));
        self.max_erases = self.max_erases.max(*erases);
        self.erases += 1;
    }

    /// Every logical page that was written is in exactly the row that the table says, and none waits.
    pub(crate) fn account(&self) -> Result<(), Error> {
        let mut written = 0;
        for (index, plane) in self.planes.iter().enumerate() {
            conserve("writes that wait for a free page at the end", plane.waiting.len() as i128, 0)?;
            conserve("collections under way at the end", i128::from(plane.collection.is_some()), 0)?;
            for (&block, this) in &plane.blocks {
                let Content::Written(logicals) = &this.content else { continue };
                let mut valid = 0;
                for (page, &logical) in logicals.iter().enumerate() {
                    if logical == INVALID {
                        continue;
                    }
                    valid += 1;
                    let row = u64::from(block * self.block_pages) + page as u64;
                    let physical = row * self.width + index as u64;
                    conserve("where a written page is", self.find(logical).into(), physical.into())?;
                }
                conserve(
                    "valid and invalid pages of a block",
                    valid + i128::from(this.invalid),
                    this.programmed.into(),
                )?;
                written += valid;
            }
        }
        conserve("pages that were written and are somewhere", written, self.moved_to.len() as i128)
    }
}
