//! Program packages: reading and writing their file. Documented in `src/penstock/_engine.pyi`.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use numpy::{Complex64, IntoPyArray, PyArrayMethods, PyReadonlyArray1};
use penstock_operations::Operation;
use penstock_package::{self as package, Coefficients, Constant, Error, limits};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::{Arg, Raised, free};
use crate::{Array, array};

/// The limits of the format.
#[pyfunction]
pub fn package_limits() -> Vec<(&'static str, u64)> {
    vec![
        ("instructions", u64::from(limits::MAX_INSTRUCTIONS)),
        ("operands of all instructions", u64::from(limits::MAX_OPERANDS)),
        ("uses of constants", u64::from(limits::MAX_USES)),
        ("constants", u64::from(limits::MAX_CONSTANTS)),
        ("values of a constant", u64::from(limits::MAX_VALUES)),
        ("stored bytes of a constant", u64::from(limits::MAX_BLOB)),
        ("N", u64::from(limits::MAX_RING_DIM)),
        ("limbs of Q", u64::from(limits::MAX_LIMBS)),
        ("series", u64::from(limits::MAX_SERIES)),
        ("coefficients of a series", u64::from(limits::MAX_SERIES_COEFFICIENTS)),
        ("coefficients of all series", u64::from(limits::MAX_COEFFICIENTS)),
        ("scopes", u64::from(limits::MAX_SCOPES)),
        ("inputs, and as many outputs", u64::from(limits::MAX_INPUTS)),
        ("keys", u64::from(limits::MAX_KEYS)),
        ("bytes of a name or description", limits::MAX_TEXT as u64),
        ("bytes of all names", u64::from(limits::MAX_TEXTS)),
        ("bytes of a JSON text", u64::from(limits::MAX_JSON)),
    ]
}

#[derive(FromPyObject)]
enum Values<'py> {
    Real(PyReadonlyArray1<'py, f64>),
    Complex(PyReadonlyArray1<'py, Complex64>),
}

impl Values<'_> {
    fn constant(&self) -> Constant {
        match self {
            Values::Real(values) => match values.as_slice() {
                Ok(values) => Constant::real(values),
                Err(_) => Constant::real(&values.as_array().to_vec()),
            },
            Values::Complex(values) => {
                Constant::complex(&values.as_array().iter().map(|value| [value.re, value.im]).collect::<Vec<_>>())
            }
        }
    }
}

fn complex(values: Vec<[f64; 2]>) -> Vec<Complex64> {
    values.into_iter().map(|[re, im]| Complex64::new(re, im)).collect()
}

fn values_out(py: Python<'_>, constant: Constant) -> PyResult<Py<PyAny>> {
    match constant {
        Constant::Real(values) => Ok(values.into_pyarray(py).into_any().unbind()),
        Constant::Complex(values) => Ok(complex(values).into_pyarray(py).into_any().unbind()),
        Constant::Coefficients(_) => {
            let message =
                "the constant is coefficients, whose values depend on the ring: finish the package and open it";
            Err(Error::refused(message.to_owned()))
        }
    }
}

#[pyclass(frozen, get_all, module = "penstock._engine")]
pub struct PackageColumns {
    verbs: Array<u8>,
    arguments: Array<i32>,
    limbs: Array<u16>,
    degrees: Array<u8>,
    scopes: Array<u32>,
    many: Array<u32>,
    operands: Array<u32>,
    constants: Array<u32>,
    numbers: Array<Complex64>,
}

impl PackageColumns {
    fn of(py: Python<'_>, calls: &package::Instructions) -> Self {
        Self {
            verbs: array(py, calls.verbs.iter().filter_map(|verb| verb.row().code).collect()),
            arguments: array(py, calls.arguments.clone()),
            limbs: array(py, calls.limbs.clone()),
            degrees: array(py, calls.degrees.clone()),
            scopes: array(py, calls.scopes.clone()),
            many: array(py, calls.many.clone()),
            operands: array(py, calls.operands.clone()),
            constants: array(py, calls.constants.clone()),
            numbers: array(py, complex(calls.numbers.clone())),
        }
    }

    fn instructions(&self, py: Python<'_>) -> PyResult<package::Instructions> {
        let codes = column(py, &self.verbs);
        let verbs = codes.iter().map(|code| Operation::of_code(*code)).collect::<Option<Vec<_>>>();
        Ok(package::Instructions {
            verbs: verbs.ok_or_else(|| PyValueError::new_err("verbs has a code of no verb"))?,
            arguments: column(py, &self.arguments),
            limbs: column(py, &self.limbs),
            degrees: column(py, &self.degrees),
            scopes: column(py, &self.scopes),
            many: column(py, &self.many),
            operands: column(py, &self.operands),
            constants: column(py, &self.constants),
            numbers: column(py, &self.numbers).iter().map(|number| [number.re, number.im]).collect(),
        })
    }
}

