//! A local folder: files appear by renaming, and are read past the page cache.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

#[cfg(target_os = "linux")]
use super::uring;
use super::{Backend, Done, Fill, Listed, Piece, Source, pread};
use crate::{Error, Result};

/// Files with this prefix are unfinished.
pub const TEMPORARY_PREFIX: &str = ".tmp-penstock-";

const WRITE_BUFFER_BYTES: usize = 1 << 20;

/// How segments are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// io_uring where the kernel allows it, else `Pread`.
    Auto,
    Uring,
    Pread,
}

/// A folder of this machine.
pub struct LocalFolder {
    root: PathBuf,
    direct: bool,
    refuses_direct: AtomicBool,
    rings: Rings,
    note: Option<String>,
}

impl LocalFolder {
    /// The folder `root`, which is made where it is missing. `direct`: read past the page cache (`O_DIRECT`), where the
    /// file system allows it.
    ///
    /// # Errors
    /// `Io`: the folder cannot be made. `Value`: `Reader::Uring`, and the kernel has no io_uring.
    pub fn new(root: impl Into<PathBuf>, reader: Reader, direct: bool) -> Result<Self> {
        let root = root.into();
        fs::create_dir_all(&root).map_err(|error| Error::io(&root, "make the folder", error))?;
        let (rings, note) = Rings::new(reader)?;
        Ok(Self { root, direct, refuses_direct: AtomicBool::new(false), rings, note })
    }

    fn open_file(&self, path: &Path) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true);
        #[cfg(target_os = "linux")]
        if self.direct {
            match options.clone().custom_flags(libc::O_DIRECT).open(path) {
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                    self.refuses_direct.store(true, Ordering::Relaxed);
                }
                opened => return opened,
            }
        }
        options.open(path)
    }

    fn walk(&self, mut keep: impl FnMut(&str, &fs::DirEntry) -> Option<u64>) -> Result<Vec<Listed>> {
        let mut found = vec![];
        let mut folders = vec![(self.root.clone(), String::new())];
        while let Some((folder, prefix)) = folders.pop() {
            let failed = |error| Error::io(&folder, "list", error);
            for entry in fs::read_dir(&folder).map_err(failed)? {
                let entry = entry.map_err(failed)?;
                let Ok(name) = entry.file_name().into_string() else { continue };
                // Links are not followed: what they lead to is not this store's.
                if entry.file_type().map_err(failed)?.is_dir() {
                    folders.push((entry.path(), format!("{prefix}{name}/")));
                } else if let Some(bytes) = keep(&name, &entry) {
                    found.push(Listed { path: format!("{prefix}{name}"), bytes });
                }
            }
        }
        found.sort();
        Ok(found)
    }
}

fn regular_bytes(entry: &fs::DirEntry) -> Option<u64> {
    entry.metadata().ok().filter(fs::Metadata::is_file).map(|data| data.len())
}

impl Backend for LocalFolder {
    fn describe(&self) -> String {
        self.root.display().to_string()
    }

    fn list(&self) -> Result<Vec<Listed>> {
        self.walk(|name, entry| if name.starts_with('.') { None } else { regular_bytes(entry) })
    }

    fn leftovers(&self) -> Result<Vec<Listed>> {
        self.walk(|name, entry| if name.starts_with(TEMPORARY_PREFIX) { regular_bytes(entry) } else { None })
    }

    fn size(&self, path: &str) -> Result<Option<u64>> {
        let file = self.root.join(path);
        match fs::symlink_metadata(&file) {
            Ok(data) => Ok(data.is_file().then_some(data.len())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io(&file, "look at", error)),
        }
    }

    fn open(&self, path: &str) -> Result<Box<dyn Source>> {
        let full = self.root.join(path);
        let file = self.open_file(&full).map_err(|error| Error::io(&full, "open", error))?;
        let bytes = file.metadata().map_err(|error| Error::io(&full, "look at", error))?.len();
        Ok(Box::new(LocalFile { file, path: full.display().to_string(), bytes, rings: self.rings.clone() }))
    }

    fn put(&self, path: &str, bytes: u64, fill: Fill<'_>) -> Result<()> {
        let target = self.root.join(path);
        let folder = target.parent().unwrap_or(&self.root).to_owned();
        make_folder(&folder, &self.root)?;
        let temporary = folder.join(temporary_name());
        let written = write_whole(&temporary, bytes, fill)
            .and_then(|()| fs::rename(&temporary, &target))
            .map_err(|error| Error::io(&target, "write", error));
        if written.is_err() {
            let _ = fs::remove_file(&temporary); // What failed is reported; a leftover is found at the next opening.
        }
        written.and_then(|()| sync_folder(&folder))
    }

