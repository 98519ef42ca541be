//! The logical-to-physical table where it is in NAND: a few pages of it are at hand, the least
//! recently used leaves, and a request whose page of the table is missing waits until it is read.

use std::collections::HashMap;

use super::jobs::{NONE, Queue};
use super::spec::MappingSpec;

#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) page: u64,
    pub(crate) is_loading: bool,
    /// Requests that wait for it.
    pub(crate) waiting: Queue,
    newer: u32,
    older: u32,
}

#[derive(Debug, Clone)]
pub(crate) struct Table {
    pub(crate) entries: u64,
    capacity: usize,
    pub(crate) ahead: bool,
    pub(crate) slots: Vec<Entry>,
    free: Vec<u32>,
    pub(crate) find: HashMap<u64, u32>,
    newest: u32,
    oldest: u32,
    /// Pages of the table that have been read.
    pub(crate) reads: u64,
}

impl Table {
    pub(crate) fn new(spec: &MappingSpec) -> Self {
        Self {
            entries: u64::from(spec.entries),
            capacity: spec.cached_pages as usize,
            ahead: spec.ahead,
            slots: Vec::new(),
            free: Vec::new(),
            find: HashMap::new(),
            newest: NONE,
            oldest: NONE,
            reads: 0,
        }
    }

    /// The slot of a page, which becomes the newest, and whether it was there.
    pub(crate) fn touch(&mut self, page: u64) -> (u32, bool) {
        if self.newest != NONE && self.slots[self.newest as usize].page == page {
            return (self.newest, true);
        }
        if let Some(&slot) = self.find.get(&page) {
            self.unlink(slot);
            self.link(slot);
            return (slot, true);
        }
        let entry = Entry { page, is_loading: true, waiting: Queue::default(), newer: NONE, older: NONE };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = entry;
                slot
            }
            None => {
                self.slots.push(entry);
                (self.slots.len() - 1) as u32
            }
        };
        self.find.insert(page, slot);
        self.link(slot);
        (slot, false)
    }

    fn link(&mut self, slot: u32) {
        self.slots[slot as usize].older = self.newest;
        self.slots[slot as usize].newer = NONE;
        match self.newest {
            NONE => self.oldest = slot,
            newest => self.slots[newest as usize].newer = slot,
        }
        self.newest = slot;
    }

    fn unlink(&mut self, slot: u32) {
        let Entry { newer, older, .. } = self.slots[slot as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.slots[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.slots[older as usize].newer = newer,
        }
    }

    /// The oldest pages that are there leave, until no more than the capacity stay.
    pub(crate) fn evict(&mut self) {
        let mut slot = self.oldest;
        while self.find.len() > self.capacity && slot != NONE {
            let newer = self.slots[slot as usize].newer;
            if !self.slots[slot as usize].is_loading {
                self.unlink(slot);
                self.find.remove(&self.slots[slot as usize].page);
                self.free.push(slot);
            }
            slot = newer;
        }
    }

    /// Entries from the newest to the oldest.
    pub(crate) fn by_age(&self) -> impl Iterator<Item = &Entry> {
        let mut slot = self.newest;
        std::iter::from_fn(move || {
            let entry = (slot != NONE).then(|| &self.slots[slot as usize])?;
            slot = entry.older;
            Some(entry)
        })
    }

    /// Every page number grows by so many.
    pub(crate) fn shift(&mut self, pages: u64) {
        for &slot in self.find.values() {
            self.slots[slot as usize].page += pages;
        }
        self.find = self.find.drain().map(|(page, slot)| (page + pages, slot)).collect();
    }
}
