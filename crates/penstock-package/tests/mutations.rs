//! Damaged packages: no panic, no hang, and no more memory than the file and its declared sizes allow.
//!
//! `PENSTOCK_MUTATIONS` is how many: 20,000 unless it is set, which takes seconds. `PENSTOCK_MUTATIONS_SEED` begins
//! elsewhere. A failure names the seed of its case.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::path::Path;
use std::time::{Duration, Instant};

use common::{FOOTER, HEAD, Random, TemporaryFile, columns, resealed, sealed, small, tables};
use penstock_package::{Error, Kind, Reader, Result};

/// The system's allocator with two counters for each thread: bytes held, and the most so far.
struct Counting;

thread_local! {
    static HELD: Cell<i64> = const { Cell::new(0) };
    static PEAK: Cell<i64> = const { Cell::new(0) };
}

fn count(bytes: i64) {
    let _ = HELD.try_with(|held| {
        held.set(held.get() + bytes);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(held.get())));
    });
}

// SAFETY: every call is passed on; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: as of the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: as of the caller.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: as of the caller.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs `work`; the most bytes that it held.
fn measured<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let before = HELD.get();
    PEAK.set(before);
    let done = work();
    (done, (PEAK.get() - before) as u64)
}

/// The most that an opening may hold: a few times the size of the file.
fn opening_bytes(file: usize) -> u64 {
    (1 << 14) + 16 * file as u64
}

/// The most that reading one constant may hold: its vectors in up to four forms, twice for complex ones; and the roots of unity.
fn reading_bytes(reader: &Reader, number: u32) -> u64 {
    let entry = reader.tables().constants[number as usize];
    let roots = if entry.kind == Kind::Coefficients { 128 * u64::from(reader.tables().ring_dim) } else { 0 };
    let slots = u64::from(reader.tables().slots);
    (1 << 12) + u64::from(entry.bytes) + 8 * 12 * u64::from(entry.values) + 16 * slots + roots
}

/// A byte, or a number, that is likely to matter.
fn written(random: &mut Random, bytes: &mut [u8]) {
    let Some(last) = bytes.len().checked_sub(1) else { return };
    let at = random.below(bytes.len());
    let width = random.pick(&[1, 2, 4, 8]).min(last - at + 1);
    let place = &mut bytes[at..at + width];
    let mut old = [0; 8];
    old[..width].copy_from_slice(place);
    let old = u64::from_le_bytes(old);
    let new = match random.below(6) {
        0 => old ^ 1 << random.below(8 * width),
        1 => old.wrapping_add(1 + random.below(4) as u64),
        2 => old.wrapping_sub(1 + random.below(4) as u64),
        3 => {
            random.pick(&[0, 1, 2, 255, 256, 65_535, 1 << 16, 1 << 17, 1 << 18, 1 << 31, u64::MAX, 1 << 63, 10_000_000])
        }
        4 => 1 << random.below(8 * width),
        _ => random.word(),
    };
    place.copy_from_slice(&new.to_le_bytes()[..width]);
}

/// Bytes flipped, inserted, removed, repeated, exchanged, zeroed or overwritten, once or a few times.
fn mutated(random: &mut Random, bytes: &mut Vec<u8>) {
    for _ in 0..1 + random.below(3) {
        if bytes.is_empty() {
            return;
        }
        let at = random.below(bytes.len());
        let length = 1 + random.below(64.min(bytes.len() - at));
        match random.below(10) {
            0 => drop(bytes.drain(at..at + length)),
            1 => {
                let inserted: Vec<u8> = (0..length).map(|_| random.word() as u8).collect();
                drop(bytes.splice(at..at, inserted));
            }
            2 => {
                let copy = bytes[at..at + length].to_vec();
                let to = random.below(bytes.len());
                drop(bytes.splice(to..to, copy));
            }
            3 => {
                let other = random.below(bytes.len() - length + 1);
                let copy = bytes[at..at + length].to_vec();
                bytes.copy_within(other..other + length, at);
                bytes[other..other + length].copy_from_slice(&copy);
            }
            4 => bytes[at..at + length].fill(random.pick(&[0, 0xff])),
            5 => bytes.truncate(at),
            _ => written(random, bytes),
        }
    }
}

