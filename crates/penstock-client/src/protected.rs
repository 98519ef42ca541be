//! Memory of secrets: kept out of the swap where the system allows it, wiped when it is dropped.

use std::ops::{Deref, DerefMut};

use penstock_ckks::Process;
use zeroize::Zeroize;

/// Values of a secret.
pub struct Protected<T: Zeroize + Copy + Default> {
    values: Box<[T]>,
    /// The process that has it locked: a child of a fork inherits no locks.
    locked: Option<Process>,
}

impl<T: Zeroize + Copy + Default> Protected<T> {
    /// `count` zeros.
    pub fn new(count: usize) -> Self {
        let values = vec![T::default(); count].into_boxed_slice();
        let bytes = size_of_val(&*values);
        // A process may lock a few megabytes or none; without the lock the memory is as safe as the swap is.
        // SAFETY: the range is the box's own, which lives as long as the lock.
        #[allow(unsafe_code)]
        let locked = bytes > 0 && unsafe { rustix::mm::mlock(values.as_ptr().cast_mut().cast(), bytes) }.is_ok();
        Self { values, locked: locked.then(Process::this) }
    }

    /// Whether the system keeps it in memory.
    pub fn is_locked(&self) -> bool {
        self.locked.is_some_and(Process::is_this)
    }
}

impl<T: Zeroize + Copy + Default> Deref for Protected<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.values
    }
}

impl<T: Zeroize + Copy + Default> DerefMut for Protected<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.values
    }
}

impl<T: Zeroize + Copy + Default> Drop for Protected<T> {
    fn drop(&mut self) {
        self.values.zeroize();
        if self.is_locked() {
            // SAFETY: the range that was locked, still allocated.
            #[allow(unsafe_code)]
            let _ = unsafe { rustix::mm::munlock(self.values.as_ptr().cast_mut().cast(), size_of_val(&*self.values)) };
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
}
