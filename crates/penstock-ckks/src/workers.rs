//! Threads of one context: a list of independent jobs, done by 1 to n of them.

use std::cell::Cell;
use std::sync::{Arc, Barrier};

use rayon::prelude::*;

use crate::error::Error;
use crate::process::OfProcess;

thread_local! {
    static ALONE: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work` with every operation in it on this thread: for callers that run several operations side by side.
pub fn on_this_thread<R>(work: impl FnOnce() -> R) -> R {
    struct Restored(bool);
    impl Drop for Restored {
        fn drop(&mut self) {
            ALONE.set(self.0);
        }
    }
    let _restored = Restored(ALONE.replace(true));
    work()
}

/// Takes a part of an operation that another thread of the same context has begun, if there is one.
pub fn help() -> bool {
    rayon::yield_now() == Some(rayon::Yield::Executed)
}

/// A separate pool, so that a context has the requested threads, whoever calls it. A child of a fork, which has none of
/// them, starts its own at its first use.
#[derive(Debug)]
pub struct Workers {
    pool: Option<OfProcess<rayon::ThreadPool>>,
    threads: usize,
}

impl Workers {
    /// With 1 thread everything runs on the caller's.
    ///
    /// # Errors
    /// [`Error::Parameters`]: no threads; [`Error::System`]: they cannot be started.
    pub fn new(threads: usize) -> Result<Self, Error> {
        if threads == 0 {
            return Err(Error::Parameters { what: "0 threads".to_owned(), rule: "ask for at least 1" });
        }
        let pool = (threads > 1).then(|| started(threads)).transpose()?;
        Ok(Self { pool: pool.map(OfProcess::new), threads })
    }

    /// Their number.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Runs `work` so many times at once, at most once on each thread: operations inside need not be handed over.
    /// Returns when all are over.
    ///
    /// # Errors
    /// [`Error::System`]: in a child of a fork they cannot be started.
    pub fn abreast(&self, count: usize, work: impl Fn() + Sync) -> Result<(), Error> {
        let count = count.clamp(1, self.threads);
        match self.pool()? {
            // None begins before all have a thread: one that waits for another would never end on its thread.
            Some(pool) => {
                let begun = Barrier::new(count);
                pool.scope(|scope| {
                    for _ in 0..count {
                        scope.spawn(|_| {
                            begun.wait();
                            work();
                        });
                    }
                });
            }
            None => work(),
        }
        Ok(())
    }

    fn pool(&self) -> Result<Option<Arc<rayon::ThreadPool>>, Error> {
        self.pool.as_ref().map(|pool| pool.get_or_make(|| started(self.threads))).transpose()
    }

    /// Does every job. The first error stops the items that have not begun.
    ///
    /// # Errors
    /// That of a job; [`Error::System`]: in a child of a fork no threads can be started.
    pub fn each<T: Send>(&self, jobs: Vec<T>, work: impl Fn(T) -> Result<(), Error> + Sync) -> Result<(), Error> {
        let pool = if jobs.len() > 1 && !ALONE.get() { self.pool()? } else { None };
        match pool {
            Some(pool) => pool.install(|| jobs.into_par_iter().with_max_len(1).try_for_each(&work)),
            None => jobs.into_iter().try_for_each(work),
        }
    }
}

fn started(threads: usize) -> Result<rayon::ThreadPool, Error> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).thread_name(|k| format!("ckks-{k}")).build();
    pool.map_err(|why| Error::System { what: "threads", why: why.to_string() })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn every_job_is_done_once_by_any_number_of_threads() {
        for threads in 1..4 {
            let done = AtomicUsize::new(0);
            let workers = Workers::new(threads).unwrap();
            workers
                .each((1..=100).collect(), |k: usize| {
                    done.fetch_add(k, Ordering::Relaxed);
                    Ok(())
                })
                .unwrap();
            assert_eq!(done.into_inner(), 5050);
        }
        assert!(Workers::new(0).is_err());
    }

    #[test]
    fn work_that_runs_side_by_side_stays_on_its_thread() {
        let workers = Workers::new(2).unwrap();
        let here = std::thread::current().id();
        let is_here = |_: usize| {
            if std::thread::current().id() == here {
                Ok(())
            } else {
                Err(Error::Depth { operation: "x", limbs: 1, needed: 2 })
            }
        };
        assert!(on_this_thread(|| workers.each(vec![0, 1, 2, 3], is_here)).is_ok());
        assert!(workers.each(vec![0, 1, 2, 3], is_here).is_err());
    }

    #[test]
    fn an_error_of_a_job_is_the_answer() {
        let failed = Workers::new(2).unwrap().each(vec![0, 1, 2], |k| {
            if k == 1 { Err(Error::Depth { operation: "x", limbs: k, needed: 2 }) } else { Ok(()) }
        });
        assert_eq!(failed, Err(Error::Depth { operation: "x", limbs: 1, needed: 2 }));
    }
}
