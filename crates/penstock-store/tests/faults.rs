//! What breaks, breaks alone: killed imports, full disks, reads that fail.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use common::{Folder, file, import, key, listed, name, open, small, tenant, words};
use penstock_ckks::{KeyView, Part};
use penstock_store::synthetic::{FormedKey, Random, SyntheticKey};
use penstock_store::{
    Backend, Cache, Done, Error, Fill, Form, KeyId, KeyName, Listed, LocalFolder, Options, Piece, Reader, Result, Seed,
    Source, Store, TEMPORARY_PREFIX, Use,
};

const CHILD: &str = "PENSTOCK_STORE_TEST_FOLDER";
/// The child imports keys of every form, not whole ones alone.
const FORMED: &str = "PENSTOCK_STORE_TEST_FORMS";
const KEYS: [KeyId; 4] = [KeyId::Relin, KeyId::Conj, KeyId::Rot(5), KeyId::Rot(25)];
const OWNERS: [&str; 2] = ["alice", "bob"];

/// Not a test: the work of the killed processes of the tests below. It imports until it is killed.
#[test]
fn child_that_imports_until_it_is_killed() {
    let Ok(folder) = std::env::var(CHILD) else { return };
    let (store, _) = open(Path::new(&folder));
    let formed = std::env::var_os(FORMED).is_some();
    println!("\nready");
    for round in 0.. {
        let (owner, id) = (OWNERS[round % 2], KEYS[round / 2 % 4]);
        // Another key each time, of each form in turn: the replacement differs from the replaced key.
        let seed = (formed && round % 3 > 0).then_some(Seed([round as u8; 32]));
        let form = Form { limbs: if formed && round % 5 > 2 { 3 } else { 6 }, seed };
        let content = FormedKey { key: SyntheticKey { seed: round as u64, ..key(owner, id) }, form };
        match store.import(&tenant(owner), id, &content) {
            Ok(_) => println!("imported {owner} {id}"),
            Err(error) => println!("failed {error}"),
        }
    }
}

fn child(folder: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "child_that_imports_until_it_is_killed", "--nocapture"])
        .env(CHILD, folder)
        .env(FORMED, "");
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

/// Segment files and unfinished files below a folder.
fn files(folder: &Path) -> (BTreeSet<String>, usize) {
    let everything = |prefix: &str| {
        let mut found = vec![];
        let mut folders = vec![folder.to_owned()];
        while let Some(next) = folders.pop() {
            for entry in fs::read_dir(next).unwrap().map(|entry| entry.unwrap()) {
                if entry.file_type().unwrap().is_dir() {
                    folders.push(entry.path());
                } else if entry.file_name().to_string_lossy().starts_with(prefix) {
                    found.push(entry.path().strip_prefix(folder).unwrap().display().to_string());
                }
            }
        }
        found
    };
    let segments = everything("").into_iter().filter(|path| path.ends_with(".pkey")).collect();
    (segments, everything(TEMPORARY_PREFIX).len())
}

/// The store lists exactly the whole keys: each listed key verifies, each segment is listed, nothing unfinished is
/// left.
fn check_whole(folder: &Path) -> Store {
    let (store, opening) = open(folder);
    assert!(opening.damaged.is_empty() && opening.lost.is_empty() && !opening.index_rebuilt, "{opening:?}");
    let entries = store.list().unwrap();
    for entry in &entries {
        assert!(store.verify(entry).fault.is_none(), "{}", entry.name);
    }
    let names: BTreeSet<String> = entries.iter().map(|entry| entry.name.path()).collect();
    assert_eq!(files(folder), (names, 0));
    store
}

