//! From an open segment to checked rows: nothing that differs from its checksum leaves this module.

use bytemuck::cast_slice;

use crate::backend::{Backend, Piece, Source};
use crate::buffer::{Pool, Row};
use crate::header::Header;
use crate::shape::ALIGNMENT;
use crate::{Error, KeyName, Result};

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
        let expected = Header::segment_bytes(&header.shape);
        if source.bytes() != expected {
            return Err(Error::damaged(&path, format!("it has {} bytes, its header says {expected}", source.bytes())));
        }
        let same = |field, found: String, expected: String| {
            if found == expected { Ok(()) } else { Err(Error::WrongKey { path: path.clone(), field, found, expected }) }
        };
        same("tenant", header.name.tenant.to_string(), name.tenant.to_string())?;
        same("digest of parameters", header.name.digest.to_string(), name.digest.to_string())?;
        same("key", header.name.key.to_string(), name.key.to_string())?;
        Ok(Self { header, path, source })
    }

    /// Reads and checks the rows of `runs`, and hands each to `keep` with its number.
    ///
    /// # Errors
    /// `Io`, `ShortRead`: the backend's. `DamagedRow`: a row differs from its checksum; it is not handed out.
    pub fn read(&self, runs: &[Range<usize>], pool: &Arc<Pool>, mut keep: impl FnMut(usize, Row)) -> Result<()> {
        let shape = &self.header.shape;
        let most = (PIECE_BYTES / shape.row_stride()).max(1);
        let mut pieces = vec![];
        for run in runs {
            for first_row in run.clone().step_by(most) {
                pieces.push(self.piece(first_row..run.end.min(first_row + most), pool)?);
            }
        }
        self.source.read(pieces, &mut |piece| {
            for (row, buffer) in (piece.first_row..).zip(piece.rows) {
                self.check(row, &buffer)?;
                keep(row, buffer);
            }
            Ok(())
        })
    }

    /// Buffers for neighbouring rows, to be read together.
    fn piece(&self, rows: Range<usize>, pool: &Arc<Pool>) -> Result<Piece> {
        let (first_row, stride) = (rows.start, self.header.shape.row_stride());
        let rows = rows.map(|_| pool.row(stride)).collect::<Result<_>>()?;
        Ok(Piece { offset: self.header.row_offset(first_row), rows, first_row })
    }

    fn check(&self, row: usize, buffer: &Row) -> Result<()> {
        let words = &buffer.words()[..self.header.shape.ring_dim()];
        if self.header.row_checksum(row, cast_slice(words)) != self.header.row_checksums[row] {
            let place = self.header.shape.describe(row);
            return Err(Error::DamagedRow { path: self.path.clone(), row, place });
        }
        Ok(())
    }

    /// Reads every row, and returns the damaged ones.
    ///
    /// # Errors
    /// `Io`, `ShortRead`: the backend's.
    pub fn verify(&self, pool: &Arc<Pool>) -> Result<Vec<usize>> {
        let mut damaged = vec![];
        let shape = &self.header.shape;
        // Digit by digit, so that no more than one digit's rows are in memory.
        for digit in 0..shape.digits() {
            let rows = shape.num_rows() / shape.digits();
            let most = (PIECE_BYTES / shape.row_stride()).max(1);
            let run = digit * rows..(digit + 1) * rows;
            let first_rows = run.clone().step_by(most);
            let pieces = first_rows.map(|first_row| self.piece(first_row..run.end.min(first_row + most), pool));
            self.source.read(pieces.collect::<Result<_>>()?, &mut |piece| {
                let checked = (piece.first_row..).zip(&piece.rows);
                damaged.extend(checked.filter(|(row, buffer)| self.check(*row, buffer).is_err()).map(|(row, _)| row));
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
    let start = read_start(source, ALIGNMENT)?;
    let length = Header::length(path, start.bytes())?;
    if length == ALIGNMENT {
        return Header::decode(path, start.bytes());
    }
    if source.bytes() < length as u64 {
        return Err(Error::damaged(path, format!("it has {} bytes, less than its header", source.bytes())));
    }
    Header::decode(path, read_start(source, length)?.bytes())
}

fn read_start(source: &dyn Source, bytes: usize) -> Result<Row> {
    let mut read = None;
    let piece = Piece { offset: 0, rows: vec![Row::new(bytes)?], first_row: 0 };
    source.read(vec![piece], &mut |mut piece| {
        read = piece.rows.pop();
        Ok(())
    })?;
    read.ok_or_else(|| Error::Source("a read ended without its piece".into()))
}
