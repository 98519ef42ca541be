//! Writes on their way into the flash, and what garbage collection moves.

use super::calendar::Kind;
use super::jobs::Class;
use super::observer::Observer;
use super::state::Run;
use super::translation::Step;

impl<O: Observer> Run<'_, O> {
    /// A write is in the write buffer, which for the host is its end. It goes on to the flash.
    pub(crate) fn write_is_buffered(&mut self, at: u32) {
        self.write_latency.add(self.now - self.jobs[at].since);
        let Some(translation) = &mut self.translation else { return };
        let plane = translation.plane_of(self.jobs[at].logical);
        match translation.row_for_host(plane) {
            Some(row) => {
                self.jobs[at].row = row;
                self.enqueue(at);
            }
            None => translation.wait(plane, at),
        }
        self.collect(plane);
    }

    /// Pages of a die are programmed.
    pub(crate) fn programmed(&mut self, die: u16) {
        let channel = (u32::from(die) / self.dies_per_channel) as u8;
        let mut done = std::mem::take(&mut self.dies[die as usize].inside);
        self.release(die, channel);
        while let Some(at) = done.pop(&self.jobs) {
            let (class, logical, row) = (self.jobs[at].class, self.jobs[at].logical, self.jobs[at].row);
            self.jobs.remove(at);
            let Some(translation) = &mut self.translation else { return };
            let plane = translation.plane_of(logical);
            if class == Class::Move {
                translation.commit_moved(logical, row);
                self.step(plane);
            } else {
                translation.commit_host(logical, row);
                self.write_room += 1;
                self.begin_writes();
            }
            self.collect(plane);
        }
    }

    /// A block is erased.
    pub(crate) fn erased(&mut self, die: u16) {
        let channel = (u32::from(die) / self.dies_per_channel) as u8;
        let mut done = std::mem::take(&mut self.dies[die as usize].inside);
        self.release(die, channel);
        while let Some(at) = done.pop(&self.jobs) {
            let Some(translation) = &mut self.translation else { return };
            let plane = translation.plane_of(self.jobs[at].logical);
            self.jobs.remove(at);
            translation.erased(plane);
            while let Some((write, row)) = self.translation.as_mut().and_then(|each| each.next_waiting(plane)) {
                self.jobs[write].row = row;
                self.enqueue(write);
            }
            self.collect(plane);
        }
    }

    /// Begins garbage collection where it must.
    fn collect(&mut self, plane: usize) {
        if self.translation.as_mut().is_some_and(|translation| translation.begin_collection(plane)) {
            self.step(plane);
        }
    }

    /// The next move of a plane's garbage collection, one at a time.
    fn step(&mut self, plane: usize) {
        let Some(translation) = &mut self.translation else { return };
        let place = self.layout.places[plane];
        let at = match translation.next_step(plane) {
            Step::Nothing => return,
            Step::Move { logical, row } => self.start_at(Class::Move, logical, place, row, self.now),
            Step::Erase { row } => self.start_at(Class::Erase, plane as u64, place, row, self.now),
        };
        self.enqueue(at);
    }

    /// A page that is moved has been read: it is programmed elsewhere in its plane.
    pub(crate) fn move_was_read(&mut self, at: u32) {
        let Some(translation) = &mut self.translation else { return };
        let plane = translation.plane_of(self.jobs[at].logical);
        // The last free block is never given to the host, so there is a row.
        if let Some(row) = translation.row_for_moved(plane) {
            self.jobs[at].row = row;
            self.jobs[at].programs = true;
            self.enqueue(at);
        } else {
            self.calendar.push(self.now + self.spec.timing.erase.max(1), Kind::Corrected, at);
        }
    }
}
