//! A context: parameters with their tables, the kernels and threads that compute, and the memory they use again.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::automorphism::Automorphism;
use crate::auxiliary::Auxiliary;
use crate::buffer::Arena;
use crate::cipher::{Ciphertext, Plaintext};
use crate::constants::{DownConstants, LevelConstants, digit_limbs};
use crate::error::Error;
use crate::kernels::{CpuPath, Kernels, Prime};
use crate::openfhe_bytes::Part;
use crate::scaling::{ScaleTable, Scaling};
use crate::slots::SlotTables;
use crate::workers::Workers;

/// Permutations that are kept: 264 kB each at N = 2^16.
const KEPT_AUTOMORPHISMS: usize = 128;

/// 2^-64 to 2^511: a product of two scales is a finite one, too.
const SCALES: RangeInclusive<f64> = 1.0 / (1u128 << 64) as f64..=f64::from_bits((1023 + 511) << 52);

/// The parameters of a context: the numbers that OpenFHE chose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameters {
    /// N, a power of two.
    pub ring_dim: usize,
    /// The moduli of ciphertexts, in OpenFHE's order: the one that stays longest first.
    pub moduli_q: Vec<u64>,
    /// The special moduli of key switching, as evaluation keys carry them.
    pub moduli_p: Vec<u64>,
    /// Digits of the decomposition.
    pub dnum: usize,
    /// The scaling technique.
    pub scaling: Scaling,
    /// log2 of the scale that was asked for.
    pub scale_bits: u32,
}

/// How a context computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine {
    /// Which kernels.
    pub path: CpuPath,
    /// Threads of one operation.
    pub threads: usize,
    /// Memory of dropped results that is kept for new ones, in bytes.
    pub keep_bytes: usize,
}

impl Machine {
    /// The fastest available kernels, or those that `PENSTOCK_CPU` names; half a gigabyte is kept.
    ///
    /// # Errors
    /// [`Error::Cpu`] where the named path is not available.
    pub fn new(threads: usize) -> Result<Self, Error> {
        Ok(Self { path: CpuPath::choose()?, threads, keep_bytes: 512 << 20 })
    }
}

/// Evaluates; holds no key and no secret. All operations take `&self` and may run at the same time.
#[derive(Debug)]
pub struct Context {
    parameters: Parameters,
    pub(crate) alpha: usize,
    pub(crate) primes: Vec<Prime>,
    pub(crate) kernels: Kernels,
    pub(crate) workers: Workers,
    pub(crate) arena: Arc<Arena>,
    pub(crate) scales: ScaleTable,
    pub(crate) down: DownConstants,
    levels: Vec<OnceLock<LevelConstants>>,
    automorphisms: Mutex<HashMap<u64, Arc<Automorphism>>>,
    slot_tables: OnceLock<SlotTables>,
    pub(crate) auxiliary: OnceLock<Auxiliary>,
}

impl Context {
    /// Builds the tables.
    ///
    /// # Errors
    /// [`Error::Parameters`] where the numbers do not fit together, [`Error::Cpu`] where the kernels are not available.
    pub fn new(parameters: Parameters, machine: Machine) -> Result<Self, Error> {
        let refused = |what: String, rule| Err(Error::Parameters { what, rule });
        let (count_q, count_p) = (parameters.moduli_q.len(), parameters.moduli_p.len());
        if count_q == 0 || count_p == 0 {
            return refused(format!("{count_q} moduli of Q, {count_p} of P"), "both are needed");
        }
        if parameters.dnum == 0 || parameters.dnum > count_q {
            return refused(format!("{} digits of {count_q} moduli", parameters.dnum), "take 1 to as many as moduli");
        }
        let mut seen = parameters.moduli_q.iter().chain(&parameters.moduli_p).copied().collect::<Vec<_>>();
        seen.sort_unstable();
        if seen.windows(2).any(|pair| pair[0] == pair[1]) {
            return refused("the same modulus twice".to_owned(), "the moduli of Q and P must differ");
        }
        let kernels = Kernels::of(machine.path)?;
        let workers = Workers::new(machine.threads)?;
        let arena = Arena::new(machine.keep_bytes);
        let n = parameters.ring_dim;
        let slots: Vec<Mutex<Option<Prime>>> = (0..count_q + count_p).map(|_| Mutex::new(None)).collect();
        let moduli = parameters.moduli_q.iter().chain(&parameters.moduli_p).zip(&slots).collect();
        workers.each(moduli, |(q, slot)| {
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(kernels.prime(*q, n, &arena)?);
            Ok(())
        })?;
        let primes: Vec<Prime> =
            slots.into_iter().filter_map(|slot| slot.into_inner().unwrap_or_else(PoisonError::into_inner)).collect();
        let scales = ScaleTable::new(parameters.scaling, parameters.scale_bits, &parameters.moduli_q)?;
        Ok(Self {
            alpha: count_q.div_ceil(parameters.dnum),
            down: DownConstants::new(&primes, count_q, n),
            levels: (0..count_q).map(|_| OnceLock::new()).collect(),
            automorphisms: Mutex::default(),
            slot_tables: OnceLock::new(),
            auxiliary: OnceLock::new(),
            parameters,
            primes,
            kernels,
            workers,
            arena,
            scales,
        })
    }

