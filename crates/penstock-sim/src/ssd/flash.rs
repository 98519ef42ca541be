//! Dies and buses: the waiting jobs, and the busy units.

use super::jobs::{Class, Jobs, Queue};

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
    /// If both wait, a write goes next.
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
pub(crate) fn after(mask: u64, last: u32) -> Option<u32> {
    if mask == 0 {
        return None;
    }
    let later = mask & (u64::MAX << last << 1);
    Some(if later != 0 { later.trailing_zeros() } else { mask.trailing_zeros() })
}

/// The jobs that one command takes together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Group {
    pub(crate) planes: u32,
    /// Programs: the same page of any block, of so many pages. 0, for reads: the same row.
    pub(crate) block: u32,
}

/// Moves the first job of `from` to `to`, and those right behind it that one command can take with it:
/// other planes, the same row. Returns how many more than one.
#[inline]
pub(crate) fn take_group(from: &mut Queue, to: &mut Queue, jobs: &mut Jobs, group: Group) -> i64 {
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
