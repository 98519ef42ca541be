//! The store: segments in a backend, their index, and the code that keeps the two consistent.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use penstock_segment::SEGMENT_ENDING;
use rustix::fs::{Access, AtFlags, CWD};
use rustix::io::Errno;

use crate::backend::{Backend, Listed, LocalFolder, Reader};
use crate::buffer::Pool;
use crate::index::{Entry, Index, is_damage};
use crate::read::Segment;
use crate::segment::SegmentFile;
use crate::{Checked, Digest, Error, Header, KeyContent, KeyId, KeyName, Result, SegmentError, Tenant};

const INDEX: &str = "index.sqlite";
const LOCK: &str = "lock";
/// How long `gc` waits for the lock.
const LOCK_PATIENCE: Duration = Duration::from_millis(500);
/// How often, and how long between, a reader looks for an index that has a row for each segment.
const READING_TRIES: u32 = 20;
const READING_PAUSE: std::time::Duration = std::time::Duration::from_millis(50);
/// Verification and checks of headers read through a few separate buffers.
const SCRATCH_BYTES: u64 = 64 << 20;

/// The repairs at the opening of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opening {
    /// Keys whose segments were whole and not in the index, or replaced and not yet in it: an import was killed after its
    /// last step but one.
    pub adopted: Vec<KeyName>,
    /// Keys that the index had and whose segments are gone. They are not listed, and lost until they are imported or `gc`
    /// forgets them.
    pub lost: Vec<KeyName>,
    /// Segments that are not whole, with the reason; they are not listed.
    pub damaged: Vec<(String, String)>,
    /// Unfinished files of killed imports, removed.
    pub leftovers: Vec<String>,
    /// The index was not readable and was built again; the old file is kept as `index.sqlite.damaged`.
    pub index_rebuilt: bool,
    /// The store is read-only: the repairs are in memory alone, and the files are unchanged.
    pub read_only: bool,
}

/// One import, finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    pub name: KeyName,
    pub bytes: u64,
    /// The key was there before.
    pub replaced: bool,
}

/// One key, read row by row.
#[derive(Debug)]
pub struct Verified {
    pub name: KeyName,
    pub bytes: u64,
    /// The first thing that is wrong; `None`: every row equals its checksum.
    pub fault: Option<Error>,
    /// How many rows differ from their checksums.
    pub damaged_rows: usize,
}

/// What `gc` removes or puts in order, or would.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Garbage {
    pub path: String,
    pub bytes: u64,
    pub reason: String,
    /// The segment is whole and stays.
    pub kept: bool,
}

/// Keys of many tenants. Used by several threads, and several processes, at once.
pub struct Store {
    pub(crate) index: Index,
    backend: Arc<dyn Backend>,
    pub(crate) lock: PathBuf,
    scratch: Arc<Pool>,
    /// Why nothing can be written.
    pub(crate) read_only: Option<String>,
}

impl Store {
    /// The store in a folder of this machine; it is made where it is missing.
    ///
    /// # Errors
    /// `Io`, `Index`: the folder or its index cannot be read or written.
    pub fn open_folder(root: impl AsRef<Path>, reader: Reader, direct: bool) -> Result<(Self, Opening)> {
        let backend = LocalFolder::new(root.as_ref(), reader, direct)?;
        Self::open(root, Arc::new(backend))
    }

    /// The store in a folder, for a process that only reads: it needs no right to write there.
    ///
    /// # Errors
    /// As [`Store::open_folder`].
    pub fn open_folder_reading(root: impl AsRef<Path>, reader: Reader, direct: bool) -> Result<(Self, Opening)> {
        let root = root.as_ref();
        let backend: Arc<dyn Backend> = Arc::new(LocalFolder::new(root, reader, direct)?);
        let mut tries = READING_TRIES;
        loop {
            let why = "it was opened to be read".to_owned();
            let (store, opening, live) =
                Self::open_reading(&root.join(INDEX), root.join(LOCK), Arc::clone(&backend), why)?;
            tries -= 1;
            // The segment of an import that is under way is there before its row: a copy would never show the row.
            if live || tries == 0 {
                return Ok((store, opening));
            }
            std::thread::sleep(READING_PAUSE);
        }
    }

