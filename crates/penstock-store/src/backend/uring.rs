//! Reading with io_uring: several pieces in flight at once, and one checked while the others are read.
//!
//! The only `unsafe` of this crate is the submission of a read in [`submit`].

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use io_uring::{IoUring, opcode, types};

use super::pread::read_piece;
use super::{Done, Piece};
use crate::{Error, Result};

/// Pieces in flight: enough that the disk has work while the checking thread waits for a processor.
const DEPTH: u32 = 16;

/// A ring that has nothing in flight.
pub(super) struct Ring(IoUring);

impl Ring {
    /// # Errors
    /// The kernel has no io_uring, or forbids it (`kernel.io_uring_disabled`, seccomp).
    pub(super) fn new() -> io::Result<Self> {
        IoUring::new(DEPTH).map(Self)
    }
}

/// A read in flight: the kernel writes through `vectors`, which point into `piece`.
struct Flight {
    vectors: Vec<libc::iovec>,
    piece: Piece,
}

/// Reads `pieces`. Returns the ring where it can be used again.
pub(super) fn read(
    mut ring: Ring,
    file: &File,
    path: &str,
    pieces: Vec<Piece>,
    done: Done<'_>,
) -> (Option<Ring>, Result<()>) {
    let mut waiting = pieces.into_iter();
    // Never longer than this, so that no flight moves while the kernel holds pointers into it.
    let mut flights: Vec<Option<Box<Flight>>> = (0..DEPTH).map(|_| None).collect();
    let mut flying = 0;
    let mut result = Ok(());
    loop {
        while let (Ok(()), Some(slot)) = (&result, flights.iter().position(Option::is_none)) {
            let Some(piece) = waiting.next() else { break };
            let flight = flights[slot].insert(Box::new(Flight { vectors: vec![], piece }));
            if let Err(error) = submit(&mut ring, file, slot as u64, flight) {
                flights[slot] = None;
                result = Err(Error::io(path, "read", error));
            } else {
                flying += 1;
            }
        }
        if flying == 0 {
            return (Some(ring), result);
        }
        match ring.0.submit_and_wait(1) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                // The kernel may still write into these buffers, so they are never freed.
                std::mem::forget(flights);
                return (None, Err(Error::io(path, "read", error)));
            }
        }
        while let Some(completion) = ring.0.completion().next() {
            flying -= 1;
            let Some(flight) = flights.get_mut(completion.user_data() as usize).and_then(Option::take) else {
                continue;
            };
            let mut piece = flight.piece;
            if result.is_err() {
                continue;
            }
            let whole = completion.result() == piece.bytes() as i32;
            // A part of it or an error: `preadv` reads the piece again and names the fault if it is still there.
            result = if whole { Ok(()) } else { read_piece(file, path, &mut piece) }.and_then(|()| done(piece));
        }
    }
}

/// Queues the read of `flight`.
#[allow(unsafe_code)]
fn submit(ring: &mut Ring, file: &File, slot: u64, flight: &mut Flight) -> io::Result<()> {
    let slice = |row: &mut crate::buffer::Row| {
        let bytes = row.bytes_mut();
        libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() }
    };
    flight.vectors = flight.piece.rows.iter_mut().map(slice).collect();
    let descriptor = types::Fd(file.as_raw_fd());
    let entry = opcode::Readv::new(descriptor, flight.vectors.as_ptr(), flight.vectors.len() as u32)
        .offset(flight.piece.offset)
        .build()
        .user_data(slot);
    // SAFETY: the vectors and the buffers that they point into belong to a boxed flight, which `read` neither moves,
    // touches nor frees until its completion has arrived, and leaks where that cannot be known. The file is borrowed
    // for as long, and the kernel holds it open besides.
    unsafe { ring.0.submission().push(&entry) }.map_err(|_| io::Error::other("the ring is full"))
}
