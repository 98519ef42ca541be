//! Keys in memory under a byte budget: found, read ahead, given up.

mod future;
mod job;
mod load;
mod options;
mod pace;
#[cfg(test)]
mod played;
mod prefetch;
mod session;
mod shared;
mod state;
mod stats;

use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;

use penstock_ckks::Process;

use crate::buffer::Pool;
use crate::{Digest, KeyName, Result, Store, Tenant};

pub use future::Use;
pub use options::{Options, Policy};
pub use session::{PinnedKey, Session};
pub use shared::Plan;
pub use stats::{Read, Stats};

use future::Future;
use shared::Shared;
use state::State;

/// The keys of one store in memory. Any number of tenants, sessions and threads share its budget.
pub struct Cache {
    shared: Arc<Shared>,
    reader: Option<JoinHandle<()>>,
}

impl Cache {
    /// A cache over `store`.
    ///
    /// # Errors
    /// `Io`: the system refuses the thread that reads ahead.
    pub fn new(store: Arc<Store>, options: Options) -> Result<Self> {
        let shared = Arc::new(Shared {
            process: Process::this(),
            store,
            options,
            pool: Pool::new(options.budget_bytes),
            state: Mutex::new(State::new(options.budget_bytes, options.policy, options.floor_bytes)),
            opened: Mutex::default(),
            changed: Condvar::new(),
        });
        let reader = if options.prefetch_uses > 0 { Some(prefetch::start(shared.clone())?) } else { None };
        Ok(Self { shared, reader })
    }

    /// # Errors
    /// `Forked`: in a child of the process that made it, where nothing else may be called.
    pub fn check_process(&self) -> Result<()> {
        self.shared.check_process()
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

    /// Makes a future known, which begins once `lead` uses of others are over. It counts, and is read ahead of, until the
    /// plan is dropped.
    pub fn plan(&self, uses: Vec<Use>, lead: usize) -> Plan {
        let mut state = self.shared.state();
        let id = state.tick();
        state.futures.insert(id, Future::after(uses, lead));
        self.shared.changed.notify_all();
        Plan { shared: self.shared.clone(), id }
    }

    /// The keys with rows in memory: name, limbs, bytes.
    pub fn residents(&self) -> Vec<(KeyName, usize, u64)> {
        let state = self.shared.state();
        let there = state.residents.iter().filter(|(_, resident)| resident.limbs > 0);
        there.map(|(name, each)| (name.clone(), each.limbs, each.shape.bytes_needed(each.limbs))).collect()
    }

    /// Lets go of all keys of a tenant; those in use go after their use.
    pub fn forget_tenant(&self, tenant: &Tenant) {
        let mut state = self.shared.state();
        let own = |(name, each): (&KeyName, &state::Resident)| {
            (name.tenant == *tenant && !each.loading).then(|| name.clone())
        };
        let names: Vec<KeyName> = state.residents.iter().filter_map(own).collect();
        names.iter().for_each(|name| state.forget(name));
        self.shared.changed.notify_all();
    }

    /// The reads that have ended since the last call, the oldest first; at most the latest 4096.
    pub fn take_reads(&self) -> Vec<Read> {
        self.shared.state().reads.drain(..).collect()
    }

    /// The counters so far.
    pub fn stats(&self) -> Stats {
        let state = self.shared.state();
        Stats { resident_bytes: state.used_bytes, ..state.stats }
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        if !self.shared.process.is_this() {
            return;
        }
        self.shared.state().stopping = true;
        self.shared.changed.notify_all();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join(); // It has nothing to say that its gets have not said.
        }
    }
}