    /// The store whose index lies in the folder `root` and whose segments are in `backend`.
    ///
    /// Index and segments are reconciled: afterwards the store lists exactly the whole keys. A read-only store is left
    /// unchanged, and lists the same.
    ///
    /// # Errors
    /// `Io`, `Index`: the folder, its index or the backend cannot be read or written.
    pub fn open(root: impl AsRef<Path>, backend: Arc<dyn Backend>) -> Result<(Self, Opening)> {
        let root = root.as_ref();
        fs::create_dir_all(root).map_err(|error| Error::io(root, "make the folder", error))?;
        let (path, lock) = (root.join(INDEX), root.join(LOCK));
        let refused = [root, &path, &lock].into_iter().find_map(refusal);
        if let Some(why) = refused {
            let (store, opening, _) = Self::open_reading(&path, lock, backend, why)?;
            return Ok((store, opening));
        }
        let (index, index_rebuilt) = Index::open(&path)?;
        let mut store = Self { index, backend, lock, scratch: Pool::new(SCRATCH_BYTES), read_only: None };
        match store.reconcile() {
            // Damage that shows where the rows are read.
            Err(Error::Index { source, .. }) if is_damage(&source) => {
                store.index = Index::anew(&path)?;
                let opening = store.reconcile()?;
                Ok((store, Opening { index_rebuilt: true, ..opening }))
            }
            reconciled => Ok((store, Opening { index_rebuilt, ..reconciled? })),
        }
    }

    /// A store with unchanged files: a copy of the index is reconciled, and is used if it differs then. The index
    /// itself shows what other processes import. Returns whether the index itself is used, too.
    fn open_reading(
        path: &Path,
        lock: PathBuf,
        backend: Arc<dyn Backend>,
        why: String,
    ) -> Result<(Self, Opening, bool)> {
        let (mut live, mut damaged) = Index::open_reading(path)?;
        let copy = match live.as_ref().map(Index::copied) {
            // Damage that shows where the rows are read.
            Some(Err(Error::Index { source, .. })) if is_damage(&source) => {
                (live, damaged) = (None, true);
                Index::in_memory(path)?
            }
            Some(copied) => copied?,
            None => Index::in_memory(path)?,
        };
        let mut store = Self { index: copy, backend, lock, scratch: Pool::new(SCRATCH_BYTES), read_only: Some(why) };
        let opening = store.reconcile()?;
        let mut is_live = false;
        if let Some(live) = live
            && live.all()? == store.index.all()?
        {
            store.index = live;
            is_live = true;
        }
        Ok((store, Opening { index_rebuilt: damaged, read_only: true, ..opening }, is_live))
    }