/// One damaged package. A raw one has the digests of the whole one; the others reach behind the digests.
fn damaged(random: &mut Random, whole: &[u8]) -> (Vec<u8>, bool) {
    let place = tables(whole);
    let (mut before, mut inside) = (whole[..place.start].to_vec(), whole[place.clone()].to_vec());
    match random.below(8) {
        0 => {
            let mut file = whole.to_vec();
            mutated(random, &mut file);
            return (file, true);
        }
        1 => {
            let mut file = whole.to_vec();
            let end = file.len();
            written(random, &mut file[end - FOOTER..]);
            return (file, true);
        }
        // Tables of any bytes.
        2 => mutated(random, &mut inside),
        // Counts, with what columns have.
        3 => written(random, &mut inside[..HEAD]),
        // Bytes of constants.
        4 | 5 => {
            let kept = before.len();
            let mut blobs = before.split_off(16);
            mutated(random, &mut blobs);
            blobs.resize(kept - 16, 0);
            before.extend(blobs);
        }
        // Some elements of some columns.
        _ => {
            let columns = columns(&inside);
            for _ in 0..1 + random.below(3) {
                let (_, column) = &columns[random.below(columns.len())];
                written(random, &mut inside[column.clone()]);
            }
        }
    }
    let file = if random.below(4) == 0 { sealed(&before, &inside) } else { resealed(&before, &inside) };
    (file, false)
}

/// Opens and reads all, within the bounds.
fn read(path: &Path, file: usize) -> Result<()> {
    let (opened, peak) = measured(|| Reader::open(path));
    assert!(peak <= opening_bytes(file), "opening held {peak} bytes for a file of {file}");
    let reader = opened?;
    let instructions = &reader.tables().instructions;
    assert_eq!(instructions.iter().count(), instructions.len());
    assert!(instructions.iter().all(|each| each.operands.iter().all(|value| *value < each.first)));
    let mut result = Ok(());
    for number in 0..reader.tables().constants.len() as u32 {
        let (values, peak) = measured(|| reader.constant_values(number));
        let most = reading_bytes(&reader, number);
        assert!(peak <= most, "reading constant {number} held {peak} bytes of {most}");
        match values {
            Ok(values) => assert!(values.iter().flatten().all(|part| part.is_finite())),
            Err(error) => result = Err(error),
        }
    }
    result
}

#[test]
fn damaged_packages_are_refused_or_read_within_their_bounds() {
    let number = |name: &str, default: u64| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let (cases, first) = (number("PENSTOCK_MUTATIONS", 20_000), number("PENSTOCK_MUTATIONS_SEED", 0));
    let (whole, file) = (small(), TemporaryFile::new());
    let (mut accepted, mut damaged_files, mut broken_rules, mut slowest) = (0, 0, 0, Duration::ZERO);
    for seed in first..first + cases {
        let mut random = Random(seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
        let (bytes, raw) = damaged(&mut random, &whole);
        let path = file.with(&bytes);
        let begun = Instant::now();
        let result = std::panic::catch_unwind(|| read(path, bytes.len()));
        slowest = slowest.max(begun.elapsed());
        match result.unwrap_or_else(|_| panic!("PENSTOCK_MUTATIONS=1 PENSTOCK_MUTATIONS_SEED={seed} fails again")) {
            Ok(()) => {
                assert!(!raw || bytes == whole, "seed {seed}: a change was not noticed");
                accepted += 1;
            }
            Err(Error::Damaged { .. } | Error::NewerVersion { .. }) => damaged_files += 1,
            Err(Error::Rule { .. }) => broken_rules += 1,
            Err(error) => panic!("seed {seed}: {error}"),
        }
    }
    println!("{cases} packages: {damaged_files} damaged, {broken_rules} break a rule, {accepted} are packages still");
    println!("the slowest took {slowest:?}");
    assert!(slowest < Duration::from_secs(5), "the slowest took {slowest:?}");
    // Mutations reach behind the digests, and past the rules too.
    assert!(cases < 20_000 || (broken_rules > cases / 5 && accepted > cases / 50));
}
