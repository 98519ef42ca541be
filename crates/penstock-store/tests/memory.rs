//! In a process without memory or threads left, reads fail with an error, and work again when there is room.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio, id};

use common::{Folder, tenant};
use penstock_store::synthetic::{SyntheticKey, shape};
use penstock_store::{Error, KeyId, Pool, Reader, Result, SegmentError, Store};

/// Sets the limit of this process's address space from a separate process, since its start takes memory.
struct Limit(Child);

impl Limit {
    fn new() -> Self {
        let script = format!("while read limit; do prlimit --pid={} --as=$limit: && echo set; done", id());
        let shell = Command::new("sh").arg("-c").arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        Self(shell.unwrap())
    }

    /// So many more than it has; `None`: as many as there are.
    fn allow(&mut self, more: Option<u64>) {
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
        let taken = 4096 * pages.split(' ').next().unwrap().parse::<u64>().unwrap();
        let limit = more.map_or("unlimited".to_owned(), |more| (taken + more).to_string());
        writeln!(self.0.stdin.as_mut().unwrap(), "{limit}").unwrap();
        let mut answer = [0; 4];
        self.0.stdout.as_mut().unwrap().read_exact(&mut answer).unwrap();
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

// The only test of this file: the limit holds for the whole process.
#[test]
fn a_read_without_memory_or_a_thread_is_an_error() {
    let folder = Folder::new();
    let (store, _) = Store::open_folder(folder.path(), Reader::Pread, true).unwrap();
    // Rows of 64 KiB in three pieces: the reading thread is needed.
    let key = SyntheticKey { shape: shape(8192, 6, 2, 3), seed: 7, tag: "tag".into() };
    let name = store.import(&tenant("alice"), KeyId::Relin, &key).unwrap().name;
    let segment = store.segment(&name).unwrap();
    let mut limit = Limit::new();
    let read = |pool: &_| segment.read(0, 6, pool, |_, _| {});
    let refusals = [0, 128, 512, 1024, 2048, 4096].map(|kib| {
        let pool = Pool::new(0);
        limit.allow(Some(kib << 10));
        let results: [Result<()>; 3] = [
            read(&pool).map(drop),
            segment.verify(&pool).map(drop),
            store.import(&tenant("bob"), KeyId::Relin, &key).map(drop),
        ];
        pool.reserve(key.shape.row_stride(), 1 << 20);
        limit.allow(None);
        let refused = results.into_iter().filter_map(Result::err);
        refused.inspect(|error| assert!(matches!(error, Error::Segment(SegmentError::Io { .. })), "{error}")).count()
    });
    assert!(refusals[0] > 0, "{refusals:?}");
    read(&Pool::new(0)).unwrap();
}
