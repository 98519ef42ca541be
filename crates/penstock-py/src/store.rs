//! Bindings of the key store. The interpreter's lock is released wherever keys are read, written or waited for; the
//! documentation for Python is in `src/penstock/_engine.pyi`.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use penstock_store as store;
use penstock_store::{Error, SegmentError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyDict;

use crate::errors::{Arg, Raised, free};
use crate::keys::CkksKey;

/// `(tenant, digest, key, pair)`.
type Name = (String, String, String, u32);

fn name_out(name: &store::KeyName) -> Name {
    (name.tenant.to_string(), name.digest.to_string(), name.key.to_string(), name.pair)
}

/// The same in its raw form.
pub(crate) type GivenName = (Arg<String>, Arg<String>, Arg<String>, Arg<u32>);

pub(crate) fn name_in((tenant, digest, key, pair): GivenName) -> PyResult<store::KeyName> {
    let (key, pair) = (key_in(key)?, pair.of::<Error>("pair")?);
    Ok(store::KeyName { pair, ..store::KeyName::new(tenant_in(tenant)?, digest_in(digest)?, key) })
}

/// N, the moduli of Q and of P, and dnum.
type GivenShape = (usize, Vec<u64>, Vec<u64>, usize);

fn shape_in((ring_dim, moduli_q, moduli_p, dnum): GivenShape) -> PyResult<store::Shape> {
    store::Shape::new(ring_dim, &moduli_q, &moduli_p, dnum).map_err(SegmentError::raised)
}

/// Keys that OpenFHE serialized.
#[derive(FromPyObject)]
enum Given {
    Bytes(PyBackedBytes),
    File(PathBuf),
}

fn key_in(given: Arg<String>) -> PyResult<store::KeyId> {
    given.of::<Error>("key")?.parse().map_err(SegmentError::raised)
}

fn tenant_in(given: Arg<String>) -> PyResult<store::Tenant> {
    store::Tenant::new(&given.of::<Error>("tenant")?).map_err(SegmentError::raised)
}

fn digest_in(given: Arg<String>) -> PyResult<store::Digest> {
    given.of::<Error>("digest")?.parse().map_err(SegmentError::raised)
}

/// The digest of parameters that keys are bound to.
#[pyfunction]
pub fn key_digest(ring_dim: usize, moduli_q: Vec<u64>, moduli_p: Vec<u64>, dnum: usize) -> PyResult<String> {
    Ok(shape_in((ring_dim, moduli_q, moduli_p, dnum))?.digest().to_string())
}

/// Refuses a name that is not a tenant's.
#[pyfunction]
pub fn check_tenant(name: Arg<String>) -> PyResult<()> {
    tenant_in(name).map(|_| ())
}

/// A whole key: the fields of `penstock.runtime.keystore.StoredKey`.
#[derive(IntoPyObject)]
struct StoredKey {
    name: Name,
    secret_tag: String,
    ring_dim: usize,
    moduli_q: Vec<u64>,
    moduli_p: Vec<u64>,
    dnum: usize,
    digit_limbs: usize,
    limbs: usize,
    form: &'static str,
    file_bytes: u64,
    bytes_needed: Vec<u64>,
    stored_bytes: Vec<u64>,
}

impl From<store::Entry> for StoredKey {
    fn from(entry: store::Entry) -> Self {
        let (shape, set) = (&entry.shape, entry.shape.set());
        let (q, p) = set.moduli().split_at(set.num_q());
        Self {
            name: name_out(&entry.name),
            secret_tag: entry.secret_tag.clone(),
            ring_dim: shape.ring_dim(),
            moduli_q: q.to_vec(),
            moduli_p: p.to_vec(),
            dnum: set.digits(),
            digit_limbs: set.digit_limbs(),
            limbs: entry.layout.limbs,
            form: entry.layout.word(shape),
            file_bytes: entry.bytes(),
            bytes_needed: (1..=entry.layout.limbs).map(|limbs| shape.bytes_needed(limbs)).collect(),
            stored_bytes: (1..=entry.layout.limbs).map(|limbs| entry.stored_bytes(limbs)).collect(),
        }
    }
}

/// `(path, bytes, reason, kept)`.
type Removed = (String, u64, String, bool);

fn removed(each: store::Garbage) -> Removed {
    (each.path, each.bytes, each.reason, each.kept)
}

#[pyclass(frozen, module = "penstock._engine")]
pub struct KeyStore {
    pub(crate) store: Arc<store::Store>,
    opening: store::Opening,
}

#[pymethods]
impl KeyStore {
    /// Whether this build speaks to object stores.
    #[classattr]
    const OBJECT_STORES: bool = cfg!(feature = "s3");

    #[new]
    #[pyo3(signature = (folder, reader = "auto", direct = true, objects = None, settings = HashMap::new(), reading = false))]
    fn new(
        py: Python<'_>,
        folder: PathBuf,
        reader: &str,
        direct: bool,
        objects: Option<String>,
        settings: HashMap<String, String>,
        reading: bool,
    ) -> PyResult<Self> {
        let reader = match reader {
            "auto" => store::Reader::Auto,
            "uring" => store::Reader::Uring,
            "pread" => store::Reader::Pread,
            _ => return Err(Error::refused(format!("reader is '{reader}': auto, uring or pread"))),
        };
        let (store, opening) = free(py, || match objects {
            None if reading => store::Store::open_folder_reading(folder, reader, direct),
            None => store::Store::open_folder(folder, reader, direct),
            Some(url) => store::Store::open(folder, objects_at(&url, settings)?),
        })?;
        Ok(Self { store: Arc::new(store), opening })
    }

    /// The repairs at the opening of the store.
    #[getter]
    fn opening<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let found = PyDict::new(py);
        let names = |names: &[store::KeyName]| names.iter().map(name_out).collect::<Vec<_>>();
        found.set_item("adopted", names(&self.opening.adopted))?;
        found.set_item("lost", names(&self.opening.lost))?;
        found.set_item("damaged", self.opening.damaged.clone())?;
        found.set_item("leftovers", self.opening.leftovers.clone())?;
        found.set_item("index_rebuilt", self.opening.index_rebuilt)?;
        found.set_item("read_only", self.opening.read_only)?;
        Ok(found)
    }

    #[getter]
    fn notes(&self) -> Vec<String> {
        self.store.backend().notes()
    }

    #[pyo3(signature = (tenant = None, digest = None))]
    fn entries(
        &self,
        py: Python<'_>,
        tenant: Option<Arg<String>>,
        digest: Option<Arg<String>>,
    ) -> PyResult<Vec<StoredKey>> {
        let (tenant, digest) = (tenant.map(tenant_in).transpose()?, digest.map(digest_in).transpose()?);
        let mut found = free(py, || self.store.list())?;
        found.retain(|each| {
            tenant.as_ref().is_none_or(|wanted| each.name.tenant == *wanted)
                && digest.is_none_or(|wanted| each.name.digest == wanted)
        });
        Ok(found.into_iter().map(StoredKey::from).collect())
    }

    fn entry(&self, py: Python<'_>, name: GivenName) -> PyResult<StoredKey> {
        let name = name_in(name)?;
        free(py, || self.store.entry(&name)).map(StoredKey::from)
    }

    /// Imports keys from bytes, or from a file, which is read row by row. Says of each key its name, bytes and whether it
    /// was there before.
    #[pyo3(signature = (tenant, source, num_q, key = None, params = None, only = None))]
    #[allow(clippy::too_many_arguments)] // As `penstock.runtime.keystore.KeyStore` calls it.
    fn import_openfhe(
        &self,
        py: Python<'_>,
        tenant: Arg<String>,
        source: Given,
        num_q: Arg<usize>,
        key: Option<Arg<String>>,
        params: Option<GivenShape>,
        only: Option<Vec<Arg<String>>>,
    ) -> PyResult<Vec<(Name, u64, bool)>> {
        let only = only.map(|keys| keys.into_iter().map(key_in).collect::<PyResult<Vec<_>>>()).transpose()?;
        let (tenant, num_q, key) = (tenant_in(tenant)?, num_q.of::<Error>("num_q")?, key.map(key_in).transpose()?);
        let shape = params.map(shape_in).transpose()?;
        let params = shape.as_ref().map_or(store::Params::Limbs(num_q), store::Params::Of);
        let imported = free(py, || match source {
            Given::Bytes(bytes) => self.store.import_openfhe(&tenant, &*bytes, params, key, only.as_deref()),
            Given::File(path) => {
                self.store.import_openfhe(&tenant, &store::KeyFile::open(path)?, params, key, only.as_deref())
            }
        })?;
        Ok(imported.iter().map(|each| (name_out(&each.name), each.bytes, each.replaced)).collect())
    }

    /// A segment file that was made elsewhere; of this tenant and these parameters if given.
    #[pyo3(signature = (path, tenant = None, digest = None, is_given = false))]
    fn import_segment(
        &self,
        py: Python<'_>,
        path: PathBuf,
        tenant: Option<Arg<String>>,
        digest: Option<Arg<String>>,
        is_given: bool,
    ) -> PyResult<(Name, u64, bool)> {
        let (tenant, digest) = (tenant.map(tenant_in).transpose()?, digest.map(digest_in).transpose()?);
        let imported = free(py, || self.store.import_segment(path, tenant.as_ref(), digest, is_given))?;
        Ok((name_out(&imported.name), imported.bytes, imported.replaced))
    }

    /// Begins a new key pair; returns its number.
    fn replace(&self, py: Python<'_>, tenant: Arg<String>, digest: Arg<String>) -> PyResult<u32> {
        let (tenant, digest) = (tenant_in(tenant)?, digest_in(digest)?);
        free(py, || self.store.replace(&tenant, digest))
    }

    /// Removes the keys of all pairs but the newest, as [`KeyStore::gc`] says.
    fn retire(&self, py: Python<'_>, tenant: Arg<String>, digest: Arg<String>) -> PyResult<Vec<Removed>> {
        let (tenant, digest) = (tenant_in(tenant)?, digest_in(digest)?);
        Ok(free(py, || self.store.retire(&tenant, digest))?.into_iter().map(removed).collect())
    }

    /// Whether keys of this secret key may be imported.
    fn takes(
        &self,
        py: Python<'_>,
        tenant: Arg<String>,
        digest: Arg<String>,
        secret_tag: Arg<String>,
    ) -> PyResult<bool> {
        let (tenant, digest) = (tenant_in(tenant)?, digest_in(digest)?);
        let tag = secret_tag.of::<Error>("secret_tag")?;
        free(py, || self.store.takes(&tenant, digest, &tag))
    }

    /// The name of a key for sessions of this secret key.
    #[pyo3(signature = (tenant, digest, key, secret_tag = None))]
    fn name_for(
        &self,
        py: Python<'_>,
        tenant: Arg<String>,
        digest: Arg<String>,
        key: Arg<String>,
        secret_tag: Option<Arg<String>>,
    ) -> PyResult<Name> {
        let (tenant, digest, key) = (tenant_in(tenant)?, digest_in(digest)?, key_in(key)?);
        let tag = Arg::optional::<Error>(secret_tag, "secret_tag")?;
        Ok(name_out(&py.detach(|| self.store.name_for(&tenant, digest, key, tag.as_deref()))))
    }

    /// `(what is wrong or None, damaged rows)`.
    fn verify(&self, py: Python<'_>, name: GivenName) -> PyResult<(Option<String>, usize)> {
        let name = name_in(name)?;
        let verified = free(py, || Ok::<_, Error>(self.store.verify(&self.store.entry(&name)?)))?;
        Ok((verified.fault.map(|fault| fault.to_string()), verified.damaged_rows))
    }

    /// `(path, bytes, reason, kept)` of each file that is, or would be, removed or put in order.
    #[pyo3(signature = (tenant = None, dry_run = false))]
    fn gc(&self, py: Python<'_>, tenant: Option<Arg<String>>, dry_run: bool) -> PyResult<Vec<Removed>> {
        let tenant = tenant.map(tenant_in).transpose()?;
        let garbage = free(py, || self.store.gc(tenant.as_ref(), dry_run))?;
        Ok(garbage.into_iter().map(removed).collect())
    }
}

