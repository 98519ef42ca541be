//! A request finds its page's place, for which a page of the table may have to be read first.

use super::jobs::Class;
use super::observer::Observer;
use super::state::Run;

impl<O: Observer> Run<'_, O> {
    /// A request finds its page's place, and then joins its die's queue.
    #[inline]
    pub(crate) fn look_up(&mut self, at: u32) {
        if self.table.is_none() {
            self.enqueue(at);
        } else {
            self.look_up_in_table(at);
        }
    }

    fn look_up_in_table(&mut self, at: u32) {
        let Some(table) = &mut self.table else { return };
        let job = &self.jobs[at];
        let page = job.logical / table.entries;
        let ahead = table.ahead && job.class == Class::Scan && !self.spec.is_random();
        let (slot, was_there) = table.touch(page);
        let entry = &mut table.slots[slot as usize];
        let waits = entry.is_loading;
        if waits {
            entry.waiting.push(&mut self.jobs, at);
        }
        let last = (self.spec.first_page + self.spec.pages).saturating_sub(1) / table.entries;
        let next = (ahead && page < last && !table.find.contains_key(&(page + 1))).then(|| table.touch(page + 1));
        if !was_there {
            self.load(page);
        }
        if next.is_some() {
            self.load(page + 1);
        }
        if !waits {
            self.enqueue(at);
        }
    }

    /// Reads a page of the table. They are spread over all planes, in rows behind all data.
    fn load(&mut self, page: u64) {
        let width = self.layout.width();
        let place = self.layout.places[(page % width) as usize];
        let row = u32::MAX - (page / width) as u32;
        let at = self.start_at(Class::Table, page, place, row, self.now);
        self.enqueue(at);
    }

    pub(crate) fn table_page_is_there(&mut self, at: u32) {
        let page = self.jobs[at].logical;
        self.jobs.remove(at);
        let Some(table) = &mut self.table else { return };
        table.reads += 1;
        let Some(&slot) = table.find.get(&page) else { return };
        let entry = &mut table.slots[slot as usize];
        entry.is_loading = false;
        let mut waiting = std::mem::take(&mut entry.waiting);
        table.evict();
        while let Some(at) = waiting.pop(&self.jobs) {
            self.enqueue(at);
        }
    }
}
