//! A program: tasks in order, each with the values that it takes and makes.

use crate::error::Error;

/// The form of an encoded vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
    /// Over the limbs of Q.
    Plaintext,
    /// As rounded coefficients, for sums over Q and P.
    Coefficients,
}

/// A vector of the program, encoded at limbs and at a power of the scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Vector {
    pub number: u32,
    pub limbs: u16,
    pub degree: u8,
    pub form: Form,
}

/// What a task does. The method of [`penstock_ckks::Context`] with this name says the operands.
#[derive(Debug, Clone, PartialEq)]
pub enum Work {
    Input(u32),
    Output(u32),
    Add,
    Sub,
    Mult,
    MultNoRelin,
    Square,
    Relinearize,
    Negate,
    AddPlain,
    SubPlain,
    MultPlain,
    /// A sum of products with one vector each.
    PlainSum,
    AddScalar(f64),
    SubScalar(f64),
    /// The number minus the ciphertext.
    ScalarSub(f64),
    MultScalar(f64),
    /// By `numerator / (scale of the operand * level scale) / small`.
    MultOverScale([f64; 3]),
    /// A sum of products with one number each.
    NumberSum(Box<[f64]>),
    /// By a Galois element.
    Rotate(u64),
    RotateHoisted(u64),
    RotateHoistedExtended(u64),
    RotateExtended(u64),
    ToSparse,
    ToDense,
    Rescale,
    RescaleNow,
    RescaleForProduct,
    ModDrop(usize),
    RescaleAndDrop(usize),
    /// To so many limbs, of the operand's first limb; at the scale of that level if asked for.
    ModRaise(usize, bool),
    Align,
    Monomial(usize),
    Whole(u64),
    Decompose,
    DecomposeExtended,
    Extend,
    AddExtended,
    ModDown,
    /// So many sums over Q and P with the same vectors; whether each adds one operand more.
    WeightedSums(usize, bool),
}

impl Work {
    /// Its name in messages.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Input(_) => "input",
            Self::Output(_) => "output",
            Self::Add => "add",
            Self::Sub => "sub",
            Self::Mult => "mult",
            Self::MultNoRelin => "mult_no_relin",
            Self::Square => "square",
            Self::Relinearize => "relinearize",
            Self::Negate => "negate",
            Self::AddPlain => "add_plain",
            Self::SubPlain => "sub_plain",
            Self::MultPlain => "mult_plain",
            Self::PlainSum => "plain_sum",
            Self::AddScalar(_) => "add_scalar",
            Self::SubScalar(_) => "sub_scalar",
            Self::ScalarSub(_) => "scalar_sub",
            Self::MultScalar(_) => "mult_scalar",
            Self::MultOverScale(_) => "mult_over_scale",
            Self::NumberSum(_) => "number_sum",
            Self::Rotate(_) => "rotate",
            Self::RotateHoisted(_) => "rotate_hoisted",
            Self::RotateHoistedExtended(_) => "rotate_hoisted_extended",
            Self::RotateExtended(_) => "rotate_extended",
            Self::ToSparse => "to_sparse",
            Self::ToDense => "to_dense",
            Self::Rescale => "rescale",
            Self::RescaleNow => "rescale_now",
            Self::RescaleForProduct => "rescale_for_product",
            Self::ModDrop(_) => "mod_drop",
            Self::RescaleAndDrop(_) => "rescale_and_drop",
            Self::ModRaise(..) => "mod_raise",
            Self::Align => "align",
            Self::Monomial(_) => "monomial",
            Self::Whole(_) => "whole",
            Self::Decompose => "decompose",
            Self::DecomposeExtended => "decompose_extended",
            Self::Extend => "extend",
            Self::AddExtended => "add_extended",
            Self::ModDown => "mod_down",
            Self::WeightedSums(..) => "weighted_sums",
        }
    }

    /// Whether it reads a key.
    pub fn is_keyed(&self) -> bool {
        matches!(
            self,
            Self::Mult
                | Self::Square
                | Self::Relinearize
                | Self::Rotate(_)
                | Self::RotateHoisted(_)
                | Self::RotateHoistedExtended(_)
                | Self::RotateExtended(_)
                | Self::ToSparse
                | Self::ToDense
        )
    }

    /// Operands, vectors and results, where the work says them: of a task with so many of each.
    fn shape(&self, operands: usize, vectors: usize) -> (usize, usize, usize) {
        match self {
            Self::Input(_) => (0, 0, 1),
            Self::Output(_) => (1, 0, 0),
            Self::Add
            | Self::Sub
            | Self::Mult
            | Self::MultNoRelin
            | Self::RotateHoisted(_)
            | Self::RotateHoistedExtended(_)
            | Self::RotateExtended(_)
            | Self::Align
            | Self::AddExtended => (2, 0, 1),
            Self::AddPlain | Self::SubPlain | Self::MultPlain => (1, 1, 1),
            Self::PlainSum => (vectors.max(1), operands.max(1), 1),
            Self::NumberSum(weights) => (weights.len().max(1), 0, 1),
            Self::WeightedSums(sums, plus) => (sums * (vectors.max(1) + usize::from(*plus)), vectors.max(1), *sums),
            _ => (1, 0, 1),
        }
    }
}

