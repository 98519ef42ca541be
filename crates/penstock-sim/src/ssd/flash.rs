//! Dies and buses: what waits, what is busy, and who gets a bus next.

use super::calendar::Kind;
use super::jobs::{Class, Queue};
use super::run::Run;

/// What the cell array of a die does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Array {
    #[default]
    Free,
    Sensing,
    /// Sensed pages wait for the register that is still being sent.
    Held,
    /// Without cache reads: sensed pages are in the only register until they are sent.
    Full,
    Programming,
    Erasing,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Die {
    pub(crate) reads: Queue,
    /// Programs and erases.
    pub(crate) writes: Queue,
    /// Pages in the array or held behind the register.
    pub(crate) inside: Queue,
    /// Pages in the register that are not being sent yet.
    pub(crate) out: Queue,
    pub(crate) array: Array,
    /// A page of the register is on the bus.
    pub(crate) sending: bool,
    /// Where both wait, a write goes next.
    pub(crate) writes_turn: bool,
}

/// One channel's bus, with one bit for each of its dies.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bus {
    pub(crate) busy: bool,
    /// Time for which it was taken so far.
    pub(crate) taken: i64,
    /// Dies with a read or an erase to begin.
    pub(crate) commands: u64,
    /// Dies with pages to program.
    pub(crate) fills: u64,
    /// Dies with pages to send.
    pub(crate) sends: u64,
    /// Dies that cannot begin anything.
    pub(crate) blocked: u64,
    pub(crate) last_command: u32,
    pub(crate) last_send: u32,
    pub(crate) last_fill: u32,
    /// Where both wait, data to program goes before data to send.
    pub(crate) fill_next: bool,
}

/// The first bit of `mask` after bit `last`, around.
#[inline]
fn after(mask: u64, last: u32) -> Option<u32> {
    if mask == 0 {
        return None;
    }
    let later = mask & (u64::MAX << last << 1);
    Some(if later != 0 { later.trailing_zeros() } else { mask.trailing_zeros() })
}

impl Run<'_> {
    /// A job joins its die's queue.
    #[inline]
    pub(crate) fn enqueue(&mut self, at: u32) {
        let (die, channel, programs) = (self.jobs[at].die, self.jobs[at].channel, self.jobs[at].programs);
        let queue = if programs { &mut self.dies[die as usize].writes } else { &mut self.dies[die as usize].reads };
        queue.push(&mut self.jobs, at);
        self.update(die, channel);
    }

    /// A job that failed goes before all others of its die.
    pub(crate) fn enqueue_first(&mut self, at: u32) {
        let (die, channel) = (self.jobs[at].die, self.jobs[at].channel);
        self.dies[die as usize].reads.push_first(&mut self.jobs, at);
        self.update(die, channel);
    }

    /// What a die would begin next.
    #[inline]
    fn update(&mut self, die: u16, channel: u8) {
        let this = &self.dies[die as usize];
        let bit = 1u64 << (u32::from(die) - u32::from(channel) * self.dies_per_channel);
        let bus = &mut self.buses[channel as usize];
        bus.commands &= !bit;
        bus.fills &= !bit;
        if this.writes.is_empty() || (!this.reads.is_empty() && !this.writes_turn) {
            if !this.reads.is_empty() {
                bus.commands |= bit;
            }
        } else if self.jobs[this.writes.first].class == Class::Erase {
            bus.commands |= bit;
        } else {
            bus.fills |= bit;
        }
        self.touch(channel);
    }

    /// The bus of a channel is looked at when all events of this instant have happened.
    #[inline]
    pub(crate) fn touch(&mut self, channel: u8) {
        self.touched |= 1 << channel;
    }

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
        self.calendar.push(self.now + taken, Kind::Commanded, channel);
        self.calendar.push(self.now + taken + works, ends, u32::from(die));
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
        let whole = matches!(self.jobs[at].class, Class::Move | Class::Table);
        let taken = if whole { self.spec.timing.data_in } else { self.spec.timing.data_out };
        bus.taken += taken;
        self.calendar.push(self.now + taken, Kind::Sent, at);
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
        self.calendar.push(self.now + taken, Kind::Filled, channel);
        self.calendar.push(self.now + taken + timing.program, Kind::Programmed, u32::from(die));
        self.update(die, channel as u8);
        true
    }

    /// A die's array has nothing to do any more.
    pub(crate) fn release(&mut self, die: u16, channel: u8) {
        self.dies[die as usize].array = Array::Free;
        let bit = u32::from(die) - u32::from(channel) * self.dies_per_channel;
        self.buses[channel as usize].blocked &= !self.chip_masks[bit as usize];
        self.touch(channel);
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

/// Which jobs one command takes together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Group {
    pub(crate) planes: u32,
    /// Programs: the same page of any block, of so many pages. 0, for reads: the same row.
    pub(crate) block: u32,
}

/// Moves the first job of `from` to `to`, and those right behind it that one command can take with it:
/// other planes, the same row. Returns how many more than one.
#[inline]
fn take_group(from: &mut Queue, to: &mut Queue, jobs: &mut super::jobs::Jobs, group: Group) -> i64 {
    let Some(at) = from.pop(jobs) else { return 0 };
    let class = jobs[at].class;
    let row = jobs[at].row;
    let mut planes = 1u32 << jobs[at].plane;
    to.push(jobs, at);
    let mut further = 0;
    while further + 1 < group.planes && !from.is_empty() {
        let next = &jobs[from.first];
        let alike = next.row == row || (group.block > 0 && next.row % group.block == row % group.block);
        let fits = alike && planes >> next.plane & 1 == 0;
        if !fits || (next.class == Class::Erase) != (class == Class::Erase) {
            break;
        }
        planes |= 1 << next.plane;
        let Some(at) = from.pop(jobs) else { break };
        to.push(jobs, at);
        further += 1;
    }
    i64::from(further)
}

#[cfg(test)]
mod tests {
    use super::after;

    #[test]
    fn dies_take_turns() {
        assert_eq!(after(0b1011, 0), Some(1));
        assert_eq!(after(0b1011, 1), Some(3));
        assert_eq!(after(0b1011, 3), Some(0));
        assert_eq!(after(1 << 63, 63), Some(63));
        assert_eq!(after(0, 5), None);
        assert_eq!(after(u64::MAX, 62), Some(63));
        assert_eq!(after(u64::MAX, 63), Some(0));
    }
}
