//! Files that appear whole, or not at all: written under another name, and renamed.

use std::collections::hash_map::RandomState;
use std::fs::File;
use std::hash::{BuildHasher, Hasher};
use std::io::{self, BufWriter, Write};
use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

/// Files with this prefix are unfinished.
pub const TEMPORARY_PREFIX: &str = ".tmp-penstock-";

const WRITE_BUFFER_BYTES: usize = 1 << 20;

/// Writes the file `name` of a folder, of `bytes` bytes; a file of this name is replaced. After any failure, the name
/// holds its old content.
///
/// # Errors
/// Those of the file system and of `fill`; it wrote another number of bytes.
pub fn put(
    folder: BorrowedFd<'_>,
    name: &str,
    bytes: u64,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let temporary = temporary_name();
    let written = write_whole(folder, &temporary, bytes, fill)
        .and_then(|()| Ok(rustix::fs::renameat(folder, &temporary, folder, name)?));
    if written.is_err() {
        // A failure is reported; the next opening of a store finds a leftover.
        let _ = rustix::fs::unlinkat(folder, &temporary, AtFlags::empty());
    }
    written.and_then(|()| Ok(sync_folder(folder)?))
}

/// A name that nobody can foresee: what lies at it already is never written to, and cannot be in the way either.
pub fn temporary_name() -> String {
    let random = || RandomState::new().build_hasher().finish();
    format!("{TEMPORARY_PREFIX}{}-{:016x}{:016x}", std::process::id(), random(), random())
}

fn write_whole(
    folder: BorrowedFd<'_>,
    temporary: &str,
    bytes: u64,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::openat(folder, temporary, flags, Mode::from_raw_mode(0o666))?);
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

/// Makes the names in a folder durable.
///
/// # Errors
/// Those of the file system.
pub fn sync_folder(folder: BorrowedFd<'_>) -> rustix::io::Result<()> {
    match rustix::fs::fsync(folder) {
        // Some file systems cannot sync a folder.
        Err(errno) if !matches!(errno, Errno::INVAL | Errno::NOTSUP) => Err(errno),
        _ => Ok(()),
    }
}
