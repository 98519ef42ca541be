//! From an open segment to checked rows: nothing that differs from its checksum leaves this module.

use bytemuck::cast_slice;

use crate::backend::{Backend, Piece, Source};
use crate::buffer::{Pool, Row};
use crate::{ALIGNMENT, Error, Header, KeyName, Result, SegmentError};

use std::ops::Range;
use std::sync::Arc;

/// Neighbouring rows are read together up to this many bytes: enough for a disk to stream, little enough that the
/// first rows are checked while the next are read.
const PIECE_BYTES: usize = 1 << 20;

/// An open segment with a whole header of the requested key.
pub struct Segment {
    pub header: Header,
    path: String,
    source: Box<dyn Source>,
}

impl Segment {
    /// Opens the segment of `name`.
    ///
    /// # Errors
    /// `Damaged`: no whole segment. `WrongKey`: a whole one, of the key of another tenant, id or parameters.
    pub fn open(backend: &dyn Backend, name: &KeyName) -> Result<Self> {
        let path = name.path();
        let source = backend.open(&path)?;
        let header = read_header(source.as_ref(), &path)?;
        let expected = Header::segment_bytes(&header.shape, header.layout());
        if source.bytes() != expected {
            return Err(Error::damaged(&path, format!("it has {} bytes, its header says {expected}", source.bytes())));
        }
        let same = |field, found: String, expected: String| match found == expected {
            true => Ok(()),
            false => Err(SegmentError::WrongKey { path: path.clone(), field, found, expected }),
        };
        same("tenant", header.name.tenant.to_string(), name.tenant.to_string())?;
        same("digest of parameters", header.name.digest.to_string(), name.digest.to_string())?;
        same("key", header.name.key.to_string(), name.key.to_string())?;
        same("number of the key pair", header.name.pair.to_string(), name.pair.to_string())?;
        Ok(Self { header, path, source })
    }

    /// Reads, expands and checks the rows that `limbs` limbs need and `have` limbs do not, and hands each to `keep` with its
    /// number. Returns the bytes that were read and those that were expanded.
    ///
    /// # Errors
    /// `AboveRows`: the key has no rows for so many limbs; nothing is read. `Io`, `ShortRead`: the backend's.
    /// `DamagedRow`: a row differs from its checksum; it is not handed out.
    pub fn read(
        &self,
        have: usize,
        limbs: usize,
        pool: &Arc<Pool>,
        mut keep: impl FnMut(usize, Row),
    ) -> Result<(u64, u64)> {
        let (shape, layout) = (&self.header.shape, self.header.layout());
        if limbs > layout.limbs {
            return Err(Error::AboveRows { key: self.header.name.to_string(), has: layout.limbs, limbs });
        }
        let runs = layout.stored_between(shape, have, limbs);
        let mut expanded = 0;
        self.source.read(self.pieces(&runs, pool)?, &mut |piece| {
            for (stored, buffer) in (piece.first_row..).zip(piece.rows) {
                let row = layout.row(shape, stored);
                self.check(row, &buffer)?;
                keep(row, buffer);
                // Part A of this place, while the disk is busy with the next pieces.
                if let Some(buffer) = self.expanded(row, pool)? {
                    expanded += shape.row_stride() as u64;
                    keep(row - 1, buffer);
                }
            }
            Ok(())
        })?;
        let read = runs.iter().map(Range::len).sum::<usize>() * shape.row_stride();
        Ok((read as u64, expanded))
    }

    /// One row, read or expanded, and checked.
    ///
    /// # Errors
    /// `AboveRows`: the key does not have it. Those of [`Segment::read`].
    pub fn row(&self, row: usize) -> Result<Row> {
        let (shape, layout) = (&self.header.shape, self.header.layout());
        if layout.number(shape, row).is_none() {
            let (_, digit, limb) = shape.place(row);
            let limbs = if limb < shape.num_q() { limb + 1 } else { digit * shape.digit_limbs() + 1 };
            return Err(Error::AboveRows { key: self.header.name.to_string(), has: layout.limbs, limbs });
        }
        let Some(stored) = layout.stored(shape, row) else {
            let expanded = self.expanded(row + 1, &Pool::new(0))?;
            return expanded.ok_or_else(|| Error::of_source("a row that is neither stored nor expanded"));
        };
        let found = read_one(self.source.as_ref(), self.header.stored_offset(stored), shape.row_stride())?;
        self.check(row, &found)?;
        Ok(found)
    }

