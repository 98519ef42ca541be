//! The parts of one cache, and the futures that it knows.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use penstock_ckks::Process;

use super::options::Options;
use super::state::State;
use crate::buffer::Pool;
use crate::{Error, KeyName, Result, Segment, Store};

/// The common data of the sessions of a cache and its reader.
pub(super) struct Shared {
    /// In another one its lock may be held for good, and nobody reads.
    pub(super) process: Process,
    pub(super) store: Arc<Store>,
    pub(super) options: Options,
    pub(super) pool: Arc<Pool>,
    pub(super) state: Mutex<State>,
    /// The segment that is read next, opened in advance.
    pub(super) opened: Mutex<Option<(KeyName, Segment)>>,
    /// Something was read, let go of or planned.
    pub(super) changed: Condvar,
}

impl Shared {
    /// # Errors
    /// `Forked`.
    pub(super) fn check_process(&self) -> Result<()> {
        if self.process.is_this() {
            return Ok(());
        }
        Err(Error::Forked { what: format!("the cache of keys from {}", self.store.backend().describe()) })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A future that a cache knows. Sessions that are attached to it move it on with each get.
pub struct Plan {
    pub(super) shared: Arc<Shared>,
    pub(super) id: u64,
}

impl Plan {
    /// Uses that are still to come.
    pub fn remaining(&self) -> usize {
        if !self.shared.process.is_this() {
            return 0;
        }
        self.shared.state().futures.get(&self.id).map_or(0, |future| future.coming().count())
    }
}

impl Drop for Plan {
    fn drop(&mut self) {
        if !self.shared.process.is_this() {
            return;
        }
        self.shared.state().futures.remove(&self.id);
        self.shared.changed.notify_all();
    }
}