#[test]
fn an_import_killed_at_100_random_points_leaves_a_store_that_lists_what_is_whole() {
    let folder = Folder::new();
    let mut random = Random::new(2026);
    let (mut leftovers, mut adopted, mut listed_counts) = (0, 0, BTreeSet::new());
    for round in 0..100 {
        if round % 10 == 0 {
            fs::remove_dir_all(folder.path()).unwrap(); // from nothing again
            fs::create_dir(folder.path()).unwrap();
        }
        let mut process = child(folder.path()).spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        // A third of the kills hit the opening of the store.
        if round % 3 > 0 {
            lines.by_ref().map(|line| line.unwrap()).find(|line| line == "ready").unwrap();
        }
        thread::sleep(Duration::from_micros(random.below(40_000)));
        process.kill().unwrap(); // SIGKILL
        process.wait().unwrap();
        leftovers += files(folder.path()).1;
        let before: BTreeSet<String> = files(folder.path()).0;
        let (_, opening) = open(folder.path());
        adopted += opening.adopted.len();
        let store = check_whole(folder.path());
        assert_eq!(files(folder.path()).0, before, "a whole key was removed");
        listed_counts.insert(listed(&store).len());
        // Another import heals, whatever was cut off.
        let (owner, id) = (OWNERS[round % 2], KEYS[round % 4]);
        import(&store, owner, id);
        assert!(store.verify(&store.entry(&name(owner, id)).unwrap()).fault.is_none());
    }
    println!("unfinished files seen: {leftovers}; keys adopted: {adopted}; numbers of keys listed: {listed_counts:?}");
    assert!(leftovers > 0, "no kill hit an import");
}

#[test]
fn leftovers_of_a_running_import_are_left_alone() {
    let folder = Folder::new();
    let (store, _) = open(folder.path());
    let inside = Arc::new(AtomicUsize::new(0));
    /// Opens the store a second time in the middle of an import.
    struct Opening<'a>(penstock_store::synthetic::SyntheticKey, &'a Path, Arc<AtomicUsize>);
    impl penstock_store::KeyContent for Opening<'_> {
        fn shape(&self) -> &penstock_store::Shape {
            &self.0.shape
        }
        fn secret_tag(&self) -> &str {
            &self.0.tag
        }
        fn fill(&self, row: usize, words: &mut [u64]) -> Result<(), penstock_store::SegmentError> {
            if row == 40 && files(self.1).1 == 1 {
                let (second, opening) = open(self.1);
                assert!(opening.leftovers.is_empty());
                assert!(second.gc(None, false).unwrap_err().to_string().contains("an import is running"));
                self.2.fetch_add(1, Ordering::Relaxed);
            }
            self.0.fill(row, words)
        }
    }
    let content = Opening(key("alice", KeyId::Relin), folder.path(), inside.clone());
    store.import(&tenant("alice"), KeyId::Relin, &content).unwrap();
    assert_eq!(inside.load(Ordering::Relaxed), 1);
    check_whole(folder.path());
}

#[test]
fn files_below_the_store_that_are_not_its_own_are_left_alone() {
    let folder = Folder::new();
    import(&open(folder.path()).0, "alice", KeyId::Relin);
    let own = folder.path().join(name("alice", KeyId::Relin).path()).with_file_name(format!("{TEMPORARY_PREFIX}1-2"));
    // Files of other programs, and another store inside this one's folder.
    let foreign = [
        format!("{TEMPORARY_PREFIX}0"),
        format!("database/segments/{TEMPORARY_PREFIX}0.seg"),
        format!("inner/{}", name("bob", KeyId::Relin).path()),
        format!("inner/bob/{}/{TEMPORARY_PREFIX}1-2", name("bob", KeyId::Relin).digest),
    ]
    .map(|path| folder.path().join(path));
    for file in foreign.iter().chain([&own]) {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "half").unwrap();
    }
    let (store, opening) = open(folder.path());
    assert_eq!(opening.leftovers.len(), 1);
    assert!(!own.exists());
    assert!(store.gc(None, false).unwrap().is_empty());
    assert!(foreign.iter().all(|file| file.exists()));
}

#[test]
fn a_file_size_limit_stops_an_import_and_nothing_else() {
    let folder = Folder::new();
    import(&open(folder.path()).0, "alice", KeyId::Relin);
    // The index fits below 100 KiB, a segment does not. The signal of the limit is ignored, so that writing fails.
    let script = "trap '' XFSZ; ulimit -f 100; exec \"$0\" --exact child_that_imports_until_it_is_killed --nocapture";
    let mut command = Command::new("bash");
    command.args(["-c", script]).arg(std::env::current_exe().unwrap()).env(CHILD, folder.path());
    let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(process.stdout.take().unwrap()).lines().map(|line| line.unwrap());
    let failed: Vec<String> = lines.filter(|line| line.starts_with("failed")).take(8).collect();
    process.kill().unwrap();
    process.wait().unwrap();
    assert!(failed.len() == 8 && failed.iter().all(|line| line.contains("ulimit -f")), "{failed:?}");
    let store = check_whole(folder.path());
    assert_eq!(listed(&store), [name("alice", KeyId::Relin)]);
}

