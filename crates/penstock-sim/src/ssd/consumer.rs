//! Accelerators: the buffer that pages collect in, and the chunk that is under way.

/// Room for pages, and the channels that wait for it in the order in which they came.
#[derive(Debug, Clone, Default)]
pub(crate) struct Room {
    pub(crate) free: i64,
    pub(crate) waiting: Vec<u8>,
}

impl Room {
    pub(crate) fn new(free: u32) -> Self {
        Self { free: i64::from(free), waiting: Vec::with_capacity(64) }
    }

    /// Takes a place, unless there is none beyond those of channels that have waited longer.
    #[inline]
    pub(crate) fn take(&mut self, channel: u8) -> bool {
        if self.waiting.is_empty() {
            if self.free > 0 {
                self.free -= 1;
                return true;
            }
            self.waiting.push(channel);
            return false;
        }
        match self.waiting.iter().position(|&each| each == channel) {
            Some(at) if (at as i64) < self.free => {
                self.waiting.remove(at);
                self.free -= 1;
                true
            }
            Some(_) => false,
            None if (self.waiting.len() as i64) < self.free => {
                self.free -= 1;
                true
            }
            None => {
                self.waiting.push(channel);
                false
            }
        }
    }

    /// Gives places back, and says which channels may now take one, as bits.
    #[inline]
    pub(crate) fn give(&mut self, places: u32) -> u64 {
        self.free += i64::from(places);
        let served = self.waiting.len().min(usize::try_from(self.free).unwrap_or(0));
        self.waiting[..served].iter().fold(0, |bits, &channel| bits | 1 << channel)
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Consumer {
    pub(crate) room: Room,
    /// Pages that are not in a whole chunk yet.
    pub(crate) loose: u32,
    /// Whole chunks whose metadata is not asked for yet.
    pub(crate) ready: u64,
    /// Pages of the chunk whose metadata is on its way; 0: none.
    pub(crate) fetching: u32,
    pub(crate) fetching_since: i64,
    /// Pages of the chunk whose metadata is there; 0: none.
    pub(crate) fetched: u32,
    /// Pages of the chunk being served; 0: none.
    pub(crate) serving: u32,
    pub(crate) idle_since: i64,
    pub(crate) chunks: u64,
    pub(crate) busy: i64,
    pub(crate) wait: i64,
    pub(crate) final_made: bool,
}

impl Consumer {
    pub(crate) fn is_idle(&self) -> bool {
        self.loose == 0 && self.ready == 0 && self.fetching == 0 && self.fetched == 0 && self.serving == 0
    }
}

#[cfg(test)]
mod tests {
    use super::Room;

    #[test]
    fn who_waits_longest_is_served_first() {
        let mut room = Room::new(1);
        assert!(room.take(3));
        assert!(!room.take(5));
        assert!(!room.take(2));
        assert_eq!(room.give(1), 1 << 5);
        assert!(!room.take(2), "channel 5 came before");
        assert!(!room.take(7), "and so did both before 7");
        assert!(room.take(5));
        assert_eq!(room.give(2), 1 << 2 | 1 << 7);
        assert!(room.take(7) && room.take(2));
        assert!(room.waiting.is_empty() && room.free == 0);
    }
}
