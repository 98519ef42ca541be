//! Reading with `preadv`: one piece is read while the piece before it is being checked.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::sync::mpsc;
use std::thread;

use super::{Done, Piece};
use crate::{ALIGNMENT, Error, Result};

/// Pieces that may wait for the checking thread: with the one being read and the one being checked, double buffering.
const WAITING: usize = 1;

pub(super) fn read(file: &File, path: &str, pieces: Vec<Piece>, done: Done<'_>) -> Result<()> {
    if pieces.len() < 2 {
        return pieces.into_iter().try_for_each(|mut piece| {
            read_piece(file, path, &mut piece)?;
            done(piece)
        });
    }
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::sync_channel::<Piece>(WAITING);
        let reader = thread::Builder::new().spawn_scoped(scope, move || {
            for mut piece in pieces {
                read_piece(file, path, &mut piece)?;
                if sender.send(piece).is_err() {
                    break; // The checking side has given up.
                }
            }
            Ok(())
        });
        let reader = reader.map_err(|error| Error::io("a reading thread", "start", error))?;
        let checked = receiver.into_iter().try_for_each(done);
        let read = reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        checked.and(read)
    })
}

/// Reads one piece, whole.
pub(super) fn read_piece(file: &File, path: &str, piece: &mut Piece) -> Result<()> {
    let wanted = piece.bytes();
    let mut got = 0;
    while got < wanted {
        let mut skip = got;
        let mut slices: Vec<IoSliceMut<'_>> = vec![];
        for row in &mut piece.rows {
            let bytes = row.bytes_mut();
            let from = skip.min(bytes.len());
            skip -= from;
            if from < bytes.len() {
                slices.push(IoSliceMut::new(&mut bytes[from..]));
            }
        }
        match rustix::io::preadv(file, &mut slices, piece.offset + got as u64) {
            // Past the page cache a read can go on only at a page's boundary; in the middle of one is the file's end.
            Ok(0) => return Err(short(path, piece.offset, wanted, got)),
            Ok(count) if (got + count) % ALIGNMENT != 0 => return Err(short(path, piece.offset, wanted, got + count)),
            Ok(count) => got += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(Error::io(path, "read", io::Error::from(errno))),
        }
    }
    Ok(())
}

pub(super) fn short(path: &str, offset: u64, wanted: usize, got: usize) -> Error {
    Error::ShortRead { path: path.to_owned(), offset, wanted, got }
}
