//! Where requests stand: the scan's, in a window of the queue's depth, and other traffic's, at a steady rate.
//!
//! The host asks for pages in the order of their numbers, over all channels. Consumers in the drive request the pages
//! of each channel in that order. Each channel has an equal share of the window, so that a full one does not hold up
//! the others.

use super::layout::Layout;
use super::spec::RunSpec;

/// A part of the scan that is asked for in order: all of it, or one channel's.
#[derive(Debug, Clone)]
pub(crate) struct Stream {
    /// The place of its next page: which of its places, and which row.
    pub(crate) place: u32,
    pub(crate) row: u32,
    pub(crate) asked: u64,
    pub(crate) pages: u64,
    pub(crate) under_way: u32,
    pub(crate) window: u32,
}

impl Stream {
    /// The position within a row and the use of the window, for the comparison of states.
    pub(crate) fn state(&self) -> [i64; 2] {
        [self.place.into(), self.under_way.into()]
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Source {
    /// Pages of the scan that have been asked for.
    pub(crate) asked: u64,
    pub(crate) streams: Vec<Stream>,
    /// Places of each stream's pages in a row, as indices into the layout.
    pub(crate) places: Vec<Vec<u32>>,
    by_channel: bool,
    /// Pages that the host's buffer still has room for.
    pub(crate) host_room: i64,
    pub(crate) reads: Arrivals,
    pub(crate) writes: Arrivals,
}

/// Requests at a steady rate, number `i` after `i + 1` intervals: waiting ones need no list.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Arrivals {
    pub(crate) come: u64,
    /// Of `come`, the requests that have left the host's queue.
    pub(crate) begun: u64,
    pub(crate) under_way: u32,
}

impl Source {
    pub(crate) fn new(spec: &RunSpec, layout: &Layout) -> Self {
        let by_channel = !spec.consumers.is_empty() && !spec.is_random();
        let width = layout.width();
        let streams = if by_channel { spec.geometry.channels } else { 1 };
        let mut places = vec![Vec::new(); streams as usize];
        for (index, place) in layout.places.iter().enumerate() {
            places[if by_channel { usize::from(place.channel) } else { 0 }].push(index as u32);
        }
        let (first, end) = (spec.first_page, spec.first_page + spec.pages);
        let streams = places
            .iter()
            .enumerate()
            .map(|(index, places)| {
                let count = places.len() as u64;
                let before = |page: u64| {
                    let in_row = places.partition_point(|&place| u64::from(place) < page % width) as u64;
                    page / width * count + in_row
                };
                let (share, extra) = (spec.queue_depth / streams, spec.queue_depth % streams);
                Stream {
                    place: (before(first) % count) as u32,
                    row: (before(first) / count) as u32,
                    asked: 0,
                    pages: before(end) - before(first),
                    under_way: 0,
                    window: (share + u32::from((index as u32) < extra)).max(1),
                }
            })
            .collect();
        Self {
            asked: 0,
            streams,
            places,
            by_channel,
            host_room: spec.host_consumer.as_ref().map_or(i64::MAX / 2, |host| i64::from(host.buffer_pages)),
            reads: Arrivals::default(),
            writes: Arrivals::default(),
        }
    }

    /// The stream that a page of a channel belongs to.
    #[inline]
    pub(crate) fn stream_of(&self, channel: u8) -> usize {
        if self.by_channel { usize::from(channel) } else { 0 }
    }
}