/// One step of a program.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    pub work: Work,
    /// Values that earlier tasks make.
    pub operands: Box<[u32]>,
    /// Number of the first result; further ones follow.
    pub first_result: u32,
    pub results: u32,
    /// The key and the limbs of its use.
    pub key: Option<(u32, u16)>,
    pub vectors: Box<[Vector]>,
}

/// Checked tasks, in an order in which they can run.
#[derive(Debug)]
pub struct Program {
    tasks: Vec<Task>,
    value_bytes: Vec<u64>,
}

impl Program {
    /// Checks that every value is made before its uses, that each task has the operands, vectors and key of its work,
    /// and that results are numbered in order.
    ///
    /// `value_bytes`: of each value in memory.
    ///
    /// # Errors
    /// [`Error::Task`] says which task breaks which rule.
    pub fn new(tasks: Vec<Task>, value_bytes: Vec<u64>) -> Result<Self, Error> {
        let mut made = 0u32;
        for (at, task) in tasks.iter().enumerate() {
            let refused = |what: String, rule| Err(Error::Task { task: at, work: task.work.name(), what, rule });
            let (operands, vectors, results) = task.work.shape(task.operands.len(), task.vectors.len());
            let has = (task.operands.len(), task.vectors.len(), task.results as usize);
            if has != (operands, vectors, results) {
                let what = format!("{} operands, {} vectors, {} results", has.0, has.1, has.2);
                return refused(what, "each work has its own numbers of them");
            }
            if let Some(value) = task.operands.iter().find(|value| **value >= made) {
                return refused(format!("value {value} of {made} so far"), "a value is made before it is used");
            }
            if task.work.is_keyed() != task.key.is_some() {
                return refused("a key".to_owned(), "key switches have one, and nothing else has");
            }
            if task.first_result != made || value_bytes.len() < made as usize + results {
                let what = format!("first result {}, {} sizes", task.first_result, value_bytes.len());
                return refused(what, "results are numbered in order, each with its bytes");
            }
            made += task.results;
        }
        Ok(Self { tasks, value_bytes })
    }

    /// The tasks.
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// Bytes of each value.
    pub fn value_bytes(&self) -> &[u64] {
        &self.value_bytes
    }

    /// The uses of each value as an operand.
    pub(crate) fn uses(&self) -> Vec<u32> {
        let mut uses = vec![0; self.value_bytes.len()];
        for value in self.tasks.iter().flat_map(|task| &task.operands) {
            uses[*value as usize] += 1;
        }
        uses
    }

    /// The most bytes of values at one time, if tasks run one after another.
    pub fn peak_value_bytes(&self) -> u64 {
        let mut uses = self.uses();
        let (mut live, mut peak) = (0, 0);
        for task in &self.tasks {
            let made = task.first_result as usize..(task.first_result + task.results) as usize;
            live += self.value_bytes[made.clone()].iter().sum::<u64>();
            peak = peak.max(live);
            for value in &task.operands {
                uses[*value as usize] -= 1;
                if uses[*value as usize] == 0 {
                    live -= self.value_bytes[*value as usize];
                }
            }
            live -= made.filter(|value| uses[*value] == 0).map(|value| self.value_bytes[value]).sum::<u64>();
        }
        peak
    }
}
