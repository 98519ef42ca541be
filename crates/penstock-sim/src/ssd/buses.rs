//! The order of bus grants, and the data that leaves a bus.

use super::calendar::Kind;
use super::flash::{Array, after, take_group};
use super::jobs::Class;
use super::observer::{Interval, Lane, Observer};
use super::state::Run;

impl<O: Observer> Run<'_, O> {
    /// Gives free buses to whoever may have them, in the order of channels.
    #[inline]
    pub(crate) fn grant_all(&mut self) {
        while self.touched != 0 {
            let channel = self.touched.trailing_zeros();
            self.touched &= self.touched - 1;
            if !self.buses[channel as usize].busy {
                self.grant(channel);
            }
        }
    }

    /// The one place where a bus is given: see the two policies in the module's documentation.
    #[inline]
    fn grant(&mut self, channel: u32) {
        let _granted = if self.spec.behaviour.convoy {
            self.grant_send(channel) || self.grant_command(channel) || self.grant_fill(channel)
        } else {
            self.grant_command(channel)
                || (self.buses[channel as usize].fill_next && self.grant_fill(channel))
                || self.grant_send(channel)
                || self.grant_fill(channel)
        };
    }

    #[inline(always)]
    fn observe(&mut self, lane: Lane, work: &'static str, start: i64, end: i64) {
        self.observer.busy(Interval { lane, work, start, end, page: None });
    }

    /// Begins a read or an erase.
    #[inline]
    fn grant_command(&mut self, channel: u32) -> bool {
        let bus = &mut self.buses[channel as usize];
        let Some(bit) = after(bus.commands & !bus.blocked, bus.last_command) else { return false };
        bus.last_command = bit;
        bus.busy = true;
        bus.blocked |= self.chip_masks[bit as usize];
        let die = (channel * self.dies_per_channel + bit) as u16;
        let timing = &self.spec.timing;
        let this = &mut self.dies[die as usize];
        let is_erase = this.reads.is_empty() || (this.writes_turn && !this.writes.is_empty());
        let (taken, works, ends) = if is_erase {
            if let Some(at) = this.writes.pop(&self.jobs) {
                this.inside.push(&mut self.jobs, at);
            }
            this.array = Array::Erasing;
            this.writes_turn = false;
            (timing.erase_command, timing.erase, Kind::Erased)
        } else {
            let further = take_group(&mut this.reads, &mut this.inside, &mut self.jobs, self.group);
            this.array = Array::Sensing;
            this.writes_turn = true;
            (timing.read_command + further * timing.further_plane, timing.sense, Kind::Sensed)
        };
        bus.taken += taken;
        self.array_busy += works;
        let (free, done) = (self.now + taken, self.now + taken + works);
        self.observe(Lane::Channel(channel), "command", self.now, free);
        self.observe(Lane::Die(die.into()), if is_erase { "erase" } else { "sense" }, free, done);
        self.calendar.push(free, Kind::Commanded, channel);
        self.calendar.push(done, ends, u32::from(die));
        self.update(die, channel as u8);
        true
    }

    /// Sends a page, of the die that sent last if it has more, and if there is room for it.
    #[inline]
    fn grant_send(&mut self, channel: u32) -> bool {
        let bus = &self.buses[channel as usize];
        let mut left = bus.sends;
        let mut bit = bus.last_send;
        if left >> bit & 1 == 0 {
            match after(left, bit) {
                Some(next) => bit = next,
                None => return false,
            }
        }
        loop {
            let die = channel * self.dies_per_channel + bit;
            let at = self.dies[die as usize].out.first;
            if self.make_room(at, channel as u8) {
                self.send(channel, bit, die as usize);
                return true;
            }
            left &= !(1 << bit);
            match after(left, bit) {
                Some(next) => bit = next,
                None => return false,
            }
        }
    }

    #[inline]
    fn send(&mut self, channel: u32, bit: u32, die: usize) {
        let this = &mut self.dies[die];
        let bus = &mut self.buses[channel as usize];
        let Some(at) = this.out.pop(&self.jobs) else { return };
        this.sending = true;
        if this.out.is_empty() {
            bus.sends &= !(1 << bit);
        }
        bus.last_send = bit;
        bus.busy = true;
        bus.fill_next = true;
        // Garbage collection and the table need whole pages; a request may be a part of one.
        let job = &self.jobs[at];
        let whole = matches!(job.class, Class::Move | Class::Table);
        let taken = if whole { self.spec.timing.data_in } else { self.spec.timing.data_out };
        bus.taken += taken;
        let (start, end) = (self.now, self.now + taken);
        let (work, page) = (job.class.name(), Some(job.logical));
        self.observer.busy(Interval { lane: Lane::Channel(channel), work, start, end, page });
        self.calendar.push(end, Kind::Sent, at);
    }

    /// Begins to program: the data goes over the bus first.
    fn grant_fill(&mut self, channel: u32) -> bool {
        let bus = &mut self.buses[channel as usize];
        let Some(bit) = after(bus.fills & !bus.blocked, bus.last_fill) else { return false };
        bus.last_fill = bit;
        bus.busy = true;
        bus.fill_next = false;
        bus.blocked |= self.chip_masks[bit as usize];
        let die = (channel * self.dies_per_channel + bit) as u16;
        let timing = &self.spec.timing;
        let this = &mut self.dies[die as usize];
        let further = take_group(&mut this.writes, &mut this.inside, &mut self.jobs, self.program_group);
        this.array = Array::Programming;
        this.writes_turn = false;
        let taken = (timing.program_command + timing.data_in) * (further + 1);
        bus.taken += taken;
        self.array_busy += timing.program;
        let (free, done) = (self.now + taken, self.now + taken + timing.program);
        self.observe(Lane::Channel(channel), "write", self.now, free);
        self.observe(Lane::Die(die.into()), "program", free, done);
        self.calendar.push(free, Kind::Filled, channel);
        self.calendar.push(done, Kind::Programmed, u32::from(die));
        self.update(die, channel as u8);
        true
    }

    /// Pages of a die are sensed: they go to the register that is sent, if it is free.
    #[inline]
    pub(crate) fn sensed(&mut self, die: u16) {
        let channel = (u32::from(die) / self.dies_per_channel) as u8;
        let this = &mut self.dies[die as usize];
        if this.sending || !this.out.is_empty() {
            this.array = Array::Held;
        } else {
            self.fill_register(die, channel);
        }
    }

    #[inline]
    fn fill_register(&mut self, die: u16, channel: u8) {
        let this = &mut self.dies[die as usize];
        this.out = std::mem::take(&mut this.inside);
        let bit = u32::from(die) - u32::from(channel) * self.dies_per_channel;
        self.buses[channel as usize].sends |= 1 << bit;
        if self.cache_read {
            self.release(die, channel);
        } else {
            this.array = Array::Full;
            self.touch(channel);
        }
    }

    /// A page is off the bus.
    #[inline]
    pub(crate) fn sent(&mut self, at: u32) {
        let (die, channel) = (self.jobs[at].die, self.jobs[at].channel);
        self.buses[channel as usize].busy = false;
        self.touch(channel);
        let this = &mut self.dies[die as usize];
        this.sending = false;
        if this.out.is_empty() {
            match this.array {
                Array::Held => self.fill_register(die, channel),
                Array::Full => self.release(die, channel),
                _ => {}
            }
        }
        if self.spec.timing.correction == 0 {
            self.corrected(at);
        } else {
            self.calendar.push(self.now + self.spec.timing.correction, Kind::Corrected, at);
        }
    }
}
