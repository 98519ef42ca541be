//! The active jobs: one job a page, in a slab whose free places are used again, and queues of jobs that are lists
//! through it. Nothing is allocated while a run is in its steady state.

pub(crate) const NONE: u32 = u32::MAX;

/// Why a page moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Class {
    /// The scan reads it.
    Scan,
    /// Other traffic reads it.
    Read,
    /// The host writes it.
    Write,
    /// It is a page of the logical-to-physical table.
    Table,
    /// Garbage collection reads it, and then programs it elsewhere.
    Move,
    /// No page: the erase of the block of `row`.
    Erase,
}

impl Class {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Class::Scan => "scan",
            Class::Read => "read",
            Class::Write => "write",
            Class::Table => "table",
            Class::Move => "move",
            Class::Erase => "erase",
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) since: i64,
    /// The logical page, or the table's.
    pub(crate) logical: u64,
    /// Page of its plane.
    pub(crate) row: u32,
    pub(crate) next: u32,
    pub(crate) die: u16,
    pub(crate) channel: u8,
    pub(crate) plane: u8,
    pub(crate) class: Class,
    pub(crate) tries: u8,
    /// It is written to the flash, or an erase, and not read.
    pub(crate) programs: bool,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Jobs {
    all: Vec<Job>,
    free: Vec<u32>,
}

impl Jobs {
    #[inline]
    pub(crate) fn add(&mut self, job: Job) -> u32 {
        if let Some(at) = self.free.pop() {
            self.all[at as usize] = job;
            return at;
        }
        self.all.push(job);
        (self.all.len() - 1) as u32
    }

    #[inline]
    pub(crate) fn remove(&mut self, at: u32) {
        self.free.push(at);
    }

    /// Jobs that have been added and not removed.
    pub(crate) fn under_way(&self) -> usize {
        self.all.len() - self.free.len()
    }

    pub(crate) fn each_mut(&mut self) -> impl Iterator<Item = &mut Job> {
        self.all.iter_mut()
    }
}

impl std::ops::Index<u32> for Jobs {
    type Output = Job;

    #[inline]
    fn index(&self, at: u32) -> &Job {
        &self.all[at as usize]
    }
}

impl std::ops::IndexMut<u32> for Jobs {
    #[inline]
    fn index_mut(&mut self, at: u32) -> &mut Job {
        &mut self.all[at as usize]
    }
}

/// A queue of jobs, first in, first out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Queue {
    pub(crate) first: u32,
    last: u32,
}

impl Default for Queue {
    fn default() -> Self {
        Self { first: NONE, last: NONE }
    }
}

impl Queue {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first == NONE
    }

    #[inline]
    pub(crate) fn push(&mut self, jobs: &mut Jobs, at: u32) {
        jobs[at].next = NONE;
        if self.first == NONE {
            self.first = at;
        } else {
            jobs[self.last].next = at;
        }
        self.last = at;
    }

    pub(crate) fn push_first(&mut self, jobs: &mut Jobs, at: u32) {
        jobs[at].next = self.first;
        if self.first == NONE {
            self.last = at;
        }
        self.first = at;
    }

    #[inline]
    pub(crate) fn pop(&mut self, jobs: &Jobs) -> Option<u32> {
        let at = self.first;
        if at == NONE {
            return None;
        }
        self.first = jobs[at].next;
        Some(at)
    }

    /// The jobs of the queue in order.
    pub(crate) fn iter<'a>(&self, jobs: &'a Jobs) -> impl Iterator<Item = &'a Job> + use<'a> {
        let mut at = self.first;
        std::iter::from_fn(move || {
            let job = (at != NONE).then(|| &jobs[at])?;
            at = job.next;
            Some(job)
        })
    }
}
