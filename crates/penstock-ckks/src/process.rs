//! The process that made an object. A fork copies its memory, and not its threads, nor what it shares with the kernel.

use std::sync::{Arc, Mutex, PoisonError};

/// A process, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process(u32);

impl Process {
    /// The one that asks.
    pub fn this() -> Self {
        Self(std::process::id())
    }

    /// Whether it is the one that asks: `false` in a child that a fork made since.
    pub fn is_this(self) -> bool {
        self == Self::this()
    }
}

/// Threads, or something else that no fork copies. A child neither uses nor drops its parent's.
#[derive(Debug)]
pub struct OfProcess<T> {
    held: Mutex<(Process, Option<Arc<T>>)>,
}

impl<T> OfProcess<T> {
    /// Made by this process.
    pub fn new(made: T) -> Self {
        Self { held: Mutex::new((Process::this(), Some(Arc::new(made)))) }
    }

    /// `None` in a child of the process that made it.
    pub fn get(&self) -> Option<Arc<T>> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.0.is_this() { held.1.clone() } else { None }
    }

    /// In a child of the process that made it, what `make` makes: once, and for all later calls.
    ///
    /// # Errors
    /// That of `make`.
    pub fn get_or_make<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<Arc<T>, E> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let (true, Some(known)) = (held.0.is_this(), &held.1) {
            return Ok(known.clone());
        }
        let made = Arc::new(make()?);
        std::mem::forget(held.1.replace(made.clone()));
        held.0 = Process::this();
        Ok(made)
    }
}

impl<T> Drop for OfProcess<T> {
    fn drop(&mut self) {
        let held = self.held.get_mut().unwrap_or_else(PoisonError::into_inner);
        if !held.0.is_this() {
            std::mem::forget(held.1.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_makes_its_own_and_leaves_the_parent_s_alone() {
        struct Watched(Arc<Mutex<usize>>);
        impl Drop for Watched {
            fn drop(&mut self) {
                *self.0.lock().unwrap() += 1;
            }
        }
        let drops = Arc::new(Mutex::new(0));
        let held = OfProcess::new(Watched(drops.clone()));
        assert!(held.get().is_some());
        let other = || OfProcess { held: Mutex::new((Process(0), Some(Arc::new(Watched(drops.clone()))))) };
        drop(other());
        let child = other();
        assert!(child.get().is_none());
        assert_eq!(*drops.lock().unwrap(), 0);
        let made = child.get_or_make(|| Ok::<_, ()>(Watched(drops.clone()))).unwrap();
        let again = child.get_or_make(|| Err::<Watched, _>("made twice")).unwrap();
        assert!(Arc::ptr_eq(&made, &again));
        drop((made, again, child, held));
        assert_eq!(*drops.lock().unwrap(), 2);
    }
}
