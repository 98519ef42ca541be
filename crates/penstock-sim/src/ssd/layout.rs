//! The place of a page: consecutive pages go over channels, chips, dies and planes in a stated order, and then on to
//! the next row, which is the same page of every plane.

use super::spec::Geometry;

/// One plane of the drive.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) die: u16,
    pub(crate) channel: u8,
    pub(crate) plane: u8,
}

/// The places of one row, in the order in which consecutive pages use them.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub(crate) places: Vec<Place>,
}

impl Layout {
    pub(crate) fn new(geometry: &Geometry) -> Self {
        let extent = |letter| match letter {
            'c' => geometry.channels,
            'w' => geometry.chips_per_channel,
            'd' => geometry.dies_per_chip,
            _ => geometry.planes_per_die,
        };
        let places = (0..geometry.planes())
            .map(|index| {
                let mut rest = index;
                let mut at = [0u32; 4];
                for letter in geometry.order.chars() {
                    let size = u64::from(extent(letter));
                    at["cwdp".find(letter).unwrap_or(0)] = (rest % size) as u32;
                    rest /= size;
                }
                let [channel, chip, die, plane] = at;
                let die = (channel * geometry.chips_per_channel + chip) * geometry.dies_per_chip + die;
                Place { die: die as u16, channel: channel as u8, plane: plane as u8 }
            })
            .collect();
        Self { places }
    }

    pub(crate) fn width(&self) -> u64 {
        self.places.len() as u64
    }

    /// Place and row of a physical page.
    #[inline]
    pub(crate) fn find(&self, page: u64) -> (Place, u32) {
        let width = self.width();
        (self.places[(page % width) as usize], (page / width) as u32)
    }
}

/// A number that looks random and depends on both: SplitMix64's finaliser.
#[inline]
pub(crate) fn mix(seed: u64, index: u64) -> u64 {
    let mut z = seed.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// `mix` as a number below `bound`.
#[inline]
pub(crate) fn below(bound: u64, seed: u64, index: u64) -> u64 {
    ((u128::from(mix(seed, index)) * u128::from(bound)) >> 64) as u64
}
