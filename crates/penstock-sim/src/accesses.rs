use std::borrow::Cow;

use crate::Error;
use crate::error::{every, length, rule};

/// Objects may be numbered this many times more sparsely than there are accesses before they are
/// renumbered: a table per object must not cost more memory than the trace.
const MAX_SPARSITY: usize = 4;
const ALWAYS_DENSE: usize = 1 << 16;

/// Checked accesses, operation by operation (compressed sparse rows): operation `i` makes the
/// accesses `start[i]..start[i + 1]`.
#[derive(Debug, Clone)]
pub struct Accesses<'a> {
    start: &'a [u64],
    objects: Cow<'a, [u32]>,
    bytes: &'a [u64],
    num_objects: usize,
    requested_bytes: i64,
}

impl<'a> Accesses<'a> {
    /// Checks the arrays; borrows them where the object ids are dense (`0..k`, gaps allowed), and
    /// renumbers the objects in the order of their ids where they are not.
    ///
    /// `start` is `(n + 1,)`, `objects` and `bytes` are `(m,)`.
    ///
    /// # Errors
    /// [`Error::Length`] and [`Error::Value`]: lengths differ, `start` does not rise from 0 to `m`,
    /// an id is negative, an access asks for less than one byte, all accesses together ask for
    /// 2^63 bytes, or there are 2^32 - 1 accesses.
    pub fn new(start: &'a [i64], objects: &'a [i32], bytes: &'a [i64]) -> Result<Self, Error> {
        let requested_bytes = check(start, objects.len(), bytes)?;
        let max = check_ids(objects)?;
        if max < dense_limit(objects.len()) {
            return Ok(Self::build(start, Cow::Borrowed(bytemuck::cast_slice(objects)), bytes, max, requested_bytes));
        }
        Self::renumbered(start, objects, bytes, requested_bytes)
    }

    /// As [`Accesses::new`], from 64-bit ids, which are copied to 32 bits.
    ///
    /// # Errors
    /// As [`Accesses::new`].
    pub fn from_wide_ids(start: &'a [i64], objects: &'a [i64], bytes: &'a [i64]) -> Result<Self, Error> {
        let requested_bytes = check(start, objects.len(), bytes)?;
        let max = check_ids(objects)?;
        if max < dense_limit(objects.len()) {
            let narrow: Vec<u32> = objects.iter().map(|&o| o as u32).collect();
            return Ok(Self::build(start, Cow::Owned(narrow), bytes, max, requested_bytes));
        }
        Self::renumbered(start, objects, bytes, requested_bytes)
    }

    fn build(start: &'a [i64], objects: Cow<'a, [u32]>, bytes: &'a [i64], max: usize, requested_bytes: i64) -> Self {
        let num_objects = if objects.is_empty() { 0 } else { max + 1 };
        // Both were checked to hold no negative number.
        Self {
            start: bytemuck::cast_slice(start),
            objects,
            bytes: bytemuck::cast_slice(bytes),
            num_objects,
            requested_bytes,
        }
    }

    fn renumbered<T: Copy + Ord>(
        start: &'a [i64],
        objects: &[T],
        bytes: &'a [i64],
        requested_bytes: i64,
    ) -> Result<Self, Error> {
        let mut ids = objects.to_vec();
        ids.sort_unstable();
        ids.dedup();
        let dense = objects.iter().map(|o| ids.partition_point(|id| id < o) as u32).collect();
        Ok(Self::build(start, Cow::Owned(dense), bytes, ids.len().saturating_sub(1), requested_bytes))
    }

    pub fn num_operations(&self) -> usize {
        self.start.len() - 1
    }

    pub fn len(&self) -> usize {
        self.objects.len()
    }

    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// One more than the largest object number.
    pub fn num_objects(&self) -> usize {
        self.num_objects
    }

    /// `(m,)` the object of each access, in `0..num_objects`.
    pub fn objects(&self) -> &[u32] {
        &self.objects
    }

    /// `(m,)` the bytes that each access asks for, at least 1.
    pub fn bytes(&self) -> &[u64] {
        self.bytes
    }

    /// The accesses of operation `i`, as positions.
    pub fn range(&self, i: usize) -> std::ops::Range<usize> {
        self.start[i] as usize..self.start[i + 1] as usize
    }

    pub fn requested_bytes(&self) -> i64 {
        self.requested_bytes
    }
}

fn dense_limit(num_accesses: usize) -> usize {
    num_accesses.saturating_mul(MAX_SPARSITY).max(ALWAYS_DENSE).min(u32::MAX as usize)
}