    fn remove(&self, path: &str) -> Result<()> {
        let file = self.root.join(path);
        match fs::remove_file(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io(&file, "remove", error)),
            _ => Ok(()),
        }
    }

    fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> = self.note.iter().cloned().collect();
        if self.refuses_direct.load(Ordering::Relaxed) {
            notes.push(format!(
                "the file system of {} refuses O_DIRECT: keys are read through the page cache",
                self.root.display()
            ));
        }
        notes
    }
}

fn temporary_name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!("{TEMPORARY_PREFIX}{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

fn write_whole(temporary: &Path, bytes: u64, fill: Fill<'_>) -> io::Result<()> {
    let file = OpenOptions::new().write(true).create(true).truncate(true).open(temporary)?;
    let mut out = BufWriter::with_capacity(WRITE_BUFFER_BYTES, file);
    fill(&mut out)?;
    let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    let length = file.metadata()?.len();
    if length != bytes {
        return Err(io::Error::other(format!("{length} bytes were written, {bytes} were announced")));
    }
    file.sync_all()?;
    // The key is read past the page cache; what writing left there would only push other files out.
    #[cfg(target_os = "linux")]
    let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
    Ok(())
}

/// Makes `folder` and what is above it, each entry durable.
fn make_folder(folder: &Path, root: &Path) -> Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    if let Some(above) = folder.parent().filter(|_| folder != root) {
        make_folder(above, root)?;
        match fs::create_dir(folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(Error::io(folder, "make the folder", error));
            }
            _ => sync_folder(above)?,
        }
    }
    Ok(())
}

fn sync_folder(folder: &Path) -> Result<()> {
    match File::open(folder).and_then(|opened| opened.sync_all()) {
        // Some file systems cannot sync a folder.
        Err(error) if !matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOTSUP)) => {
            Err(Error::io(folder, "sync", error))
        }
        _ => Ok(()),
    }
}

struct LocalFile {
    file: File,
    path: String,
    bytes: u64,
    rings: Rings,
}

impl Source for LocalFile {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read(&self, pieces: Vec<Piece>, done: Done<'_>) -> Result<()> {
        #[cfg(target_os = "linux")]
        if let Some(ring) = self.rings.take() {
            let (ring, result) = uring::read(ring, &self.file, &self.path, pieces, done);
            self.rings.put_back(ring);
            return result;
        }
        pread::read(&self.file, &self.path, pieces, done)
    }
}

/// Idle rings, one a thread that has read; without any, files are read with `preadv`.
#[derive(Clone)]
struct Rings {
    #[cfg(target_os = "linux")]
    idle: Option<std::sync::Arc<Mutex<Vec<uring::Ring>>>>,
}

#[cfg(target_os = "linux")]
impl Rings {
    fn new(reader: Reader) -> Result<(Self, Option<String>)> {
        if reader == Reader::Pread {
            return Ok((Self { idle: None }, None));
        }
        match uring::Ring::new() {
            Ok(ring) => Ok((Self { idle: Some(std::sync::Arc::new(Mutex::new(vec![ring]))) }, None)),
            Err(error) if reader == Reader::Auto => {
                let note = format!("io_uring is not available here ({error}): keys are read with preadv");
                Ok((Self { idle: None }, Some(note)))
            }
            Err(error) => Err(Error::value("reader", format!("io_uring ({error})"), "take auto or pread here")),
        }
    }

    fn take(&self) -> Option<uring::Ring> {
        let idle = self.idle.as_ref()?;
        let known = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        known.or_else(|| uring::Ring::new().ok())
    }

    fn put_back(&self, ring: Option<uring::Ring>) {
        if let (Some(idle), Some(ring)) = (&self.idle, ring) {
            idle.lock().unwrap_or_else(PoisonError::into_inner).push(ring);
        }
    }
}

#[cfg(not(target_os = "linux"))]
impl Rings {
    fn new(reader: Reader) -> Result<(Self, Option<String>)> {
        match reader {
            Reader::Uring => Err(Error::value("reader", "io_uring", "Linux has it: take auto or pread here")),
            _ => Ok((Self {}, None)),
        }
    }
}