#[test]
fn a_full_disk_stops_an_import_and_nothing_else() {
    let mount = Folder::new();
    let made = Command::new("mount").args(["-t", "tmpfs", "-o", "size=448k", "tmpfs"]).arg(mount.path()).output();
    if !made.is_ok_and(|output| output.status.success()) {
        println!("skipped: mounting a small file system takes root");
        return;
    }
    /// The mount goes before the folder does.
    struct Mounted<'a>(&'a Path);
    impl Drop for Mounted<'_> {
        fn drop(&mut self) {
            let _ = Command::new("umount").arg("-l").arg(self.0).status();
        }
    }
    let _mounted = Mounted(mount.path());
    {
        let (store, _) = open(mount.path());
        import(&store, "alice", KeyId::Relin);
        for id in [KeyId::Conj, KeyId::Rot(5)] {
            if let Err(error) = store.import(&tenant("alice"), id, &key("alice", id)) {
                assert!(error.to_string().contains("the disk is full"), "{error}");
            }
        }
        assert!(listed(&store).len() < 3, "the disk was not full");
        // A key that is there is not lost by an import that fails.
        assert!(store.verify(&store.entry(&name("alice", KeyId::Relin)).unwrap()).fault.is_none());
    }
    check_whole(mount.path());
}

#[test]
fn a_damaged_or_missing_index_is_built_again_from_the_segments() {
    let folder = Folder::new();
    let (store, _) = open(folder.path());
    for id in KEYS {
        import(&store, "alice", id);
    }
    let before = store.list().unwrap();
    drop(store);
    let index = folder.path().join("index.sqlite");
    let whole = fs::read(&index).unwrap();
    let mut random = Random::new(5);
    for round in 0..40 {
        let mut bytes = whole.clone();
        match round {
            0 => bytes = b"not a database, though it is long enough to look like one".repeat(200),
            1 => bytes.truncate(bytes.len() / 2),
            2 => bytes.clear(),
            _ => (0..1 << (round % 10)).for_each(|_| {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] = random.next_word() as u8;
            }),
        }
        fs::write(&index, bytes).unwrap();
        // Whatever the index says, the listing follows the disk: never a key that is not there.
        match Store::open_folder(folder.path(), Reader::Auto, true) {
            Ok((store, _)) => match store.list() {
                Ok(found) => assert!(found.iter().all(|entry| before.iter().any(|known| known.name == entry.name))),
                Err(error) => assert!(matches!(error, Error::Index { .. }), "{error}"),
            },
            Err(error) => assert!(error.to_string().contains("moved away"), "{error}"),
        }
        let _ = fs::remove_file(&index);
        let (store, opening) = open(folder.path());
        assert_eq!((store.list().unwrap(), opening.adopted.len()), (before.clone(), 4));
    }
}

#[test]
fn an_index_whose_damage_shows_in_its_rows_is_built_again() {
    let folder = Folder::new();
    let (store, _) = open(folder.path());
    for id in KEYS {
        import(&store, "alice", id);
    }
    let before = store.list().unwrap();
    drop(store);
    let index = folder.path().join("index.sqlite");
    let whole = fs::read(&index).unwrap();
    let edited = |edit: &str| {
        fs::write(&index, &whole).unwrap();
        rusqlite::Connection::open(&index).unwrap().execute_batch(edit).unwrap();
    };
    let mut page = whole.clone();
    page[4096..4112].fill(0xff);
    fs::write(&index, page).unwrap();
    for edit in [
        "",
        "UPDATE keys SET tenant = x'ff00' WHERE key = 'rot:5'",
        "UPDATE keys SET key = CAST(x'ff00' AS TEXT) WHERE key = 'rot:5'",
        "UPDATE unsettled SET path = 5; INSERT INTO unsettled VALUES (x'ff00', 0)",
        // Neither a refusal of every import nor a table without an end.
        "CREATE TRIGGER t BEFORE INSERT ON keys BEGIN SELECT RAISE(ABORT, 'no'); END",
        "ALTER TABLE keys RENAME TO others; CREATE VIEW keys AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 \
         FROM n) SELECT others.* FROM others, n",
    ] {
        if !edit.is_empty() {
            edited(edit);
        }
        let (store, opening) = open(folder.path());
        assert!(opening.index_rebuilt, "{edit}");
        assert_eq!((store.list().unwrap(), opening.adopted.len()), (before.clone(), 4), "{edit}");
    }
}