/// Checks all but the ids; gives the bytes of all accesses together.
fn check(start: &[i64], num_accesses: usize, bytes: &[i64]) -> Result<i64, Error> {
    check_rows(start, num_accesses)?;
    length("access_bytes", bytes.len(), num_accesses, "one element for each of access_object")?;
    // Positions are 32 bits wide, and one value means "never".
    let few = num_accesses < u32::MAX as usize;
    rule(few, "the number of accesses", num_accesses, "fewer than 2^32 - 1 fit one replay")?;
    check_bytes(bytes)
}

/// Checks that `start` rises from 0 to `num_accesses`.
pub(crate) fn check_rows(start: &[i64], num_accesses: usize) -> Result<(), Error> {
    let (Some(&first), Some(&last)) = (start.first(), start.last()) else {
        return Err(Error::Length {
            what: "access_start",
            got: 0,
            expected: 1,
            rule: "one element more than there are operations",
        });
    };
    rule(first == 0, "access_start[0]", first, "the first operation's accesses start at 0")?;
    if let Some(i) = start.windows(2).position(|w| w[1] < w[0]) {
        return Err(Error::value(
            format!("access_start[{}]", i + 1),
            format!("{} after {}", start[i + 1], start[i]),
            "it never falls",
        ));
    }
    let end = format!("access_start[{}]", start.len() - 1);
    rule(last as usize == num_accesses, end, last, "the last element is the number of accesses")
}

/// Checks that each is positive; gives the sum.
pub(crate) fn check_bytes(bytes: &[i64]) -> Result<i64, Error> {
    every("access_bytes", bytes, "an access asks for at least 1 byte; leave out those that need none", |b| b >= 1)?;
    let sum: i128 = bytes.iter().map(|&b| i128::from(b)).sum();
    i64::try_from(sum).map_err(|_| Error::value("the bytes of all accesses", sum, "they must stay below 2^63"))
}

/// Checks that no id is negative; gives the largest (0 without any).
fn check_ids<T: Copy + Ord + Into<i64> + ToString>(objects: &[T]) -> Result<usize, Error> {
    every("access_object", objects, "object ids are not negative", |o| o.into() >= 0)?;
    Ok(objects.iter().max().map_or(0, |&o| o.into() as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(result: Result<Accesses<'_>, Error>) -> String {
        result.map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn dense_ids_are_borrowed_and_sparse_ids_keep_their_order() {
        let dense = Accesses::new(&[0, 2], &[0, 9], &[1, 1]).unwrap();
        assert!(matches!(dense.objects, Cow::Borrowed(_)));
        assert_eq!((dense.objects(), dense.num_objects()), (&[0, 9][..], 10));

        let sparse = Accesses::from_wide_ids(&[0, 4], &[1 << 50, 7, 1 << 40, 7], &[1, 1, 1, 1]).unwrap();
        assert_eq!((sparse.objects(), sparse.num_objects()), (&[2, 0, 1, 0][..], 3));
    }

    #[test]
    fn no_accesses_mean_no_objects() {
        let none = Accesses::new(&[0, 0, 0], &[], &[]).unwrap();
        assert_eq!((none.num_operations(), none.len(), none.num_objects()), (2, 0, 0));
        assert!(none.is_empty());
    }

    #[test]
    fn each_rule_is_named_with_the_place_that_breaks_it() {
        assert!(message(Accesses::new(&[], &[], &[])).starts_with("access_start has 0 elements, 1 expected"));
        assert!(message(Accesses::new(&[1, 1], &[3], &[1])).starts_with("access_start[0] is 1"));
        assert!(message(Accesses::new(&[0, 2, 1], &[3], &[1])).starts_with("access_start[2] is 1 after 2"));
        assert!(message(Accesses::new(&[0, 2], &[3], &[1])).starts_with("access_start[1] is 2"));
        assert!(message(Accesses::new(&[0, 1], &[3], &[1, 1])).starts_with("access_bytes has 2 elements, 1 expected"));
        assert!(message(Accesses::new(&[0, 2], &[3, -1], &[1, 1])).starts_with("access_object[1] is -1"));
        assert!(message(Accesses::new(&[0, 2], &[3, 1], &[1, 0])).starts_with("access_bytes[1] is 0"));
        let huge = message(Accesses::new(&[0, 2], &[3, 1], &[i64::MAX, 1]));
        assert!(huge.starts_with("the bytes of all accesses is 9223372036854775808"), "{huge}");
    }

    #[test]
    fn all_bytes_together_may_reach_the_largest_number_of_64_bits() {
        assert_eq!(Accesses::new(&[0, 2], &[3, 1], &[i64::MAX - 1, 1]).unwrap().requested_bytes(), i64::MAX);
    }
}