fn column<T: numpy::Element + Copy>(py: Python<'_>, from: &Array<T>) -> Vec<T> {
    from.bind(py).readonly().as_array().to_vec()
}

#[pymethods]
impl PackageColumns {
    #[new]
    #[pyo3(signature = (*, verbs, arguments, limbs, degrees, scopes, many, operands, constants, numbers))]
    #[allow(clippy::too_many_arguments)] // Flat on purpose: this is the border.
    fn new(
        verbs: Array<u8>,
        arguments: Array<i32>,
        limbs: Array<u16>,
        degrees: Array<u8>,
        scopes: Array<u32>,
        many: Array<u32>,
        operands: Array<u32>,
        constants: Array<u32>,
        numbers: Array<Complex64>,
    ) -> Self {
        Self { verbs, arguments, limbs, degrees, scopes, many, operands, constants, numbers }
    }
}

type Series = (Vec<f64>, f64, f64);
type Input = (String, u32, u16, bool);

/// Stored bytes, values, kind and form of a constant.
type Entry = (u32, u32, &'static str, &'static str);

fn entry_out(entry: &package::Entry) -> Entry {
    let kind = match entry.kind {
        package::Kind::Real => "real",
        package::Kind::Complex => "complex",
        package::Kind::Coefficients => "coefficients",
    };
    (entry.bytes, entry.values, kind, entry.form.name())
}

#[pyclass(frozen, module = "penstock._engine")]
pub struct PackageReader {
    /// For other parts of the engine.
    pub(crate) reader: Arc<package::Reader>,
}

#[pymethods]
impl PackageReader {
    /// The number of the format that this reader reads.
    #[classattr]
    const VERSION: u32 = package::VERSION;

    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        Ok(Self { reader: Arc::new(free(py, || package::Reader::open(path))?) })
    }

    #[getter]
    fn file_bytes(&self) -> u64 {
        self.reader.file_bytes()
    }

    #[getter]
    fn ring_dim(&self) -> u32 {
        self.reader.tables().ring_dim
    }

    #[getter]
    fn slots(&self) -> u32 {
        self.reader.tables().slots
    }

    #[getter]
    fn num_q(&self) -> u32 {
        self.reader.tables().num_q
    }

    #[getter]
    fn name(&self) -> &str {
        &self.reader.tables().name
    }

    #[getter]
    fn description(&self) -> &str {
        &self.reader.tables().description
    }

    #[getter]
    fn params(&self) -> &str {
        &self.reader.tables().params
    }

    #[getter]
    fn provenance(&self) -> &str {
        &self.reader.tables().provenance
    }

    #[getter]
    fn num_instructions(&self) -> usize {
        self.reader.tables().instructions.len()
    }

    fn columns(&self, py: Python<'_>) -> PackageColumns {
        PackageColumns::of(py, &self.reader.tables().instructions)
    }

    fn scopes(&self) -> Vec<(&str, u32)> {
        self.reader.tables().scopes.iter().map(|each| (each.name.as_str(), each.parent)).collect()
    }

    fn series(&self) -> Vec<Series> {
        let series = self.reader.tables().series.iter();
        series.map(|each| (each.coefficients.clone(), each.lower, each.upper)).collect()
    }

    fn inputs(&self) -> Vec<(&str, u32, u16, bool)> {
        let inputs = self.reader.tables().inputs.iter();
        inputs.map(|each| (each.name.as_str(), each.length, each.limbs, each.is_complex)).collect()
    }

    fn outputs(&self) -> Vec<(&str, u32)> {
        self.reader.tables().outputs.iter().map(|each| (each.name.as_str(), each.length)).collect()
    }

    fn keys(&self) -> Vec<(&str, u16)> {
        self.reader.tables().keys.iter().map(|each| (each.name.as_str(), each.limbs)).collect()
    }

    fn entries(&self) -> Vec<Entry> {
        self.reader.tables().constants.iter().map(entry_out).collect()
    }

    fn __len__(&self) -> usize {
        self.reader.tables().constants.len()
    }

    fn constant(&self, py: Python<'_>, number: Arg<u32>) -> PyResult<Py<PyAny>> {
        let number = number.of::<Error>("the number of a constant")?;
        let constant = free(py, || {
            Ok::<_, Error>(match self.reader.constant(number)? {
                Constant::Coefficients(found) => Constant::Complex(self.reader.embedded(number, &found)?),
                other => other,
            })
        })?;
        values_out(py, constant)
    }

    fn coefficients(&self, py: Python<'_>, number: Arg<u32>) -> PyResult<Option<(Array<i64>, i32)>> {
        let number = number.of::<Error>("the number of a constant")?;
        Ok(match free(py, || self.reader.constant(number))? {
            Constant::Coefficients(Coefficients { integers, exponent }) => Some((array(py, integers), exponent)),
            _ => None,
        })
    }

    fn constant_bytes(&self, py: Python<'_>, number: Arg<u32>) -> PyResult<Py<PyBytes>> {
        let number = number.of::<Error>("the number of a constant")?;
        Ok(PyBytes::new(py, &free(py, || self.reader.constant_bytes(number))?).unbind())
    }

    /// Reads all constants, and refuses the package where one is damaged.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        for number in 0..self.reader.tables().constants.len() as u32 {
            free(py, || self.reader.constant_values(number))?;
            py.check_signals()?;
        }
        Ok(())
    }
}