    /// Its parameters.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// The kernels that run.
    pub fn path(&self) -> CpuPath {
        self.kernels.path()
    }

    /// Runs `work` so many times at once on the threads of this context, where its operations need not be handed over.
    /// One call at a time; another waits until it is over, or itself not wanted any more.
    ///
    /// # Errors
    /// [`Error::System`]: in a child of a fork no threads can be started.
    pub fn abreast(&self, count: usize, is_wanted: impl Fn() -> bool, work: impl Fn() + Sync) -> Result<(), Error> {
        self.workers.abreast(count, is_wanted, work)
    }

    /// The kernels, for work on bare rows.
    pub fn kernels(&self) -> Kernels {
        self.kernels
    }

    /// The primes of Q, then of P, with the tables of their transforms.
    pub fn primes(&self) -> &[Prime] {
        &self.primes
    }

    /// Does independent jobs on the context's threads.
    ///
    /// # Errors
    /// The first of a job.
    pub fn each<T: Send>(&self, jobs: Vec<T>, work: impl Fn(T) -> Result<(), Error> + Sync) -> Result<(), Error> {
        self.workers.each(jobs, work)
    }

    /// The transform between slots and the coefficients of a polynomial.
    pub fn slot_transform(&self) -> &SlotTables {
        self.slot_tables()
    }

