//! Memory of secrets, in separate pages. The swap has no copy where the system allows it, core files and children of a
//! fork have none, and a drop wipes it.

use std::alloc::{Layout, handle_alloc_error};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard};

use bytemuck::Zeroable;
use penstock_ckks::Process;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mlock, mmap_anonymous, munmap};
use zeroize::Zeroize;

const PAGE: usize = 4096;
/// Pages that were wiped and wait for their next use: limb after limb takes some of one size.
static SPARE: Mutex<Vec<Pages>> = Mutex::new(Vec::new());
/// Bytes of all spare pages: a decryption in the largest ring takes as many.
const MOST_SPARE_BYTES: usize = 16 << 20;

/// The spare pages, unless a thread has them right now. A child of a fork may lack that thread.
fn spare() -> Option<MutexGuard<'static, Vec<Pages>>> {
    SPARE.try_lock().ok()
}

/// Gives all spare pages back. A process may lock a few megabytes only, and a secret that stays needs them.
pub(crate) fn release_spare() {
    if let Some(mut spare) = spare() {
        spare.drain(..).for_each(Pages::unmap);
    }
}

/// One mapping.
struct Pages {
    place: NonNull<u8>,
    bytes: usize,
    /// The process that has it locked: a child of a fork inherits no locks.
    locked: Option<Process>,
}

// SAFETY: nobody else has the place, so it may go to another thread.
#[allow(unsafe_code)]
unsafe impl Send for Pages {}

impl Pages {
    /// All zeros.
    fn take(bytes: usize) -> Self {
        let found = spare().and_then(|mut spare| {
            let at = spare.iter().position(|pages| pages.bytes == bytes)?;
            Some(spare.swap_remove(at))
        });
        found.unwrap_or_else(|| Self::map(bytes))
    }

    fn map(bytes: usize) -> Self {
        let (write, alone) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new mapping, at a place that the system chooses.
        #[allow(unsafe_code)]
        let mapped = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, write, alone) };
        let Some(pages) = mapped.ok().and_then(NonNull::new) else {
            handle_alloc_error(Layout::from_size_align(bytes, PAGE).unwrap_or(Layout::new::<u8>()))
        };
        // A process may lock a few megabytes or none; without the lock the memory is as safe as the swap is.
        // SAFETY: the range is the mapping.
        #[allow(unsafe_code)]
        let locked = unsafe {
            #[cfg(target_os = "linux")]
            for advice in [Advice::LinuxDontDump, Advice::LinuxWipeOnFork] {
                let _ = madvise(pages.as_ptr(), bytes, advice);
            }
            mlock(pages.as_ptr(), bytes).is_ok()
        };
        Self { place: pages.cast(), bytes, locked: locked.then(Process::this) }
    }

    /// Takes wiped pages back.
    fn give(self) {
        let Some(mut spare) = spare() else { return self.unmap() };
        spare.push(self);
        while spare.iter().map(|pages| pages.bytes).sum::<usize>() > MOST_SPARE_BYTES {
            spare.remove(0).unmap(); // the one that has waited longest
        }
    }

    fn unmap(self) {
        // SAFETY: the mapping of `map`, which nobody uses any more. With it goes its lock.
        #[allow(unsafe_code)]
        let _ = unsafe { munmap(self.place.as_ptr().cast(), self.bytes) };
    }
}

/// Values of a secret. Their pages hold nothing else, since a lock is of whole pages: freeing a neighbour would end it.
pub struct Protected<T: Zeroize + Zeroable + Copy> {
    /// `None`: no values.
    pages: Option<Pages>,
    count: usize,
    values: PhantomData<T>,
}

// SAFETY: shared, the pages are only read.
#[allow(unsafe_code)]
unsafe impl<T: Zeroize + Zeroable + Copy + Sync> Sync for Protected<T> {}

impl<T: Zeroize + Zeroable + Copy> Protected<T> {
    /// `count` zeros.
    pub fn new(count: usize) -> Self {
        const { assert!(align_of::<T>() <= PAGE) };
        // More than the address space is a mapping that fails.
        let bytes = size_of::<T>().saturating_mul(count);
        Self { pages: (bytes > 0).then(|| Pages::take(bytes)), count, values: PhantomData }
    }