/// A folder on a disk where something happens once a file has its name: nothing, an error, the end of the process.
struct Ending {
    disk: LocalFolder,
    after: fn() -> Result<()>,
}

impl Backend for Ending {
    fn describe(&self) -> String {
        self.disk.describe()
    }
    fn list(&self) -> Result<Vec<Listed>> {
        self.disk.list()
    }
    fn size(&self, path: &str) -> Result<Option<u64>> {
        self.disk.size(path)
    }
    fn open(&self, path: &str) -> Result<Box<dyn Source>> {
        self.disk.open(path)
    }
    fn put(&self, path: &str, bytes: u64, fill: Fill<'_>) -> Result<()> {
        self.disk.put(path, bytes, fill)?;
        (self.after)()
    }
    fn remove(&self, path: &str) -> Result<()> {
        self.disk.remove(path)
    }
}

#[test]
fn a_key_whose_replacing_ended_before_its_index_row_is_used_and_not_removed() {
    let failing = || Err(Error::io("folder", "sync", std::io::Error::from_raw_os_error(5)));
    for (after, settled) in [(failing as fn() -> Result<()>, true), (|| panic!("killed"), false)] {
        let folder = Folder::new();
        import(&open(folder.path()).0, "alice", KeyId::Rot(5));
        let disk = LocalFolder::new(folder.path(), Reader::Auto, true).unwrap();
        let (store, _) = Store::open(folder.path(), Arc::new(Ending { disk, after })).unwrap();
        let other = SyntheticKey { seed: 99, ..key("alice", KeyId::Rot(5)) };
        let import = || store.import(&tenant("alice"), KeyId::Rot(5), &other).map(drop);
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(import));
        assert!(ended.map_or(true, |done| done.is_err()));
        // A process that another test is starting has the lock too, until it runs its own program.
        fs::File::open(folder.path().join("lock")).unwrap().lock().unwrap();
        let (store, opening) = open(folder.path());
        assert_eq!(opening.adopted.len(), usize::from(!settled));
        let entry = store.entry(&name("alice", KeyId::Rot(5))).unwrap();
        assert!(store.verify(&entry).fault.is_none());
        assert_eq!(store.gc(None, false).unwrap(), []);
        check_whole(folder.path());
        assert_eq!(open(folder.path()).1, Default::default());
    }
}

#[test]
fn a_lost_key_is_missed_until_it_is_imported_or_forgotten() {
    let folder = Folder::new();
    let (store, _) = open(folder.path());
    for id in KEYS {
        import(&store, "alice", id);
    }
    fs::remove_file(file(folder.path(), "alice", KeyId::Relin)).unwrap();
    fs::remove_file(file(folder.path(), "alice", KeyId::Conj)).unwrap();
    let elsewhere = folder.path().join("elsewhere");
    fs::rename(file(folder.path(), "alice", KeyId::Rot(5)), &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, file(folder.path(), "alice", KeyId::Rot(5))).unwrap();
    for _ in 0..3 {
        let (store, opening) = open(folder.path());
        assert_eq!(opening.lost, [KeyId::Conj, KeyId::Relin, KeyId::Rot(5)].map(|id| name("alice", id)));
        assert_eq!(listed(&store), [name("alice", KeyId::Rot(25))]);
        assert_eq!(store.gc(None, true).unwrap().len(), 3);
    }
    import(&open(folder.path()).0, "alice", KeyId::Relin);
    assert_eq!(open(folder.path()).1.lost, [KeyId::Conj, KeyId::Rot(5)].map(|id| name("alice", id)));
    assert_eq!(open(folder.path()).0.gc(None, false).unwrap().len(), 2);
    assert_eq!(open(folder.path()).1, Default::default());
    assert!(elsewhere.exists() && file(folder.path(), "alice", KeyId::Rot(5)).is_symlink());
}

