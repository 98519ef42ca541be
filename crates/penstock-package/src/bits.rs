//! Unsigned integers of a few bits each, packed one after another, lowest bits first.

/// Bytes of `count` integers of `width` bits.
pub fn packed_bytes(count: usize, width: u32) -> usize {
    (count as u64 * u64::from(width)).div_ceil(8) as usize
}

/// Bits of an integer: 0 for 0.
pub fn width(largest: u64) -> u32 {
    u64::BITS - largest.leading_zeros()
}

/// Appends integers, each below 2^`width`; `width` is at most 64.
pub fn pack(values: impl Iterator<Item = u64>, width: u32, out: &mut Vec<u8>) {
    let (mut held, mut bits) = (0u128, 0);
    for value in values {
        held |= u128::from(value) << bits;
        bits += width;
        while bits >= 8 {
            out.push(held as u8);
            held >>= 8;
            bits -= 8;
        }
    }
    if bits > 0 {
        out.push(held as u8);
    }
}

/// The integers of `bytes`, which has as many bytes as they take.
pub fn unpack(bytes: &[u8], count: usize, width: u32) -> impl Iterator<Item = u64> + '_ {
    let (mut held, mut bits, mut rest) = (0u128, 0, bytes.iter());
    let mask = if width == 64 { u64::MAX } else { (1 << width) - 1 };
    (0..count).map(move |_| {
        while bits < width {
            held |= u128::from(*rest.next().unwrap_or(&0)) << bits;
            bits += 8;
        }
        let value = held as u64 & mask;
        held >>= width;
        bits -= width;
        value
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_integers_come_back_at_every_width() {
        for bits in 0..=64 {
            let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
            let values: Vec<u64> = (0..37u64).map(|k| (k + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) & mask).collect();
            let mut packed = Vec::new();
            pack(values.iter().copied(), bits, &mut packed);
            assert_eq!(packed.len(), packed_bytes(values.len(), bits));
            assert_eq!(unpack(&packed, values.len(), bits).collect::<Vec<_>>(), values);
        }
    }

    #[test]
    fn a_width_holds_its_largest_integer() {
        assert_eq!([0, 1, 2, 255, 256, u64::MAX].map(width), [0, 1, 2, 8, 9, 64]);
    }
}
