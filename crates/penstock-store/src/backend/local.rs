//! A local folder: files appear by renaming, and are read past the page cache.
//!
//! Below the root no link is followed: each folder is opened in the one above it. So whoever may write to one tenant's
//! folder reaches no other's, and nothing outside of the store.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use penstock_segment::whole;
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

#[cfg(target_os = "linux")]
use super::uring;
use super::{Backend, Done, Fill, Listed, Piece, Source, pread};
use crate::{Error, Result, SegmentError};

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
const LINK: &str = "it is a link, and no link in a store is followed: remove it, and put a folder or a file there";

/// The way of reading segments.
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
        // A process that only reads may not even try to make it.
        if !root.is_dir() {
            fs::create_dir_all(&root).map_err(|error| Error::io(&root, "make the folder", error))?;
        }
        let (rings, note) = Rings::new(reader)?;
        Ok(Self { root, direct, refuses_direct: AtomicBool::new(false), rings, note })
    }

    /// The folder of the file at `path`, and the file's name in it. `make`: folders that are missing are made.
    fn folder_of<'a>(&self, path: &'a str, make: bool) -> Result<(OwnedFd, &'a str)> {
        let mut at = rustix::fs::open(&self.root, FOLDER, Mode::empty())
            .map_err(|errno| Error::io(&self.root, "open", errno.into()))?;
        let mut walked = self.root.clone();
        let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
        for part in folders.split('/').filter(|part| !part.is_empty()) {
            walked.push(part);
            let made = match open_folder(&at, part) {
                Err(Errno::NOENT) if make => make_folder(&at, part).and_then(|()| open_folder(&at, part)),
                opened => opened,
            };
            at = made.map_err(|errno| self.refused(&walked, at.as_fd(), part, "open", errno))?;
        }
        if matches!(name, "" | "." | "..") {
            return Err(Error::io(self.root.join(path), "use", io::ErrorKind::InvalidInput.into()));
        }
        Ok((at, name))
    }

    /// The same without making any; `None`: one is missing.
    fn folder_there<'a>(&self, path: &'a str) -> Result<Option<(OwnedFd, &'a str)>> {
        match self.folder_of(path, false) {
            Err(Error::Segment(SegmentError::Io { source, .. })) if source.kind() == io::ErrorKind::NotFound => {
                Ok(None)
            }
            found => found.map(Some),
        }
    }

    /// The error of `errno` at `name` in the folder `at`, which says where a link is in the way.
    fn refused(&self, full: &Path, at: BorrowedFd<'_>, name: &str, doing: &'static str, errno: Errno) -> Error {
        let found = rustix::fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW);
        let link = found.is_ok_and(|data| FileType::from_raw_mode(data.st_mode) == FileType::Symlink);
        let why = if link { io::Error::other(LINK) } else { errno.into() };
        Error::io(full, doing, why)
    }

    fn open_file(&self, at: BorrowedFd<'_>, name: &str) -> rustix::io::Result<File> {
        // A pipe is opened without waiting for its other end, and refused then.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        #[cfg(target_os = "linux")]
        if self.direct {
            match rustix::fs::openat(at, name, flags | OFlags::DIRECT, Mode::empty()) {
                Err(Errno::INVAL) => self.refuses_direct.store(true, Ordering::Relaxed),
                opened => return opened.map(File::from),
            }
        }
        rustix::fs::openat(at, name, flags, Mode::empty()).map(File::from)
    }

    fn walk(&self, mut keep: impl FnMut(&str, &fs::DirEntry) -> Option<u64>) -> Result<Vec<Listed>> {
        let mut found = vec![];
        let mut folders = vec![(self.root.clone(), String::new())];
        while let Some((folder, prefix)) = folders.pop() {
            let failed = |error| Error::io(&folder, "list", error);
            for entry in fs::read_dir(&folder).map_err(failed)? {
                let entry = entry.map_err(failed)?;
                let Ok(name) = entry.file_name().into_string() else { continue };
                // Links are not followed: their targets do not belong to this store.
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
        self.walk(|name, entry| if name.starts_with(whole::TEMPORARY_PREFIX) { regular_bytes(entry) } else { None })
    }

    fn size(&self, path: &str) -> Result<Option<u64>> {
        let failed = |error| Error::io(self.root.join(path), "look at", error);
        let Some((folder, name)) = self.folder_there(path)? else { return Ok(None) };
        match rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(data) if FileType::from_raw_mode(data.st_mode) == FileType::RegularFile => {
                u64::try_from(data.st_size).map(Some).map_err(|_| failed(io::ErrorKind::InvalidData.into()))
            }
            Ok(_) | Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(failed(errno.into())),
        }
    }

    fn open(&self, path: &str) -> Result<Box<dyn Source>> {
        let full = self.root.join(path);
        let (folder, name) = self.folder_of(path, false)?;
        let file = self
            .open_file(folder.as_fd(), name)
            .map_err(|errno| self.refused(&full, folder.as_fd(), name, "open", errno))?;
        let data = file.metadata().map_err(|error| Error::io(&full, "look at", error))?;
        if !data.is_file() {
            return Err(Error::io(&full, "open", io::Error::other("this is not a file")));
        }
        let path = full.display().to_string();
        Ok(Box::new(LocalFile { file, path, bytes: data.len(), rings: self.rings.clone() }))
    }

    fn put(&self, path: &str, bytes: u64, fill: Fill<'_>) -> Result<()> {
        let failed = |error| Error::io(self.root.join(path), "write", error);
        let (folder, name) = self.folder_of(path, true)?;
        whole::put(folder.as_fd(), name, bytes, fill).map_err(failed)
    }

    fn adopt(&self, source: &File, from: &Path, path: &str) -> Result<bool> {
        let failed = |error| Error::io(self.root.join(path), "write", error);
        let (folder, name) = self.folder_of(path, true)?;
        let temporary = whole::temporary_name();
        if rustix::fs::linkat(rustix::fs::CWD, from, &folder, &temporary, AtFlags::empty()).is_err() {
            return Ok(false); // Another file system, or one without links.
        }
        let linked = adopt_linked(source, folder.as_fd(), &temporary, name);
        // It is still there where two names of one file were to be renamed.
        let _ = rustix::fs::unlinkat(&folder, &temporary, AtFlags::empty());
        let linked = linked.map_err(failed)?;
        if linked {
            whole::sync_folder(folder.as_fd()).map_err(|errno| failed(errno.into()))?;
        }
        Ok(linked)
    }

    fn remove(&self, path: &str) -> Result<()> {
        let Some((folder, name)) = self.folder_there(path)? else { return Ok(()) };
        match rustix::fs::unlinkat(&folder, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(Error::io(self.root.join(path), "remove", errno.into())),
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

/// Renames a link to `source`, once its bytes are on the disk. `false`: the link leads to another file.
fn adopt_linked(source: &File, folder: BorrowedFd<'_>, temporary: &str, name: &str) -> io::Result<bool> {
    let (opened, linked) =
        (rustix::fs::fstat(source)?, rustix::fs::statat(folder, temporary, AtFlags::SYMLINK_NOFOLLOW)?);
    if (opened.st_dev, opened.st_ino) != (linked.st_dev, linked.st_ino) {
        return Ok(false);
    }
    source.sync_all()?;
    #[cfg(target_os = "linux")]
    let _ = rustix::fs::fadvise(source, 0, None, rustix::fs::Advice::DontNeed);
    rustix::fs::renameat(folder, temporary, folder, name)?;
    Ok(true)
}

fn open_folder(at: &OwnedFd, name: &str) -> rustix::io::Result<OwnedFd> {
    rustix::fs::openat(at, name, FOLDER | OFlags::NOFOLLOW, Mode::empty())
}

/// Makes a folder, its entry durable.
fn make_folder(at: &OwnedFd, name: &str) -> rustix::io::Result<()> {
    match rustix::fs::mkdirat(at, name, Mode::from_raw_mode(0o777)) {
        Err(errno) if errno != Errno::EXIST => Err(errno),
        _ => whole::sync_folder(at.as_fd()),
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