    /// # Errors
    /// `ReadOnly`.
    pub(crate) fn check_writable(&self) -> Result<()> {
        let Some(why) = self.read_only.clone() else { return Ok(()) };
        Err(Error::ReadOnly { path: self.lock.parent().unwrap_or(&self.lock).to_owned(), why })
    }

    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.backend
    }

    fn reconcile(&self) -> Result<Opening> {
        let mut opening = Opening::default();
        // Nobody imports while this lock is held, so unfinished files stay unfinished.
        let (_lock, alone) = self.try_lock()?;
        if alone && self.read_only.is_none() {
            for leftover in self.leftovers()? {
                self.backend.remove(&leftover.path)?;
                opening.leftovers.push(leftover.path);
            }
        }
        if alone {
            opening.adopted = self.settle()?;
        }
        self.index.remove_unreadable()?;
        // Rows before files: a key that is imported meanwhile has its file before its row.
        let rows: BTreeMap<KeyName, Entry> = self.index.all()?.into_iter().map(|row| (row.name.clone(), row)).collect();
        let mut whole = HashSet::new();
        for file in self.backend.list()? {
            let Some(name) = KeyName::from_path(&file.path) else { continue };
            if rows.get(&name).is_some_and(|row| row.bytes() == file.bytes) {
                whole.insert(name);
                continue;
            }
            match Segment::open(self.backend.as_ref(), &name) {
                Ok(segment) => {
                    self.index.put(&Entry::from(&segment.header))?;
                    opening.adopted.push(name.clone());
                    whole.insert(name);
                }
                // Whatever is wrong with one file, the store opens.
                Err(error) => opening.damaged.push((file.path, error.to_string())),
            }
        }
        for name in rows.into_keys().filter(|name| !whole.contains(name)) {
            // A damaged segment is reported as such.
            match self.backend.size(&name.path())? {
                None => self.index.lose(&name)?,
                Some(_) => self.index.remove(&name)?,
            }
        }
        opening.lost = self.index.unsettled(true)?;
        Ok(opening)
    }

    /// Writes the index rows again of keys whose replacement was cut off, and returns the keys that had another row.
    /// The lock is held.
    fn settle(&self) -> Result<Vec<KeyName>> {
        let mut adopted = vec![];
        for name in self.index.unsettled(false)? {
            match Segment::open(self.backend.as_ref(), &name) {
                Ok(segment) => {
                    let entry = Entry::from(&segment.header);
                    if self.index.get(&name)?.as_ref() != Some(&entry) {
                        adopted.push(name);
                    }
                    self.index.put(&entry)?;
                }
                Err(error) if error.is_damage() => self.index.settle(&name)?,
                Err(_) => {} // The next opening looks again.
            }
        }
        Ok(adopted)
    }

    /// Unfinished files in the folders of keys. Others of such names, below the store's folder, are somebody else's.
    fn leftovers(&self) -> Result<Vec<Listed>> {
        let mut found = self.backend.leftovers()?;
        found.retain(|file| KeyName::in_folder_of_keys(&file.path));
        Ok(found)
    }

    /// The lock, and whether it is held: nobody imports then. A read-only store shares the lock, and needs none without
    /// a lock file.
    fn try_lock(&self) -> Result<(Option<File>, bool)> {
        if self.read_only.is_none() {
            let lock = self.open_lock()?;
            let alone = lock.try_lock().is_ok();
            return Ok((Some(lock), alone));
        }
        match File::options().read(true).custom_flags(libc::O_NOFOLLOW).open(&self.lock) {
            Ok(lock) => {
                let alone = lock.try_lock_shared().is_ok();
                Ok((Some(lock), alone))
            }
            Err(error) => Ok((None, error.kind() == std::io::ErrorKind::NotFound)),
        }
    }

    pub(crate) fn open_lock(&self) -> Result<File> {
        open_shared(&self.lock)
    }

    /// Imports a key for `tenant`. A key of this name is replaced, and the store is never without a whole one.
    ///
    /// # Errors
    /// `Source`: a word is not below its modulus. `WrongSecret`: it was made from another secret key than
    /// this tenant's other keys, and no replacement was begun. Other tenants' keys are not looked at. `Io`: nothing was
    /// changed. `ReadOnly`.
    pub fn import(&self, tenant: &Tenant, key: KeyId, content: &dyn KeyContent) -> Result<Imported> {
        self.check_writable()?;
        let name = KeyName::new(tenant.clone(), content.shape().digest(), key);
        self.place(Checked::new(name, content)?, None)
    }

    /// Imports a segment file that was written elsewhere ([`crate::write_segment`]), of this tenant and these parameters
    /// if given. One row at a time is read, checked and written. `is_given`: nobody changes the file any more, so that,
    /// where the file system allows it, the file itself becomes the store's by a second name, checked but not copied. Its
    /// old name is the caller's to remove.
    ///
    /// # Errors
    /// `Source`: another tenant's. `OtherParameters`. `Damaged`, `DamagedRow`, `NewerVersion`: the file. Those of
    /// [`Store::import`].
    pub fn import_segment(
        &self,
        path: impl AsRef<Path>,
        tenant: Option<&Tenant>,
        digest: Option<Digest>,
        is_given: bool,
    ) -> Result<Imported> {
        self.check_writable()?;
        let file = SegmentFile::open(path)?;
        file.check_owner(tenant, digest)?;
        let checked = Checked::new(KeyName { pair: KeyName::FIRST_PAIR, ..file.header().name.clone() }, &file)?;
        file.check_rows(checked.header())?;
        self.place(checked, is_given.then_some(&file))
    }

    fn place(&self, checked: Checked<'_>, given: Option<&SegmentFile>) -> Result<Imported> {
        // One import at a time, in all processes: segment and index row of one key are always of one import.
        let lock = self.open_lock()?;
        lock.lock().map_err(|error| Error::io(&self.lock, "lock", error))?;
        self.settle()?;
        let Header { name, secret_tag, .. } = checked.header();
        let (pair, begins) = self.pair_of(&name.tenant, name.digest, secret_tag)?;
        let checked = checked.of_pair(pair);
        let name = checked.header().name.clone();
        let replaced = self.index.get(&name)?.is_some();
        if replaced {
            // Killed between segment and row, the next opening knows that they may be of two imports.
            self.index.replacing(&name)?;
        }
        let adopted = match given.and_then(|file| file.same_as(checked.header())) {
            Some((file, path)) => self.backend.adopt(file, path, &name.path()),
            None => Ok(false),
        };
        let written = adopted.and_then(|adopted| match adopted {
            true => Ok(()),
            false => self.backend.put(&name.path(), checked.bytes(), &mut |out| checked.write(out)),
        });
        if let Err(error) = written {
            let _ = self.settle(); // What failed is reported; the next opening settles what this did not.
            return Err(error);
        }
        self.index.put(&Entry::from(checked.header()))?;
        if begins {
            self.index.replace(&name.tenant, name.digest, false)?;
        }
        Ok(Imported { name, bytes: checked.bytes(), replaced })
    }

    /// Whole keys, in the order of names.
    pub fn list(&self) -> Result<Vec<Entry>> {
        self.index.all()
    }

    /// The keys of one tenant under one set of parameters.
    pub fn list_of(&self, tenant: &Tenant, digest: Digest) -> Result<Vec<Entry>> {
        Ok(self.list()?.into_iter().filter(|row| row.name.tenant == *tenant && row.name.digest == digest).collect())
    }

    /// One key.
    ///
    /// # Errors
    /// `Missing`, with the keys that the tenant has and the command that imports the key.
    pub fn entry(&self, name: &KeyName) -> Result<Entry> {
        match self.index.get(name)? {
            Some(entry) => Ok(entry),
            None => Err(self.missing(name)?),
        }
    }

    pub(crate) fn missing(&self, name: &KeyName) -> Result<Error> {
        let all = self.list()?;
        let own: Vec<&Entry> = all.iter().filter(|row| row.name.tenant == name.tenant).collect();
        let held = match own.iter().filter(|row| row.name.digest == name.digest).count() {
            0 if own.is_empty() => ", nor any other key".to_owned(),
            0 => format!(" (its {} keys are for other parameters)", own.len()),
            count => format!(" (it has {count} others)"),
        };
        Ok(Error::Missing {
            tenant: name.tenant.to_string(),
            key: name.key.to_string(),
            digest: name.digest.to_string(),
            held,
        })
    }

    /// Opens a key's segment, and holds its header against the name and the index.
    ///
    /// # Errors
    /// `Missing`; `Damaged`, `WrongKey`: the segment is not the one that was imported under this name.
    pub fn segment(&self, name: &KeyName) -> Result<Segment> {
        let entry = self.entry(name)?;
        let segment = Segment::open(self.backend.as_ref(), name)?;
        if Entry::from(&segment.header) == entry {
            return Ok(segment);
        }
        // Another process may have imported the key again between the two looks.
        if self.entry(name)? == Entry::from(&segment.header) {
            return Ok(segment);
        }
        let (field, found, expected) = if segment.header.secret_tag != entry.secret_tag {
            ("secret key's tag", segment.header.secret_tag.clone(), entry.secret_tag)
        } else {
            let found = segment.header.checksum();
            ("header", format!("{found:016x}"), format!("{:016x}", entry.header_checksum))
        };
        Err(SegmentError::WrongKey { path: name.path(), field, found, expected }.into())
    }

    /// Reads a key, every row of it, and checks it.
    pub fn verify(&self, entry: &Entry) -> Verified {
        let mut verified = Verified { name: entry.name.clone(), bytes: entry.bytes(), fault: None, damaged_rows: 0 };
        let rows = self.segment(&entry.name).and_then(|segment| {
            let rows = segment.verify(&self.scratch)?;
            let place = rows.first().map(|&row| segment.header.shape.describe(row));
            Ok((rows, place))
        });
        match rows {
            Ok((rows, Some(place))) => {
                verified.fault = Some(SegmentError::DamagedRow { path: entry.name.path(), row: rows[0], place }.into());
                verified.damaged_rows = rows.len();
            }
            Ok(_) => {}
            Err(error) => verified.fault = Some(error),
        }
        verified
    }

    /// Removes what no key needs: segments that are not whole, unfinished files, and with `tenant` all keys of that
    /// tenant; forgets keys that are lost. Of a whole segment the index row is put anew where it says something else;
    /// one at another key's path is only named. With `dry_run` it only reports.
    ///
    /// # Errors
    /// `Io`: a file cannot be removed, or an import is running. `ReadOnly`, without `dry_run`.
    pub fn gc(&self, tenant: Option<&Tenant>, dry_run: bool) -> Result<Vec<Garbage>> {
        if !dry_run {
            self.check_writable()?;
        }
        // A child process that another thread starts has the lock, too, until it begins its own program.
        let until = Instant::now() + LOCK_PATIENCE;
        let (mut _lock, mut alone) = self.try_lock()?;
        while !alone && Instant::now() < until {
            drop(_lock);
            std::thread::sleep(LOCK_PATIENCE / 50);
            (_lock, alone) = self.try_lock()?;
        }
        if !alone {
            let busy = std::io::Error::new(std::io::ErrorKind::WouldBlock, "an import is running; try again after it");
            return Err(Error::io(&self.lock, "lock", busy));
        }
        let (mut garbage, mut anew) = (vec![], vec![]);
        for file in self.leftovers()? {
            garbage.push(Garbage { path: file.path, bytes: file.bytes, reason: "unfinished".into(), kept: false });
        }
        for file in self.backend.list()? {
            let (reason, kept) = match KeyName::from_path(&file.path) {
                Some(name) if tenant == Some(&name.tenant) => ("its tenant is removed".to_owned(), false),
                // Files unknown to the index too: a damaged file is not listed.
                Some(name) => match Segment::open(self.backend.as_ref(), &name) {
                    Ok(segment) => {
                        let entry = Entry::from(&segment.header);
                        if self.index.get(&name)?.as_ref() == Some(&entry) {
                            continue;
                        }
                        anew.push(entry);
                        ("it is whole and the index says something else: its row is put anew".into(), true)
                    }
                    Err(error @ Error::Segment(SegmentError::NewerVersion { .. })) => (error.to_string(), true),
                    Err(error @ Error::Segment(SegmentError::WrongKey { .. })) => {
                        (format!("{error}; move the file to the path of the key that it holds, or delete it"), true)
                    }
                    Err(error) if error.is_damage() => (error.to_string(), false),
                    Err(error) => return Err(error),
                },
                None if KeyName::in_folder_of_keys(&file.path)
                    && file.path.ends_with(&format!(".{SEGMENT_ENDING}")) =>
                {
                    ("no key lies at this path".into(), false)
                }
                None => continue, // Not the store's.
            };
            garbage.push(Garbage { path: file.path, bytes: file.bytes, reason, kept });
        }
        let mut lost = self.index.unsettled(true)?;
        lost.retain(|name| !anew.iter().any(|entry| entry.name == *name));
        let gone = |name: &KeyName| Garbage {
            path: name.path(),
            bytes: 0,
            reason: "its file is gone: the key is forgotten".into(),
            kept: false,
        };
        if !dry_run {
            for name in &lost {
                self.index.remove(name)?;
            }
            for entry in &anew {
                self.index.put(entry)?;
            }
            if let Some(tenant) = tenant {
                self.index.forget_replacements(tenant)?;
            }
            for each in garbage.iter().filter(|each| !each.kept) {
                if let Some(name) = KeyName::from_path(&each.path) {
                    self.index.remove(&name)?;
                }
                self.backend.remove(&each.path)?;
            }
        }
        garbage.extend(lost.iter().map(gone));
        Ok(garbage)
    }
}

/// Why a file or folder that is there may not be written to.
fn refusal(path: &Path) -> Option<String> {
    let path_shown = path.display();
    match rustix::fs::accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS) {
        Err(Errno::ROFS) => Some("the file system is read-only".into()),
        Err(Errno::ACCESS | Errno::PERM) => Some(format!("permission denied on {path_shown}")),
        _ => None,
    }
}

/// Opens a file that processes lock.
pub(crate) fn open_shared(path: &Path) -> Result<File> {
    // No link: it would make a file elsewhere.
    let open = File::options().write(true).create(true).truncate(false).custom_flags(libc::O_NOFOLLOW).open(path);
    open.map_err(|error| Error::io(path, "open", error))
}
