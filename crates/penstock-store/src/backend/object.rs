//! Any object store that the crate `object_store` speaks to: S3 and what follows its protocol, a folder, memory.
//!
//! Rows are read with ranged gets, several at once; a segment is uploaded in parts and appears when the last has
//! arrived. The object store makes a name visible only when it is whole, so it needs no temporary names.

use std::io::{self, Write};
use std::sync::Arc;

use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{ObjectStore, ObjectStoreExt, WriteMultipart};
use penstock_ckks::OfProcess;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

use super::{Backend, Done, Fill, Listed, Piece, Source};
use crate::{Error, Result, SegmentError};

/// Ranged gets in flight for one key.
const GETS: usize = 8;
/// Parts of an upload in flight, and their size: S3 takes parts of 5 MiB and more, at most 10,000 of them.
const PARTS: usize = 4;
const PART_BYTES: usize = 16 << 20;

/// Folders below one another that are listed: segments lie in `TENANT/DIGEST`, and what lies far below is another's.
const DEPTH: usize = 4;

/// Segments in an object store. The index stays in a local folder.
pub struct ObjectBackend {
    store: Arc<dyn ObjectStore>,
    name: String,
    runtime: OfProcess<Runtime>,
}

impl ObjectBackend {
    /// Segments in `store`, which messages call `name`.
    ///
    /// # Errors
    /// `Io`: the system refuses threads.
    pub fn new(store: Arc<dyn ObjectStore>, name: impl Into<String>) -> Result<Self> {
        let name = name.into();
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|error| Error::io(&name, "start a thread for", error))?;
        Ok(Self { store, name, runtime: OfProcess::new(runtime) })
    }

    /// Segments below a URL: `s3://bucket/prefix` (with the feature `s3`), `file:///folder`, `memory:///`. Credentials,
    /// region and endpoint come from `settings`, by the names of the crate (`aws_access_key_id`, `aws_endpoint_url`, …).
    ///
    /// # Errors
    /// `Value`: the URL or a setting is none that this build knows.
    pub fn from_url(url: &str, settings: impl IntoIterator<Item = (String, String)>) -> Result<Self> {
        const RULE: &str =
            "a URL of an object store that this build knows: s3:// takes the feature 's3' (docs/guides/keystore.md)";
        let wrong = |why: String| Error::value("store", format!("'{url}' ({why})"), RULE);
        let parsed = url::Url::parse(url).map_err(|error| wrong(error.to_string()))?;
        #[cfg(feature = "s3")]
        if parsed.scheme() == "s3" {
            let prefix = Path::from_url_path(parsed.path()).map_err(|error| wrong(error.to_string()))?;
            let bucket = super::s3::bucket(&parsed, settings)?;
            return Self::new(Arc::new(PrefixStore::new(bucket, prefix)), url);
        }
        let (store, prefix) =
            object_store::parse_url_opts(&parsed, settings).map_err(|error| wrong(error.to_string()))?;
        Self::new(Arc::new(PrefixStore::new(store, prefix)), url)
    }

    /// Its thread and its connections.
    fn runtime(&self) -> Result<Arc<Runtime>> {
        self.runtime.get().ok_or_else(|| Error::Forked { what: format!("the object store {}", self.name) })
    }

    fn failed<'a>(&'a self, path: &'a str, doing: &'static str) -> impl Fn(object_store::Error) -> Error + 'a {
        move |error| failure(&format!("{}/{path}", self.name), doing, error)
    }
}

fn failure(path: &str, doing: &'static str, error: object_store::Error) -> Error {
    let said = first_line(&error.to_string());
    let (kind, what) = match (&error, code(&said)) {
        (_, Some("NoSuchBucket")) => {
            (io::ErrorKind::NotFound, "there is no such bucket: make it first, or name another".into())
        }
        (object_store::Error::NotFound { .. }, _) => {
            (io::ErrorKind::NotFound, "it does not exist; import the key again".into())
        }
        (error, code) if is_refusal(error, code) => {
            let remedy = "the object store refuses: check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION and what \
                          they may do there";
            (io::ErrorKind::PermissionDenied, format!("{remedy} ({})", code.unwrap_or(&said)))
        }
        _ => (io::ErrorKind::Other, said),
    };
    SegmentError::Io { path: path.into(), doing, what, source: io::Error::new(kind, error) }.into()
}

/// Whether the server knows the object and does not give it. Listings say so only in their text.
fn is_refusal(error: &object_store::Error, code: Option<&str>) -> bool {
    use object_store::Error::{PermissionDenied, Unauthenticated};
    const REFUSALS: [&str; 6] = [
        "AccessDenied",
        "InvalidAccessKeyId",
        "SignatureDoesNotMatch",
        "ExpiredToken",
        "InvalidToken",
        "AccountProblem",
    ];
    matches!(error, PermissionDenied { .. } | Unauthenticated { .. })
        || code.is_some_and(|code| REFUSALS.contains(&code))
}

/// The code in an answer of S3's protocol: `<Code>NoSuchBucket</Code>`.
fn code(said: &str) -> Option<&str> {
    let (_, rest) = said.split_once("<Code>")?;
    Some(rest.split_once("</Code>")?.0)
}

