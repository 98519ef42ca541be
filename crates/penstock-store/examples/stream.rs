//! The checked rate of keys streamed from a disk, and the disk's own speed in the same run:
//!
//! ```text
//! cargo run --release -p penstock-store --example stream -- FOLDER [KEYS]
//! ```
//!
//! Synthetic keys of N = 2^16, 11 limbs of Q, 4 of P and 3 digits: 47.2 MB each. Every reading is past the page cache.

use std::error::Error;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use penstock_store::synthetic::{SyntheticKey, shape};
use penstock_store::{Cache, KeyId, KeyName, Options, Pool, Reader, Store, Tenant, Use};

const ROUNDS: usize = 3;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("name a folder on the disk to be measured")?;
    let count: u64 = arguments.next().map_or(Ok(8), |keys| keys.parse())?;
    let folder = Path::new(&folder).join("penstock-stream");
    let shape = shape(1 << 16, 11, 4, 3);
    let tenant = Tenant::new("bench")?;
    let names: Vec<KeyName> =
        (0..count).map(|each| KeyName::new(tenant.clone(), shape.digest(), KeyId::Rot(2 * each + 3))).collect();
    let bytes = count * shape.bytes_needed(11);
    {
        let (store, _) = Store::open_folder(&folder, Reader::Auto, true)?;
        let started = Instant::now();
        for (seed, name) in names.iter().enumerate() {
            let key = SyntheticKey { shape: shape.clone(), seed: seed as u64, tag: "bench".into() };
            store.import(&tenant, name.key, &key)?;
        }
        report("import (words made twice, checked, hashed, synced)", bytes, started);
    }
    for round in 0..ROUNDS {
        println!("round {round}");
        let started = Instant::now();
        names.iter().try_for_each(|name| read_raw(&folder.join(name.path())))?;
        report("  the disk: one thread, 4 MiB reads, O_DIRECT", bytes, started);
        for reader in [Reader::Uring, Reader::Pread] {
            let (store, _) = Store::open_folder(&folder, reader, true)?;
            let store = Arc::new(store);
            for (limbs, prefetch_uses) in [(11, 0), (11, 8), (8, 8), (4, 8)] {
                let options = Options { prefetch_uses, ..Options::new(2 * shape.bytes_needed(11)) };
                let cache = Cache::new(store.clone(), options)?;
                let plan = cache.plan(names.iter().map(|name| Use { name: name.clone(), limbs }).collect(), 0);
                let session = cache.session(tenant.clone(), shape.digest()).following(&plan);
                let started = Instant::now();
                for name in &names {
                    session.get(name.key, limbs)?;
                }
                let what = format!("  {reader:?}, {limbs} limbs, ahead {prefetch_uses}");
                report(&what, count * shape.bytes_needed(limbs), started);
            }
        }
    }
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

fn read_raw(path: &Path) -> std::io::Result<()> {
    let mut file = File::options().read(true).custom_flags(libc::O_DIRECT).open(path)?;
    let mut buffer = Pool::new(0).row(4 << 20).map_err(std::io::Error::other)?;
    while file.read(buffer.bytes_mut())? > 0 {}
    Ok(())
}

fn report(what: &str, bytes: u64, started: Instant) {
    let seconds = started.elapsed().as_secs_f64();
    println!("{what}: {:.3} s, {:.2} GB/s", seconds, bytes as f64 / seconds / 1e9);
}