    /// Buffers for the stored rows of these places. Neighbours are read together.
    fn pieces(&self, runs: &[Range<usize>], pool: &Arc<Pool>) -> Result<Vec<Piece>> {
        let stride = self.header.shape.row_stride();
        let most = (PIECE_BYTES / stride).max(1);
        let mut pieces = vec![];
        for run in runs {
            for first_row in run.clone().step_by(most) {
                let rows =
                    (first_row..run.end.min(first_row + most)).map(|_| pool.row(stride)).collect::<Result<_>>()?;
                pieces.push(Piece { offset: self.header.stored_offset(first_row), rows, first_row });
            }
        }
        Ok(pieces)
    }

    /// The row of part A next to a stored row of part B; `None`: part A is stored.
    fn expanded(&self, row: usize, pool: &Arc<Pool>) -> Result<Option<Row>> {
        let Header { shape, form, .. } = &self.header;
        if form.seed.is_none() {
            return Ok(None);
        }
        let mut buffer = pool.row(shape.row_stride())?;
        form.expand(shape, row - 1, &mut buffer.words_mut()[..shape.ring_dim()]);
        self.check(row - 1, &buffer)?;
        Ok(Some(buffer))
    }

    fn check(&self, row: usize, buffer: &Row) -> Result<()> {
        let words = &buffer.words()[..self.header.shape.ring_dim()];
        if self.header.is_row(row, cast_slice(words)) {
            return Ok(());
        }
        Err(SegmentError::DamagedRow { path: self.path.clone(), row, place: self.header.describe(row) }.into())
    }

    /// Reads and expands every row, and returns the damaged ones.
    ///
    /// # Errors
    /// `Io`, `ShortRead`: the backend's.
    pub fn verify(&self, pool: &Arc<Pool>) -> Result<Vec<usize>> {
        let mut damaged = vec![];
        let (shape, layout) = (&self.header.shape, self.header.layout());
        let digits = shape.active_digits(layout.limbs);
        let rows = layout.num_stored(shape) / digits;
        // Digit by digit, so that no more than one digit's rows are in memory.
        for digit in 0..digits {
            let run = digit * rows..(digit + 1) * rows;
            self.source.read(self.pieces(&[run], pool)?, &mut |piece| {
                for (stored, buffer) in (piece.first_row..).zip(&piece.rows) {
                    let row = layout.row(shape, stored);
                    damaged.extend(self.check(row, buffer).is_err().then_some(row));
                    match self.expanded(row, pool) {
                        Err(Error::Segment(SegmentError::DamagedRow { row, .. })) => damaged.push(row),
                        other => drop(other?),
                    }
                }
                Ok(())
            })?;
        }
        damaged.sort_unstable();
        Ok(damaged)
    }
}

/// The header that `source` begins with.
///
/// # Errors
/// `Damaged`: it is none, or not whole.
pub fn read_header(source: &dyn Source, path: &str) -> Result<Header> {
    if source.bytes() < ALIGNMENT as u64 {
        return Err(Error::damaged(path, format!("it has {} bytes, less than a header", source.bytes())));
    }
    let start = read_one(source, 0, ALIGNMENT)?;
    let length = Header::length(path, start.bytes())?;
    if length == ALIGNMENT {
        return Ok(Header::decode(path, start.bytes())?);
    }
    if source.bytes() < length as u64 {
        return Err(Error::damaged(path, format!("it has {} bytes, less than its header", source.bytes())));
    }
    Ok(Header::decode(path, read_one(source, 0, length)?.bytes())?)
}

fn read_one(source: &dyn Source, offset: u64, bytes: usize) -> Result<Row> {
    let mut read = None;
    let piece = Piece { offset, rows: vec![Pool::new(0).row(bytes)?], first_row: 0 };
    source.read(vec![piece], &mut |mut piece| {
        read = piece.rows.pop();
        Ok(())
    })?;
    read.ok_or_else(|| Error::of_source("a read ended without its piece"))
}