/// What a server answers may be a page of XML.
fn first_line(text: &str) -> String {
    const MOST: usize = 400;
    let line: Vec<&str> = text.split_whitespace().collect();
    line.join(" ").chars().take(MOST).collect()
}

impl Backend for ObjectBackend {
    fn describe(&self) -> String {
        self.name.clone()
    }

    fn list(&self) -> Result<Vec<Listed>> {
        let runtime = self.runtime()?;
        let mut found = vec![];
        let mut prefixes = vec![Path::default()];
        while let Some(prefix) = prefixes.pop() {
            let listing = runtime.block_on(self.store.list_with_delimiter(Some(&prefix)));
            let listing = listing.map_err(self.failed(prefix.as_ref(), "list"))?;
            prefixes.extend(listing.common_prefixes.into_iter().filter(|below| below.parts().count() <= DEPTH));
            let listed = listing.objects.into_iter();
            found.extend(listed.map(|object| Listed { path: object.location.to_string(), bytes: object.size }));
        }
        found.sort();
        Ok(found)
    }

    fn size(&self, path: &str) -> Result<Option<u64>> {
        match self.runtime()?.block_on(self.store.head(&Path::from(path))) {
            Ok(object) => Ok(Some(object.size)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.failed(path, "look at")(error)),
        }
    }

    fn open(&self, path: &str) -> Result<Box<dyn Source>> {
        let (runtime, location) = (self.runtime()?, Path::from(path));
        let object = runtime.block_on(self.store.head(&location)).map_err(self.failed(path, "open"))?;
        Ok(Box::new(Object {
            store: self.store.clone(),
            runtime,
            location,
            path: format!("{}/{path}", self.name),
            bytes: object.size,
        }))
    }

    fn put(&self, path: &str, bytes: u64, fill: Fill<'_>) -> Result<()> {
        let runtime = self.runtime()?;
        let _in_runtime = runtime.enter();
        let upload = runtime.block_on(self.store.put_multipart(&Path::from(path)));
        let upload = upload.map_err(self.failed(path, "write"))?;
        let parts = WriteMultipart::new_with_chunk_size(upload, PART_BYTES);
        let mut out = Upload { parts, runtime: &runtime, written: 0 };
        let written = fill(&mut out).and_then(|()| {
            let rule = format!("{} bytes were written, {bytes} were announced", out.written);
            if out.written == bytes { Ok(()) } else { Err(io::Error::other(rule)) }
        });
        match written {
            Ok(()) => {
                runtime.block_on(out.parts.finish()).map_err(self.failed(path, "write"))?;
                Ok(())
            }
            Err(error) => {
                // Parts that were uploaded are given up; a store that cannot do that lets them expire.
                let _ = runtime.block_on(out.parts.abort());
                Err(Error::io(format!("{}/{path}", self.name), "write", error))
            }
        }
    }

    fn remove(&self, path: &str) -> Result<()> {
        match self.runtime()?.block_on(self.store.delete(&Path::from(path))) {
            Err(error) if !matches!(error, object_store::Error::NotFound { .. }) => {
                Err(self.failed(path, "remove")(error))
            }
            _ => Ok(()),
        }
    }
}

struct Upload<'a> {
    parts: WriteMultipart,
    runtime: &'a Runtime,
    written: u64,
}

impl Write for Upload<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.runtime.block_on(self.parts.wait_for_capacity(PARTS)).map_err(io::Error::other)?;
        self.parts.write(bytes);
        self.written += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Object {
    store: Arc<dyn ObjectStore>,
    runtime: Arc<Runtime>,
    location: Path,
    path: String,
    bytes: u64,
}

impl Object {
    fn start(&self, gets: &mut JoinSet<Result<Piece>>, mut piece: Piece) {
        let (store, location, path) = (self.store.clone(), self.location.clone(), self.path.clone());
        let get = async move {
            let wanted = piece.bytes();
            let range = piece.offset..piece.offset + wanted as u64;
            let got = store.get_range(&location, range).await.map_err(|error| failure(&path, "read", error))?;
            if got.len() != wanted {
                return Err(Error::ShortRead { path, offset: piece.offset, wanted, got: got.len() });
            }
            let mut rest = &got[..];
            for row in &mut piece.rows {
                let (own, others) = rest.split_at(row.bytes().len());
                row.bytes_mut().copy_from_slice(own);
                rest = others;
            }
            Ok(piece)
        };
        gets.spawn_on(get, self.runtime.handle());
    }
}

impl Source for Object {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read(&self, pieces: Vec<Piece>, done: Done<'_>) -> Result<()> {
        let mut gets = JoinSet::new();
        let mut waiting = pieces.into_iter();
        waiting.by_ref().take(GETS).for_each(|piece| self.start(&mut gets, piece));
        while let Some(joined) = self.runtime.block_on(gets.join_next()) {
            let piece = joined.map_err(|error| Error::io(&self.path, "read", io::Error::other(error)))??;
            if let Some(next) = waiting.next() {
                self.start(&mut gets, next);
            }
            done(piece)?;
        }
        Ok(())
    }
}