    /// Where its results get their memory from.
    pub fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }

    /// The minimal primitive root of each modulus of Q.
    pub fn roots(&self) -> Vec<u64> {
        self.primes[..self.count_q()].iter().map(|p| p.root).collect()
    }

    /// The rows of an evaluation key that an operation at `limbs` limbs reads.
    pub fn rows_in_use(&self, limbs: usize) -> impl Iterator<Item = (Part, usize, usize)> + use<> {
        let (count_q, all) = (self.count_q(), self.primes.len());
        let digits = self.active_digits(limbs);
        Part::BOTH.into_iter().flat_map(move |part| {
            (0..digits).flat_map(move |digit| (0..limbs).chain(count_q..all).map(move |limb| (part, digit, limb)))
        })
    }

    /// The automorphism X -> X^element.
    ///
    /// # Errors
    /// [`Error::Operand`] where the element is even.
    pub fn automorphism(&self, element: u64) -> Result<Arc<Automorphism>, Error> {
        if element.is_multiple_of(2) {
            let rule = "the powers of X that are automorphisms are odd";
            return Err(Error::Operand { operation: "automorphism", what: format!("element {element}"), rule });
        }
        let element = element & (2 * self.ring_dim() as u64 - 1);
        let mut known = self.automorphisms.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KEPT_AUTOMORPHISMS && !known.contains_key(&element) {
            known.clear();
        }
        let made = known.entry(element).or_insert_with(|| Arc::new(Automorphism::new(element, self.ring_dim())));
        Ok(Arc::clone(made))
    }

    pub(crate) fn ring_dim(&self) -> usize {
        self.parameters.ring_dim
    }

    pub(crate) fn count_q(&self) -> usize {
        self.parameters.moduli_q.len()
    }

    pub(crate) fn count_p(&self) -> usize {
        self.parameters.moduli_p.len()
    }

    pub(crate) fn active_digits(&self, limbs: usize) -> usize {
        limbs.div_ceil(self.alpha)
    }

    pub(crate) fn digit_limbs(&self, digit: usize, limbs: usize) -> std::ops::Range<usize> {
        digit_limbs(self.alpha, digit, limbs)
    }

    /// Limb `target` of the basis of `limbs` limbs of Q, then P: its index in the whole chain.
    pub(crate) fn chain_index(&self, target: usize, limbs: usize) -> usize {
        if target < limbs { target } else { target - limbs + self.count_q() }
    }

    /// Scalings done, as OpenFHE counts levels.
    pub(crate) fn level(&self, limbs: usize) -> usize {
        self.count_q() - limbs
    }

    /// Bits of the product of the first primes of Q.
    pub(crate) fn held_bits(&self, limbs: usize) -> f64 {
        self.parameters().moduli_q[..limbs].iter().map(|q| (*q as f64).log2()).sum()
    }

    /// Whether the modulus of `limbs` limbs holds no values at a scale of so many bits. Primes differ a little from
    /// powers of two, and a scale as large as the modulus leaves values below one half.
    pub(crate) fn is_beyond(&self, scale_bits: f64, limbs: usize) -> bool {
        scale_bits >= self.held_bits(limbs) + 0.01
    }

    pub(crate) fn constants(&self, limbs: usize) -> &LevelConstants {
        self.levels[limbs - 1]
            .get_or_init(|| LevelConstants::new(&self.primes, self.count_q(), self.alpha, self.ring_dim(), limbs))
    }

    pub(crate) fn slot_tables(&self) -> &SlotTables {
        self.slot_tables.get_or_init(|| SlotTables::new(self.ring_dim()))
    }

    /// Whether a ciphertext can be one of this context.
    pub(crate) fn check(&self, operation: &'static str, a: &Ciphertext) -> Result<(), Error> {
        self.check_shape(operation, a.ring_dim, a.limbs)
    }

    pub(crate) fn check_plain(&self, operation: &'static str, a: &Plaintext) -> Result<(), Error> {
        self.check_shape(operation, a.ring_dim, a.limbs)
    }

    /// Whether the header of a foreign ciphertext is possible in this context.
    pub(crate) fn check_described(&self, degree: u32, scale: f64, slots: u32) -> Result<(), Error> {
        // A program that rescales by itself may put that off, as far as there are limbs.
        let most = if self.scales.scaling.is_automatic() { 2 } else { self.count_q() as u32 + 1 };
        let fits = slots.is_power_of_two() && slots as usize <= self.ring_dim() / 2;
        if fits && (1..=most).contains(&degree) && SCALES.contains(&scale) {
            return Ok(());
        }
        let rule = "slots are a power of two up to N / 2, a scale is from 2^-64 to 2^511, a degree is 1 or 2, and at \
                    most one more than Q has limbs where programs rescale: it is damaged, or of other parameters";
        let what = format!("degree {degree}, scale {scale}, {slots} slots");
        Err(Error::Operand { operation: "import", what, rule })
    }

    /// Two polynomials: what key switching works on.
    pub(crate) fn check_relinearized(&self, operation: &'static str, a: &Ciphertext) -> Result<(), Error> {
        self.check(operation, a)?;
        if a.polynomials.len() == 2 {
            return Ok(());
        }
        let what = format!("a ciphertext of {} polynomials", a.polynomials.len());
        Err(Error::Operand { operation, what, rule: "relinearize it first" })
    }

    fn check_shape(&self, operation: &'static str, ring_dim: usize, limbs: usize) -> Result<(), Error> {
        if ring_dim == self.ring_dim() && (1..=self.count_q()).contains(&limbs) {
            return Ok(());
        }
        let what = format!(
            "N = {ring_dim} and {limbs} limbs, where the context has {} and {}",
            self.ring_dim(),
            self.count_q()
        );
        Err(Error::Operand { operation, what, rule: "use the context that the operand was made for" })
    }
}
