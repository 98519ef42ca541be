//! A program: tasks in order, each with the values that it takes and makes.

use penstock_operations::{MANY, Operation};

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

/// One step of a program.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// Work by the table of operations; the method of [`penstock_ckks::Context`] says the operands.
    pub operation: Operation,
    /// Its whole number: limbs, a Galois element, a power of X, a factor, how many sums.
    pub argument: u64,
    pub numbers: Box<[f64]>,
    /// Values that earlier tasks make.
    pub operands: Box<[u32]>,
    /// Number of the first result; further ones follow.
    pub first_result: u32,
    pub results: u32,
    /// The key and the limbs of its use.
    pub key: Option<(u32, u16)>,
    pub vectors: Box<[Vector]>,
}

impl Task {
    /// `mult_over_scale` for an operand of this scale.
    pub fn at_scale(&self, scale: f64) -> Self {
        let [numerator, level_scale, small] = [0, 1, 2].map(|at| self.numbers.get(at).copied().unwrap_or(f64::NAN));
        let number = numerator / (scale * level_scale) / small;
        Self { operation: Operation::MultScalar, numbers: [number].into(), ..self.clone() }
    }

    /// Operands, vectors, numbers and results that it ought to have, where it is given so many operands and vectors.
    pub(crate) fn shape(&self, operands: usize, vectors: usize) -> [usize; 4] {
        let (row, vectors) = (self.operation.row(), vectors.max(1));
        let sums = usize::try_from(self.argument).unwrap_or(usize::MAX).max(1);
        match self.operation {
            Operation::WeightedSums => [sums.saturating_mul(vectors), vectors, 0, sums],
            Operation::WeightedSumsPlus => [sums.saturating_mul(vectors + 1), vectors, 0, sums],
            _ => [row.operands(), row.constants, row.numbers, row.results]
                .map(|count| if count == MANY { operands.max(1) } else { count as usize }),
        }
    }
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
            let refused = |what: String, rule| Err(Error::Task { task: at, work: task.operation.name(), what, rule });
            let row = task.operation.row();
            let has = [task.operands.len(), task.vectors.len(), task.numbers.len(), task.results as usize];
            if !row.is_work || has != task.shape(has[0], has[1]) {
                let what = format!("{} operands, {} vectors, {} numbers, {} results", has[0], has[1], has[2], has[3]);
                return refused(what, "each work has its own numbers of them");
            }
            if let Some(value) = task.operands.iter().find(|value| **value >= made) {
                return refused(format!("value {value} of {made} so far"), "a value is made before it is used");
            }
            if row.key.is_some() != task.key.is_some() {
                return refused("a key".to_owned(), "key switches have one, and nothing else has");
            }
            if task.first_result != made || value_bytes.len() < (made + task.results) as usize {
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