/// What a faulty disk does to one read.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    Error,
    Short,
    FlippedBit,
}

/// A folder on a disk that fails in reads of chosen files.
struct Faulty {
    disk: LocalFolder,
    faults: Arc<Mutex<Vec<(String, Fault)>>>,
}

struct FaultySource {
    source: Box<dyn Source>,
    path: String,
    faults: Arc<Mutex<Vec<(String, Fault)>>>,
}

impl Backend for Faulty {
    fn describe(&self) -> String {
        self.disk.describe()
    }
    fn list(&self) -> Result<Vec<Listed>> {
        self.disk.list()
    }
    fn size(&self, path: &str) -> Result<Option<u64>> {
        self.disk.size(path)
    }
    fn open(&self, path: &str) -> Result<Box<dyn Source>> {
        let source = self.disk.open(path)?;
        Ok(Box::new(FaultySource { source, path: path.into(), faults: self.faults.clone() }))
    }
    fn put(&self, path: &str, bytes: u64, fill: Fill<'_>) -> Result<()> {
        self.disk.put(path, bytes, fill)
    }
    fn remove(&self, path: &str) -> Result<()> {
        self.disk.remove(path)
    }
}

impl Source for FaultySource {
    fn bytes(&self) -> u64 {
        self.source.bytes()
    }
    fn read(&self, pieces: Vec<Piece>, done: Done<'_>) -> Result<()> {
        self.source.read(pieces, &mut |mut piece| {
            // The header is left whole: it is read before any row is.
            let faults = self.faults.lock().unwrap();
            let fault = faults.iter().find(|(path, _)| *path == self.path && piece.offset > 0).map(|(_, fault)| *fault);
            drop(faults);
            match fault {
                Some(Fault::Error) => return Err(Error::io(&self.path, "read", std::io::Error::from_raw_os_error(5))),
                Some(Fault::Short) => {
                    let (offset, wanted) = (piece.offset, piece.bytes());
                    return Err(Error::ShortRead { path: self.path.clone(), offset, wanted, got: wanted / 2 });
                }
                Some(Fault::FlippedBit) => piece.rows[0].bytes_mut()[100] ^= 8,
                None => {}
            }
            done(piece)
        })
    }
}

#[test]
fn a_failing_read_is_an_error_for_that_reader_alone() {
    for (fault, prefetch_uses) in
        [Fault::Error, Fault::Short, Fault::FlippedBit].into_iter().flat_map(|fault| [(fault, 0), (fault, 8)])
    {
        let folder = Folder::new();
        let faults = Arc::new(Mutex::new(vec![]));
        let disk = LocalFolder::new(folder.path(), Reader::Auto, true).unwrap();
        let (store, _) = Store::open(folder.path(), Arc::new(Faulty { disk, faults: faults.clone() })).unwrap();
        for owner in OWNERS {
            KEYS.iter().for_each(|&id| import(&store, owner, id));
        }
        let budget_bytes = 3 * small().bytes_needed(6);
        let cache = Cache::new(Arc::new(store), Options { prefetch_uses, ..Options::new(budget_bytes) }).unwrap();
        let run = |owner: &str| -> Vec<Result<()>> {
            let uses = (0..40).map(|turn| Use { name: name(owner, KEYS[turn % 4]), limbs: 6 });
            let plan = cache.plan(uses.collect(), 0);
            let session = cache.session(tenant(owner), small().digest()).following(&plan);
            let one = |turn: usize| {
                let got = session.get(KEYS[turn % 4], 6)?;
                for row in 0..small().num_rows() {
                    let (part, digit, limb) = small().place(row);
                    assert_eq!(got.row(Part::BOTH[part], digit, limb).unwrap(), words(owner, KEYS[turn % 4])[row]);
                }
                Ok(())
            };
            (0..40).map(one).collect()
        };
        faults.lock().unwrap().push((name("alice", KeyId::Conj).path(), fault));
        let (alice, bob) = thread::scope(|scope| {
            let (alice, bob) = (scope.spawn(|| run("alice")), scope.spawn(|| run("bob")));
            (alice.join().unwrap(), bob.join().unwrap())
        });
        assert!(bob.iter().all(|result| result.is_ok()), "{fault:?}: {bob:?}");
        for (turn, result) in alice.iter().enumerate() {
            assert_eq!(result.is_err(), KEYS[turn % 4] == KeyId::Conj, "{fault:?} at {turn}: {result:?}");
        }
        let message = alice.into_iter().find_map(|result| result.err()).unwrap().to_string();
        assert!(message.contains(&name("alice", KeyId::Conj).path()), "{message}");
        // The disk recovers, and so does alice.
        faults.lock().unwrap().clear();
        assert!(run("alice").iter().all(|result| result.is_ok()));
        let stats = cache.stats();
        assert_eq!(stats.failures, 10);
        assert_eq!(stats.read_bytes, stats.resident_bytes + stats.evicted_bytes);
    }
}

