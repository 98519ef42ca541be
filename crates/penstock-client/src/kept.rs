//! A secret in memory that no child of a fork has, until it asks for it by a descriptor. A program that is started has
//! neither. Another process that opens the descriptor finds masked bytes: the mask is in the memory of these processes.

use std::os::fd::OwnedFd;
use std::ptr::NonNull;

use penstock_ckks::Process;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::io::pread;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mlock, mmap, munmap};
use sha2::{Digest, Sha256};
use zeroize::{Zeroize, Zeroizing};

use crate::protected::Protected;
use crate::random;

/// Coefficients, each -1, 0 or 1, and the memory that holds them.
pub struct Kept {
    file: OwnedFd,
    place: NonNull<u8>,
    mask: Zeroizing<Vec<u8>>,
    /// Of the coefficients: what a parent is wiping is none of them.
    digest: [u8; 32],
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
        let mut mask = Zeroizing::new(vec![0; count]);
        random::fill(&mut mask).ok()?;
        let file = memfd_create("penstock-secret", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).ok()?;
        ftruncate(&file, count as u64).ok()?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL).ok()?;
        let both = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping of the whole file, at a place that the system chooses.
        #[allow(unsafe_code)]
        let mapped = unsafe { mmap(std::ptr::null_mut(), count, both, MapFlags::SHARED, &file, 0) };
        let place = mapped.ok().and_then(NonNull::new)?;
        let digest = Sha256::new().chain_update(bytes_of(parts[0])).chain_update(bytes_of(parts[1])).finalize();
        let made = Self { file, place: place.cast(), mask, digest: digest.into(), maker: Process::this() };
        // SAFETY: the range is the mapping, which nobody else has.
        #[allow(unsafe_code)]
        unsafe {
            let _ = mlock(place.as_ptr(), count);
            for advice in [Advice::LinuxDontDump, Advice::LinuxDontFork] {
                madvise(place.as_ptr(), count, advice).ok()?;
            }
            let place = std::slice::from_raw_parts_mut(made.place.as_ptr(), count);
            let given = bytes_of(parts[0]).iter().chain(bytes_of(parts[1]));
            for ((to, mask), from) in place.iter_mut().zip(made.mask.iter()).zip(given) {
                *to = from ^ mask;
            }
        }
        Some(made)
    }

    /// The coefficients; `None`: the process that kept them drops or has dropped them, or they are another number.
    pub fn read(&self, count: usize) -> Option<Protected<i8>> {
        let mut found = Protected::<i8>::new(count);
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut found);
        if count != self.mask.len() || pread(&self.file, &mut *bytes, 0).ok()? != count {
            return None;
        }
        bytes.iter_mut().zip(self.mask.iter()).for_each(|(byte, mask)| *byte ^= mask);
        (Sha256::digest(&*bytes)[..] == self.digest).then_some(found)
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
            std::slice::from_raw_parts_mut(self.place.as_ptr(), self.mask.len()).zeroize();
            let _ = munmap(self.place.as_ptr().cast(), self.mask.len());
        }
    }
}

fn bytes_of(coefficients: &[i8]) -> &[u8] {
    bytemuck::cast_slice(coefficients)
}
