//! A secret in memory that no child of a fork has, until it asks for it by a descriptor. A program that is started has
//! neither.

use std::os::fd::OwnedFd;
use std::ptr::NonNull;

use penstock_ckks::Process;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::io::pread;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mlock, mmap, munmap};
use zeroize::Zeroize;

use crate::protected::Protected;

/// Coefficients, each -1, 0 or 1, and the memory that holds them.
pub struct Kept {
    file: OwnedFd,
    place: NonNull<i8>,
    count: usize,
    maker: Process,
}

// SAFETY: nothing but the drop touches the place.
#[allow(unsafe_code)]
unsafe impl Send for Kept {}
// SAFETY: as above; the file is only read.
#[allow(unsafe_code)]
unsafe impl Sync for Kept {}

impl Kept {
    /// `None`: the system has no such memory. A child is then without the secret.
    pub fn new(parts: [&[i8]; 2]) -> Option<Self> {
        let count = parts[0].len() + parts[1].len();
        let file = memfd_create("penstock-secret", MemfdFlags::CLOEXEC).ok()?;
        ftruncate(&file, count as u64).ok()?;
        let both = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping of the whole file, at a place that the system chooses.
        #[allow(unsafe_code)]
        let mapped = unsafe { mmap(std::ptr::null_mut(), count, both, MapFlags::SHARED, &file, 0) };
        let place = mapped.ok().and_then(NonNull::new)?;
        let made = Self { file, place: place.cast(), count, maker: Process::this() };
        // SAFETY: the range is the mapping, which nobody else has.
        #[allow(unsafe_code)]
        unsafe {
            let _ = mlock(place.as_ptr(), count);
            for advice in [Advice::LinuxDontDump, Advice::LinuxDontFork] {
                madvise(place.as_ptr(), count, advice).ok()?;
            }
            let place = std::slice::from_raw_parts_mut(made.place.as_ptr(), count);
            place[..parts[0].len()].copy_from_slice(parts[0]);
            place[parts[0].len()..].copy_from_slice(parts[1]);
        }
        Some(made)
    }

    /// The coefficients; `None`: the process that kept them has dropped them, or they are another number.
    pub fn read(&self, count: usize) -> Option<Protected<i8>> {
        let mut found = Protected::<i8>::new(count);
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut found);
        let read = pread(&self.file, bytes, 0).ok()?;
        (count == self.count && read == count && found.iter().any(|value| *value != 0)).then_some(found)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if !self.maker.is_this() {
            return; // a child has no such mapping
        }
        // SAFETY: the mapping of `new`, which nobody uses any more.
        #[allow(unsafe_code)]
        unsafe {
            std::slice::from_raw_parts_mut(self.place.as_ptr(), self.count).zeroize();
            let _ = munmap(self.place.as_ptr().cast(), self.count);
        }
    }
}
