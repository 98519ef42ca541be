//! Keys in memory under a byte budget: found, read ahead, given up.

mod future;
mod load;
mod pace;
#[cfg(test)]
mod played;
mod prefetch;
mod session;
mod state;
mod stats;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::buffer::Pool;
use crate::segment::KeyContent;
use crate::{Digest, Imported, KeyId, Result, Store, Tenant};

pub use future::Use;
pub use session::{PinnedKey, Session};
pub use stats::Stats;

use future::Future;
use state::State;

/// Which rows leave when others need their place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The key that was used longest ago, whole.
    Lru,
    /// Belady's rule on limbs: what the known futures use last. Without a future it decides by age, like LRU.
    Future,
}

/// How a cache behaves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Most bytes of rows in memory, in use or not.
    pub budget_bytes: u64,
    pub policy: Policy,
    /// How many uses ahead of the program keys are read, by a thread of its own; 0: never ahead.
    pub prefetch_uses: usize,
    /// How long a get waits for others to let go of what they use, before it fails.
    pub patience: Duration,
}

impl Options {
    pub fn new(budget_bytes: u64) -> Self {
        Self { budget_bytes, policy: Policy::Future, prefetch_uses: 64, patience: Duration::from_secs(60) }
    }
}

/// The keys of one store in memory. Any number of tenants, sessions and threads share its budget.
pub struct Cache {
    shared: Arc<Shared>,
    reader: Option<JoinHandle<()>>,
}

struct Shared {
    store: Arc<Store>,
    options: Options,
    pool: Arc<Pool>,
    state: Mutex<State>,
    /// Something was read, let go of or planned.
    changed: Condvar,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cache {
    /// A cache over `store`.
    ///
    /// # Errors
    /// `Io`: the system refuses the thread that reads ahead.
    pub fn new(store: Arc<Store>, options: Options) -> Result<Self> {
        let shared = Arc::new(Shared {
            store,
            options,
            pool: Pool::new(options.budget_bytes),
            state: Mutex::new(State::new(options.budget_bytes, options.policy)),
            changed: Condvar::new(),
        });
        let reader = if options.prefetch_uses > 0 { Some(prefetch::start(shared.clone())?) } else { None };
        Ok(Self { shared, reader })
    }

    pub fn store(&self) -> &Arc<Store> {
        &self.shared.store
    }

    /// Takes memory for `bytes` of rows of `row_bytes` from the system now, as far as the budget allows, so that the first
    /// reads do not wait for it.
    pub fn reserve(&self, row_bytes: usize, bytes: u64) {
        self.shared.pool.reserve(row_bytes, bytes);
    }

    /// Access to the keys of one tenant under one set of parameters, and to no others.
    pub fn session(&self, tenant: Tenant, digest: Digest) -> Session {
        Session::new(self.shared.clone(), tenant, digest)
    }

    /// Makes a future known. It counts, and is read ahead of, until the plan is dropped.
    pub fn plan(&self, uses: Vec<Use>) -> Plan {
        let mut state = self.shared.state();
        let id = state.tick();
        state.futures.insert(id, Future::new(uses));
        self.shared.changed.notify_all();
        Plan { shared: self.shared.clone(), id }
    }

    /// Imports a key into the store, and forgets what is in memory of the one that it replaces.
    ///
    /// # Errors
    /// Those of [`Store::import`].
    pub fn import(&self, tenant: &Tenant, key: KeyId, content: &dyn KeyContent) -> Result<Imported> {
        let imported = self.shared.store.import(tenant, key, content)?;
        self.shared.state().forget(&imported.name);
        self.shared.changed.notify_all();
        Ok(imported)
    }

    /// What has happened so far.
    pub fn stats(&self) -> Stats {
        let state = self.shared.state();
        Stats { resident_bytes: state.used_bytes, ..state.stats }
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        self.shared.state().stopping = true;
        self.shared.changed.notify_all();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join(); // It has nothing to say that its gets have not said.
        }
    }
}

/// A future that a cache knows. Sessions that are attached to it move it on with each get.
pub struct Plan {
    shared: Arc<Shared>,
    id: u64,
}

impl Plan {
    /// Uses that are still to come.
    pub fn remaining(&self) -> usize {
        self.shared.state().futures.get(&self.id).map_or(0, |future| future.coming().count())
    }
}

impl Drop for Plan {
    fn drop(&mut self) {
        self.shared.state().futures.remove(&self.id);
        self.shared.changed.notify_all();
    }
}