#[cfg(feature = "s3")]
fn objects_at(url: &str, settings: HashMap<String, String>) -> store::Result<Arc<dyn store::Backend>> {
    Ok(Arc::new(store::ObjectBackend::from_url(url, settings)?))
}

#[cfg(not(feature = "s3"))]
fn objects_at(url: &str, _: HashMap<String, String>) -> store::Result<Arc<dyn store::Backend>> {
    const RULE: &str = "this build has no object stores (feature s3)";
    Err(SegmentError::value("objects", format!("'{url}'"), RULE).into())
}

/// Name, read bytes, expanded bytes, ahead, began, ended.
type EndedRead = (Name, u64, u64, bool, f64, f64);

#[pyclass(frozen, module = "penstock._engine")]
pub struct KeyCache(store::Cache);

impl KeyCache {
    /// The cache, in the process that made it.
    fn here(&self) -> PyResult<&store::Cache> {
        self.0.check_process().map_err(Error::raised)?;
        Ok(&self.0)
    }
}

#[pyclass(frozen, module = "penstock._engine")]
pub struct KeyPlan(Mutex<Option<store::Plan>>);

#[pyclass(frozen, module = "penstock._engine")]
pub struct KeySession(store::Session);

#[pymethods]
impl KeyCache {
    #[new]
    #[pyo3(signature = (store, budget_bytes, policy, prefetch_uses, floor_bytes = None))]
    fn new(
        store: &KeyStore,
        budget_bytes: Arg<u64>,
        policy: &str,
        prefetch_uses: Arg<usize>,
        floor_bytes: Option<Arg<u64>>,
    ) -> PyResult<Self> {
        let policy = match policy {
            "lru" => store::Policy::Lru,
            "future" => store::Policy::Future,
            _ => return Err(Error::refused(format!("policy is '{policy}': future or lru"))),
        };
        let budget_bytes = budget_bytes.of::<Error>("budget_bytes")?;
        let prefetch_uses = prefetch_uses.of::<Error>("prefetch_uses")?;
        let floor_bytes = Arg::optional::<Error>(floor_bytes, "floor_bytes")?.unwrap_or(0);
        let options = store::Options { policy, prefetch_uses, floor_bytes, ..store::Options::new(budget_bytes) };
        store::Cache::new(store.store.clone(), options).map(Self).map_err(Error::raised)
    }

