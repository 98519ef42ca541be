/// Rings of links: every object is on one ring at most, and each ring is in order of arrival.
///
/// Nodes `0..num_objects` are the objects; behind them comes one head a ring.
pub(crate) struct Rings {
    links: Vec<Link>,
    num_objects: u32,
}

#[derive(Clone, Copy)]
struct Link {
    newer: u32,
    older: u32,
}

impl Rings {
    pub(crate) fn new(num_objects: usize, num_rings: usize) -> Self {
        // A node alone is linked to itself, and so is the head of an empty ring.
        let links = (0..(num_objects + num_rings) as u32).map(|node| Link { newer: node, older: node }).collect();
        Self { links, num_objects: num_objects as u32 }
    }

    /// One more ring; gives its number.
    pub(crate) fn add_ring(&mut self) -> u32 {
        let head = self.links.len() as u32;
        self.links.push(Link { newer: head, older: head });
        head - self.num_objects
    }

    #[inline]
    fn head(&self, ring: u32) -> u32 {
        self.num_objects + ring
    }

    #[inline]
    pub(crate) fn is_empty(&self, ring: u32) -> bool {
        let head = self.head(ring);
        self.links[head as usize].older == head
    }

    /// Whether `object` is all that is on `ring`.
    #[inline]
    pub(crate) fn holds_only(&self, ring: u32, object: u32) -> bool {
        let Link { newer, older } = self.links[self.head(ring) as usize];
        newer == object && older == object
    }

    #[inline]
    pub(crate) fn newest(&self, ring: u32) -> Option<u32> {
        let head = self.head(ring);
        let first = self.links[head as usize].older;
        (first != head).then_some(first)
    }

    #[inline]
    pub(crate) fn oldest(&self, ring: u32) -> Option<u32> {
        let head = self.head(ring);
        let last = self.links[head as usize].newer;
        (last != head).then_some(last)
    }

    /// The oldest that is not `object`.
    #[inline]
    pub(crate) fn oldest_except(&self, ring: u32, object: u32) -> Option<u32> {
        let last = self.oldest(ring)?;
        if last != object {
            return Some(last);
        }
        let next = self.links[last as usize].newer;
        (next != self.head(ring)).then_some(next)
    }

    #[inline]
    pub(crate) fn unlink(&mut self, object: u32) {
        let Link { newer, older } = self.links[object as usize];
        self.links[newer as usize].older = older;
        self.links[older as usize].newer = newer;
    }

    /// `object`, which is on no ring, becomes the newest of `ring`.
    #[inline]
    pub(crate) fn push(&mut self, ring: u32, object: u32) {
        let head = self.head(ring);
        let second = self.links[head as usize].older;
        self.links[object as usize] = Link { newer: head, older: second };
        self.links[second as usize].newer = object;
        self.links[head as usize].older = object;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_keep_the_order_of_arrival() {
        let mut rings = Rings::new(4, 1);
        assert!(rings.is_empty(0));
        assert_eq!((rings.oldest(0), rings.newest(0)), (None, None));
        for object in [2, 0, 3] {
            rings.push(0, object);
        }
        assert_eq!((rings.oldest(0), rings.newest(0)), (Some(2), Some(3)));
        assert_eq!((rings.oldest_except(0, 2), rings.oldest_except(0, 0)), (Some(0), Some(2)));
        let second = rings.add_ring();
        rings.unlink(2);
        rings.push(second, 2);
        assert_eq!((rings.oldest(0), rings.oldest(second)), (Some(0), Some(2)));
        assert!(rings.holds_only(second, 2));
        assert_eq!(rings.oldest_except(second, 2), None);
        rings.unlink(2);
        assert!(rings.is_empty(second));
    }
}