#[pyclass(frozen, module = "penstock._engine")]
pub struct PackageWriter {
    writer: Mutex<Option<package::Writer>>,
}

impl PackageWriter {
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut package::Writer) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        py.detach(|| {
            let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
            writer.as_mut().map(work)
        })
        .ok_or_else(|| Error::refused("the file of the package is closed: begin another one".to_owned()))?
        .map_err(Raised::raised)
    }
}

#[pymethods]
impl PackageWriter {
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        Ok(Self { writer: Mutex::new(Some(free(py, || package::Writer::create(path))?)) })
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |writer| Ok(writer.len()))
    }

    fn add(&self, py: Python<'_>, values: Values<'_>) -> PyResult<u32> {
        let constant = values.constant();
        self.with(py, |writer| writer.add(&constant))
    }

    fn add_coefficients(&self, py: Python<'_>, integers: PyReadonlyArray1<'_, i64>, exponent: i32) -> PyResult<u32> {
        let constant = Constant::Coefficients(Coefficients { integers: integers.as_array().to_vec(), exponent });
        self.with(py, |writer| writer.add(&constant))
    }

    fn constant(&self, py: Python<'_>, number: Arg<u32>) -> PyResult<Py<PyAny>> {
        let number = number.of::<Error>("the number of a constant")?;
        let constant = self.with(py, |writer| writer.constant(number))?;
        values_out(py, constant)
    }

    #[pyo3(signature = (
        *, ring_dim, slots, num_q, name, description, params, provenance, columns, scopes, series, inputs, outputs, keys
    ))]
    #[allow(clippy::too_many_arguments)] // Flat on purpose: this is the border.
    fn finish(
        &self,
        py: Python<'_>,
        ring_dim: u32,
        slots: u32,
        num_q: u32,
        name: String,
        description: String,
        params: String,
        provenance: String,
        columns: &PackageColumns,
        scopes: Vec<(String, u32)>,
        series: Vec<Series>,
        inputs: Vec<Input>,
        outputs: Vec<(String, u32)>,
        keys: Vec<(String, u16)>,
    ) -> PyResult<u64> {
        let content = package::Content {
            ring_dim,
            slots,
            num_q,
            name,
            description,
            params,
            provenance,
            instructions: columns.instructions(py)?,
            scopes: scopes.into_iter().map(|(name, parent)| package::Scope { name, parent }).collect(),
            series: series
                .into_iter()
                .map(|(coefficients, lower, upper)| package::Series { lower, upper, coefficients })
                .collect(),
            inputs: inputs
                .into_iter()
                .map(|(name, length, limbs, is_complex)| package::Input { name, length, limbs, is_complex })
                .collect(),
            outputs: outputs.into_iter().map(|(name, length)| package::Output { name, length }).collect(),
            keys: keys.into_iter().map(|(name, limbs)| package::Key { name, limbs }).collect(),
            constants: Vec::new(),
        };
        let taken = py.detach(|| self.writer.lock().unwrap_or_else(PoisonError::into_inner).take());
        let writer =
            taken.ok_or_else(|| Error::refused("the file of the package is closed: begin another one".to_owned()))?;
        free(py, || writer.finish(content))
    }

    /// Closes the file without its tables.
    fn close(&self, py: Python<'_>) {
        drop(py.detach(|| self.writer.lock().unwrap_or_else(PoisonError::into_inner).take()));
    }
}