    /// Takes memory for `bytes` of rows of N words from the system now, as far as the budget allows.
    fn reserve(&self, py: Python<'_>, ring_dim: Arg<usize>, bytes: Arg<u64>) -> PyResult<()> {
        let (ring_dim, bytes) = (ring_dim.of::<Error>("ring_dim")?, bytes.of::<Error>("bytes")?);
        let cache = self.here()?;
        py.detach(|| cache.reserve(ring_dim * store::WORD_BYTES, bytes));
        Ok(())
    }

    /// Makes a future known: `((tenant, digest, key), limbs)` of each use, in order, after `lead` uses of others.
    #[pyo3(signature = (uses, lead = None))]
    fn plan(&self, uses: Vec<(GivenName, Arg<usize>)>, lead: Option<Arg<usize>>) -> PyResult<KeyPlan> {
        let lead = Arg::optional::<Error>(lead, "lead")?.unwrap_or(0);
        let uses = uses
            .into_iter()
            .map(|(name, limbs)| Ok(store::Use { name: name_in(name)?, limbs: limbs.of::<Error>("limbs")? }));
        let uses = uses.collect::<PyResult<_>>()?;
        Ok(KeyPlan(Mutex::new(Some(self.here()?.plan(uses, lead)))))
    }

    #[pyo3(signature = (tenant, digest, plan = None, secret_tag = None))]
    fn session(
        &self,
        py: Python<'_>,
        tenant: Arg<String>,
        digest: Arg<String>,
        plan: Option<&KeyPlan>,
        secret_tag: Option<Arg<String>>,
    ) -> PyResult<KeySession> {
        let session = self.here()?.session(tenant_in(tenant)?, digest_in(digest)?);
        let secret_tag = Arg::optional::<Error>(secret_tag, "secret_tag")?;
        let session = secret_tag.map_or(session.clone(), |tag| session.of_secret(&tag));
        free(py, || session.hold())?;
        let Some(plan) = plan else { return Ok(KeySession(session)) };
        let plan = plan.0.lock().unwrap_or_else(PoisonError::into_inner);
        let plan = plan.as_ref().ok_or_else(|| Error::refused("the plan is closed".into()))?;
        Ok(KeySession(session.following(plan)))
    }

