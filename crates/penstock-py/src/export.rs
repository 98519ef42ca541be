//! Stored keys as files that OpenFHE reads. Documented in `src/penstock/_engine.pyi`.

use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;

use penstock_ckks::openfhe_bytes::{ContextDescription, KeyFileLayout, SecretDistribution};
use penstock_store::{self as store, Error, SegmentError};
use pyo3::prelude::*;

use crate::ckks::scaling_in;
use crate::errors::{Raised, free};
use crate::store::{GivenName, KeyStore, name_in};

const WRITE_BUFFER_BYTES: usize = 1 << 20;

#[pyfunction]
#[pyo3(signature = (store, names, path, *, registry, scaling, scale_bits, slots, depth, secret, security = None))]
#[allow(clippy::too_many_arguments)]
pub fn export_openfhe_keys(
    py: Python<'_>,
    store: &KeyStore,
    names: Vec<GivenName>,
    path: PathBuf,
    registry: bool,
    scaling: &str,
    scale_bits: u32,
    slots: u32,
    depth: u32,
    secret: &str,
    security: Option<u32>,
) -> PyResult<()> {
    let names = names.into_iter().map(name_in).collect::<PyResult<Vec<_>>>()?;
    let secret = match secret {
        "uniform-ternary" => SecretDistribution::UniformTernary,
        "sparse-ternary" => SecretDistribution::SparseTernary,
        // OpenFHE has no name for the second, and evaluates with it as with the first.
        "sparse-encapsulated" | "uniform-encapsulated" => SecretDistribution::SparseEncapsulated,
        _ => return Err(Error::refused(format!("secret '{secret}': OpenFHE's contexts have ternary secrets"))),
    };
    let scaling = scaling_in(scaling)?;
    free(py, || {
        let shape = match names.first() {
            Some(name) => store.store.entry(name)?.shape.set().clone(),
            None => return Err(SegmentError::Source("no key is named: name the keys to export".into()).into()),
        };
        let mut roots = store::minimal_roots(&shape)?;
        roots.truncate(shape.num_q());
        let context = ContextDescription {
            ring_dim: shape.ring_dim(),
            moduli: shape.moduli()[..shape.num_q()].to_vec(),
            roots,
            slots,
            scale_bits,
            depth,
            dnum: shape.digits() as u32,
            scaling,
            secret,
            security,
        };
        let file = File::options().write(true).truncate(true).create(true).open(&path);
        let out = BufWriter::with_capacity(WRITE_BUFFER_BYTES, file.map_err(|error| Error::io(&path, "write", error))?);
        let layout = if registry { KeyFileLayout::Registry } else { KeyFileLayout::Objects };
        store.store.export_openfhe(&names, &context, layout, out)
    })
}
