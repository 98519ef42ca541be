//! Threads of one context: a list of independent jobs, done by 1 to n of them.

use std::cell::Cell;
use std::sync::{Arc, Barrier, Condvar, Mutex, PoisonError};
use std::time::Duration;

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

/// How often a waiting call asks whether anybody wants it.
const LOOK: Duration = Duration::from_millis(50);

/// Threads, and whether all of them have work that may wait.
#[derive(Debug)]
struct Pool {
    threads: rayon::ThreadPool,
    is_taken: Mutex<bool>,
    changed: Condvar,
}

/// Gives the turn back when it goes.
struct Turn<'a>(&'a Pool);

impl Pool {
    fn started(threads: usize) -> Result<Self, Error> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).thread_name(|k| format!("ckks-{k}")).build();
        let threads = pool.map_err(|why| Error::System { what: "threads", why: why.to_string() })?;
        Ok(Self { threads, is_taken: Mutex::new(false), changed: Condvar::new() })
    }

    /// `None` if it is not wanted any more.
    fn turn(&self, is_wanted: impl Fn() -> bool) -> Option<Turn<'_>> {
        let mut is_taken = self.is_taken.lock().unwrap_or_else(PoisonError::into_inner);
        while *is_taken {
            is_taken = self.changed.wait_timeout(is_taken, LOOK).unwrap_or_else(PoisonError::into_inner).0;
            if !is_wanted() {
                return None;
            }
        }
        *is_taken = true;
        Some(Turn(self))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.is_taken.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.0.changed.notify_one();
    }
}

/// A separate pool, so that a context has the requested threads, whoever calls it. A child of a fork, which has none of
/// them, starts its own at its first use.
#[derive(Debug)]
pub struct Workers {
    pool: Option<OfProcess<Pool>>,
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
        let pool = (threads > 1).then(|| Pool::started(threads)).transpose()?;
        Ok(Self { pool: pool.map(OfProcess::new), threads })
    }

    /// Their number.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Runs `work` so many times at once, at most once on each thread: operations inside need not be handed over.
    /// Returns when all are over.
    ///
    /// Work of another call waits for its turn, or until nobody wants it. Side by side they could wait for ever: a thread
    /// that waits inside an operation takes up other work of the pool, which may wait for the room of that operation's key.
    ///
    /// # Errors
    /// [`Error::System`]: in a child of a fork they cannot be started.
    pub fn abreast(&self, count: usize, is_wanted: impl Fn() -> bool, work: impl Fn() + Sync) -> Result<(), Error> {
        let count = count.clamp(1, self.threads);
        let Some(pool) = self.pool()? else {
            work();
            return Ok(());
        };
        let Some(_turn) = pool.turn(is_wanted) else { return Ok(()) };
        // None begins before all have a thread: one that waits for another would never end on its thread.
        let begun = Barrier::new(count);
        pool.threads.scope(|scope| {
            for _ in 0..count {
                scope.spawn(|_| {
                    begun.wait();
                    work();
                });
            }
        });
        Ok(())
    }

    fn pool(&self) -> Result<Option<Arc<Pool>>, Error> {
        self.pool.as_ref().map(|pool| pool.get_or_make(|| Pool::started(self.threads))).transpose()
    }

    /// Does every job. The first error stops the items that have not begun.
    ///
    /// # Errors
    /// That of a job; [`Error::System`]: in a child of a fork no threads can be started.
    pub fn each<T: Send>(&self, jobs: Vec<T>, work: impl Fn(T) -> Result<(), Error> + Sync) -> Result<(), Error> {
        let pool = if jobs.len() > 1 && !ALONE.get() { self.pool()? } else { None };
        match pool {
            Some(pool) => pool.threads.install(|| jobs.into_par_iter().with_max_len(1).try_for_each(&work)),
            None => jobs.into_iter().try_for_each(work),
        }
    }
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
    #[test]
    fn work_that_waits_has_all_threads_to_itself() {
        let workers = Workers::new(2).unwrap();
        let inside = AtomicUsize::new(0);
        let work = |number: usize| {
            // Both of a call's are here at the same time, and none of another call's.
            let before = inside.fetch_add(number, Ordering::SeqCst);
            assert!([0, number].contains(&before));
            while inside.load(Ordering::SeqCst) != 2 * number {
                std::hint::spin_loop();
            }
            workers.each(vec![0; 64], |_| Ok(())).unwrap();
        };
        std::thread::scope(|scope| {
            for number in [1, 1000] {
                let (workers, work, inside) = (&workers, &work, &inside);
                scope.spawn(move || {
                    for _ in 0..200 {
                        let over = Barrier::new(2);
                        let both = || {
                            work(number);
                            over.wait();
                            inside.store(0, Ordering::SeqCst);
                            over.wait();
                        };
                        workers.abreast(2, || true, both).unwrap();
                    }
                });
            }
        });
        let begun = AtomicUsize::new(0);
        let mark = || begun.store(1, Ordering::SeqCst);
        workers.abreast(1, || true, || workers.abreast(1, || false, mark).unwrap()).unwrap();
        assert_eq!(begun.into_inner(), 0);
    }
}