    /// Keys with rows in memory: `((tenant, digest, key, pair), limbs, bytes)`.
    fn residents(&self) -> PyResult<Vec<(Name, usize, u64)>> {
        let found = self.here()?.residents().into_iter();
        Ok(found.map(|(name, limbs, bytes)| (name_out(&name), limbs, bytes)).collect())
    }

    /// Reads that have ended since the last call: `(name, read bytes, expanded bytes, ahead, began, ended)`, both in
    /// seconds ago.
    fn take_reads(&self) -> PyResult<Vec<EndedRead>> {
        let (reads, now) = (self.here()?.take_reads(), Instant::now());
        let ago = |at: Instant| now.duration_since(at).as_secs_f64();
        let found = reads.into_iter().map(|each| {
            let times = (ago(each.began), ago(each.ended));
            (name_out(&each.name), each.read_bytes, each.expanded_bytes, each.ahead, times.0, times.1)
        });
        Ok(found.collect())
    }

    /// Lets go of a tenant's keys.
    fn forget_tenant(&self, tenant: Arg<String>) -> PyResult<()> {
        self.here()?.forget_tenant(&tenant_in(tenant)?);
        Ok(())
    }

    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = self.here()?.stats();
        let out = PyDict::new(py);
        for (name, count) in [
            ("hits", stats.hits),
            ("late_hits", stats.late_hits),
            ("misses", stats.misses),
            ("failures", stats.failures),
            ("requested_bytes", stats.requested_bytes),
            ("miss_bytes", stats.miss_bytes),
            ("read_bytes", stats.read_bytes),
            ("expanded_bytes", stats.expanded_bytes),
            ("prefetched_bytes", stats.prefetched_bytes),
            ("evictions", stats.evictions),
            ("evicted_bytes", stats.evicted_bytes),
            ("dropped_bytes", stats.dropped_bytes),
            ("unplanned", stats.unplanned),
            ("prefetch_failures", stats.prefetch_failures),
            ("resident_bytes", stats.resident_bytes),
            ("peak_resident_bytes", stats.peak_resident_bytes),
        ] {
            out.set_item(name, count)?;
        }
        out.set_item("wait_s", stats.wait_s)?;
        out.set_item("read_s", stats.read_s)?;
        Ok(out)
    }
}

#[pymethods]
impl KeyPlan {
    #[getter]
    fn remaining(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map_or(0, store::Plan::remaining)
    }

    fn close(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_args))]
    fn __exit__(&self, _args: &Bound<'_, PyAny>) {
        self.close();
    }
}

impl KeySession {
    /// The session, for a run without the interpreter's lock.
    pub fn session(&self) -> store::Session {
        self.0.clone()
    }
}

#[pymethods]
impl KeySession {
    fn get(&self, py: Python<'_>, key: Arg<String>, limbs: Arg<usize>) -> PyResult<CkksKey> {
        let (key, limbs) = (key.of::<Error>("key")?, limbs.of::<Error>("limbs")?);
        free(py, || self.0.get(key.parse()?, limbs)).map(CkksKey::new)
    }

    /// Hits, misses, and bytes of misses.
    fn counts(&self) -> (u64, u64, u64) {
        self.0.counts()
    }
}