    /// Whether the system keeps it in memory.
    pub fn is_locked(&self) -> bool {
        self.pages.as_ref().and_then(|pages| pages.locked).is_some_and(Process::is_this)
    }

    fn place(&self) -> NonNull<T> {
        self.pages.as_ref().map_or(NonNull::dangling(), |pages| pages.place.cast())
    }
}

impl<T: Zeroize + Zeroable + Copy> Deref for Protected<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: mapped zeros are values of T, aligned to a page, and this owns them.
        #[allow(unsafe_code)]
        unsafe {
            std::slice::from_raw_parts(self.place().as_ptr(), self.count)
        }
    }
}

impl<T: Zeroize + Zeroable + Copy> DerefMut for Protected<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`, and nobody else has them.
        #[allow(unsafe_code)]
        unsafe {
            std::slice::from_raw_parts_mut(self.place().as_ptr(), self.count)
        }
    }
}

impl<T: Zeroize + Zeroable + Copy> Drop for Protected<T> {
    fn drop(&mut self) {
        self.iter_mut().zeroize();
        if let Some(pages) = self.pages.take() {
            pages.give();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_zeros_that_can_be_written() {
        let mut made = Protected::<u64>::new(100);
        assert!(made.iter().all(|value| *value == 0));
        made[3] = 7;
        assert_eq!(made[3], 7);
        assert_eq!(Protected::<i8>::new(0).len(), 0);
    }

    #[test]
    fn pages_are_wiped_before_their_next_use() {
        let count = 12_345;
        for round in 1..4 {
            let mut made: Vec<_> = (0..3).map(|_| Protected::<u64>::new(count)).collect();
            for each in &mut made {
                assert!(each.iter().all(|value| *value == 0));
                each.fill(round);
            }
        }
        let kept = || SPARE.lock().unwrap().iter().map(|pages| pages.bytes).sum::<usize>();
        drop((0..300).map(|_| Protected::<u64>::new(1 << 15)).collect::<Vec<_>>());
        assert!((1..=MOST_SPARE_BYTES).contains(&kept()));
    }

    /// The lines of the kernel's list of mappings that say what holds the place of `values`.
    #[cfg(target_os = "linux")]
    fn mapping(values: &[u64]) -> Option<String> {
        let place = values.as_ptr() as usize;
        let all = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut found: Option<String> = None;
        for line in all.lines() {
            let range = line.split(' ').next().and_then(|first| first.split_once('-'));
            let ends =
                range.and_then(|(a, b)| Some((usize::from_str_radix(a, 16).ok()?, usize::from_str_radix(b, 16).ok()?)));
            match (ends, &mut found) {
                (Some(_), Some(_)) => break,
                (Some((start, end)), None) if (start..end).contains(&place) => found = Some(String::new()),
                (None, Some(text)) => *text += &format!("{line}\n"),
                _ => {}
            }
        }
        found
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_is_freed_beside_it_leaves_its_lock_and_neither_core_files_nor_children_have_it() {
        let flags = |values: &Protected<u64>| -> Vec<String> {
            let said = mapping(values).unwrap();
            let line = said.lines().find_map(|line| line.strip_prefix("VmFlags:")).unwrap();
            line.split_whitespace().map(str::to_owned).collect()
        };
        let has = |values: &Protected<u64>, flag: &str| flags(values).iter().any(|each| each == flag);
        let mut several: Vec<_> = (0..6).map(|_| Protected::<u64>::new(64)).collect();
        for each in &several {
            assert_eq!(each.as_ptr() as usize % 4096, 0);
            assert!(has(each, "dd") && has(each, "wf"), "{:?}", flags(each));
            assert_eq!(has(each, "lo"), each.is_locked());
        }
        several.retain({
            let mut k = 0;
            move |_| {
                k += 1;
                k % 2 == 0
            }
        });
        for each in &several {
            assert_eq!(has(each, "lo"), each.is_locked());
        }
    }
}
