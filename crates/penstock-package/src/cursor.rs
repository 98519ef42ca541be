//! Bytes that are read in order, never past their end.

use crate::error::Fault;

type Result<T> = std::result::Result<T, Fault>;

pub struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }

    /// The next `count` bytes.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        match self.rest.split_at_checked(count) {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(taken)
            }
            None => Err(Fault::new(
                "",
                format!("{count} bytes follow, and {} are there", self.rest.len()),
                "lengths agree with the bytes",
            )),
        }
    }

    fn array<const SIZE: usize>(&mut self) -> Result<[u8; SIZE]> {
        let mut taken = [0; SIZE];
        taken.copy_from_slice(self.take(SIZE)?);
        Ok(taken)
    }

    pub fn u8(&mut self) -> Result<u8> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub fn i16(&mut self) -> Result<i16> {
        Ok(i16::from_le_bytes(self.array()?))
    }

    pub fn i64(&mut self) -> Result<i64> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    /// A column of `count` numbers, each made of its bytes.
    pub fn column<const SIZE: usize, T>(&mut self, count: usize, made: fn([u8; SIZE]) -> T) -> Result<Vec<T>> {
        let (parts, _) = self.take(count.saturating_mul(SIZE))?.as_chunks::<SIZE>();
        Ok(parts.iter().map(|part| made(*part)).collect())
    }

    /// Refuses bytes that nothing reads.
    pub fn end(&self) -> Result<()> {
        if self.rest.is_empty() {
            return Ok(());
        }
        Err(Fault::new("", format!("{} bytes too many", self.rest.len()), "lengths agree with the bytes"))
    }
}