#[test]
fn a_file_cut_short_under_an_open_store_is_an_error() {
    let folder = Folder::new();
    for reader in [Reader::Auto, Reader::Pread] {
        let (store, _) = Store::open_folder(folder.path(), reader, true).unwrap();
        import(&store, "alice", KeyId::Relin);
        let wanted: KeyName = name("alice", KeyId::Relin);
        let segment = store.segment(&wanted).unwrap();
        let path = file(folder.path(), "alice", KeyId::Relin);
        // Not at a page's boundary, and after the header was checked.
        fs::File::options().write(true).open(path).unwrap().set_len(100_001).unwrap();
        let read = segment.read(0, 6, &penstock_store::Pool::new(0), |_, _| {});
        assert!(matches!(read, Err(Error::ShortRead { .. })), "{reader:?} {read:?}");
    }
}

/// The index as the first version of the format made it.
const FIRST_INDEX: &str = "
PRAGMA application_id = 0x7073746b;
PRAGMA user_version = 1;
CREATE TABLE old AS SELECT tenant, digest, key, ring_dim, num_q, digits, moduli, secret_tag, header_checksum FROM keys;
DROP TABLE keys;
DROP TABLE replacements;
CREATE TABLE keys (
    tenant TEXT NOT NULL, digest TEXT NOT NULL, key TEXT NOT NULL,
    ring_dim INTEGER NOT NULL, num_q INTEGER NOT NULL, digits INTEGER NOT NULL, moduli BLOB NOT NULL,
    secret_tag TEXT NOT NULL, header_checksum INTEGER NOT NULL,
    PRIMARY KEY (tenant, digest, key)
) WITHOUT ROWID;
INSERT INTO keys SELECT * FROM old;
DROP TABLE old;
CREATE INDEX keys_of_secret ON keys (secret_tag);";

#[test]
fn an_index_of_the_first_version_is_brought_up_to_date() {
    let folder = Folder::new();
    let (store, _) = open(folder.path());
    for id in KEYS {
        import(&store, "alice", id);
    }
    let before = store.list().unwrap();
    drop(store);
    let index = folder.path().join("index.sqlite");
    rusqlite::Connection::open(&index).unwrap().execute_batch(FIRST_INDEX).unwrap();
    let first = fs::read(&index).unwrap();
    let (store, opening) = open(folder.path());
    assert_eq!(opening, penstock_store::Opening::default());
    assert_eq!(store.list().unwrap(), before);
    import(&store, "bob", KeyId::Relin);
    drop(store);
    check_whole(folder.path());
    // Where nothing may be written, the headers are read, and the index stays.
    fs::remove_file(file(folder.path(), "bob", KeyId::Relin)).unwrap();
    fs::write(&index, &first).unwrap();
    let read_only = |yes: bool| {
        let mut access = fs::metadata(&index).unwrap().permissions();
        access.set_readonly(yes);
        fs::set_permissions(&index, access).unwrap();
    };
    read_only(true);
    let (store, opening) = open(folder.path());
    if opening.read_only {
        assert_eq!((store.list().unwrap(), opening.index_rebuilt), (before, false));
        assert!(fs::read(&index).unwrap() == first);
    } // The administrator may write whatever the permissions say.
    read_only(false);
}
