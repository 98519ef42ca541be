//! The processor of this machine, with the kernels of `penstock-ckks`.

use penstock_ckks as ckks;
use penstock_operations::Operation;

use crate::device::Device;
use crate::program::{Form, Task};

/// A value in the memory of this process.
#[derive(Debug)]
pub enum Value {
    Cipher(ckks::Ciphertext),
    Digits(ckks::Digits),
    Extended(ckks::ExtendedCiphertext),
}

/// A value that somebody else owns.
#[derive(Debug, Clone, Copy)]
pub enum Operand<'a> {
    Cipher(&'a ckks::Ciphertext),
    Digits(&'a ckks::Digits),
    Extended(&'a ckks::ExtendedCiphertext),
}

/// A vector in the form that a task takes.
#[derive(Debug)]
pub enum Encoded {
    Plaintext(ckks::Plaintext),
    Coefficients(ckks::Coefficients),
}

/// The processor.
#[derive(Debug, Clone, Copy)]
pub struct Cpu<'a>(pub &'a ckks::Context);

impl Value {
    fn operand(&self) -> Operand<'_> {
        match self {
            Self::Cipher(value) => Operand::Cipher(value),
            Self::Digits(value) => Operand::Digits(value),
            Self::Extended(value) => Operand::Extended(value),
        }
    }

    fn cipher(&self, operation: Operation) -> Result<&ckks::Ciphertext, ckks::Error> {
        if let Self::Cipher(found) = self { Ok(found) } else { Err(other(operation)) }
    }
}

fn other(operation: Operation) -> ckks::Error {
    let what = "an operand of another kind".to_owned();
    ckks::Error::Operand { operation: operation.name(), what, rule: "pass what the operation takes" }
}

impl Device for Cpu<'_> {
    type Value = Value;
    type Vector = Encoded;

    fn host(&self) -> &ckks::Context {
        self.0
    }

    fn import(&self, _: &Task, ciphertext: ckks::Ciphertext) -> Result<Value, ckks::Error> {
        Ok(Value::Cipher(ciphertext))
    }

    fn export(&self, _: &Task, value: &Value) -> Result<ckks::Ciphertext, ckks::Error> {
        value.cipher(Operation::Output)?.duplicate()
    }

    fn encode(&self, form: Form, coefficients: Vec<ckks::Coefficients>) -> Result<Vec<Encoded>, ckks::Error> {
        if form == Form::Coefficients {
            return Ok(coefficients.into_iter().map(Encoded::Coefficients).collect());
        }
        let made = self.0.plaintexts_of(&coefficients.iter().collect::<Vec<_>>())?;
        Ok(made.into_iter().map(Encoded::Plaintext).collect())
    }

    fn vector_bytes(&self, vector: &Encoded) -> u64 {
        match vector {
            Encoded::Plaintext(plain) => 8 * plain.words().len() as u64,
            Encoded::Coefficients(coefficients) => coefficients.bytes() as u64,
        }
    }

    fn perform(
        &self,
        task: &Task,
        operands: &[&Value],
        key: Option<&dyn ckks::KeyView>,
        vectors: &[&Encoded],
    ) -> Result<Vec<Value>, ckks::Error> {
        let operands: Vec<_> = operands.iter().map(|value| value.operand()).collect();
        self.perform_on(task, &operands, key, vectors)
    }

    fn scale(&self, value: &Value) -> Result<f64, ckks::Error> {
        Ok(value.cipher(Operation::MultOverScale)?.scale())
    }

    fn bytes(&self, value: &Value) -> u64 {
        8 * match value {
            Value::Cipher(value) => (0..value.polynomials()).map(|each| value.words(each).len()).sum::<usize>(),
            Value::Digits(value) => value.words().len(),
            Value::Extended(value) => value.words(0).len() + value.words(1).len(),
        } as u64
    }

    fn free(&self, _: Value) {}
}

/// The task, and all that it takes.
struct Given<'a> {
    task: &'a Task,
    operands: &'a [Operand<'a>],
    key: Option<&'a dyn ckks::KeyView>,
    vectors: &'a [&'a Encoded],
}

impl<'a> Given<'a> {
    fn other(&self) -> ckks::Error {
        other(self.task.operation)
    }

    fn cipher(&self, at: usize) -> Result<&'a ckks::Ciphertext, ckks::Error> {
        if let Some(Operand::Cipher(found)) = self.operands.get(at) { Ok(found) } else { Err(self.other()) }
    }

    fn digits(&self, at: usize) -> Result<&'a ckks::Digits, ckks::Error> {
        if let Some(Operand::Digits(found)) = self.operands.get(at) { Ok(found) } else { Err(self.other()) }
    }

    fn extended(&self, at: usize) -> Result<&'a ckks::ExtendedCiphertext, ckks::Error> {
        if let Some(Operand::Extended(found)) = self.operands.get(at) { Ok(found) } else { Err(self.other()) }
    }

    fn ciphers(&self) -> Result<Vec<&'a ckks::Ciphertext>, ckks::Error> {
        (0..self.operands.len()).map(|at| self.cipher(at)).collect()
    }

    fn plain(&self, at: usize) -> Result<&'a ckks::Plaintext, ckks::Error> {
        if let Some(Encoded::Plaintext(found)) = self.vectors.get(at) { Ok(found) } else { Err(self.other()) }
    }

    fn coefficients(&self, at: usize) -> Result<&'a ckks::Coefficients, ckks::Error> {
        if let Some(Encoded::Coefficients(found)) = self.vectors.get(at) { Ok(found) } else { Err(self.other()) }
    }

    fn key(&self) -> Result<&'a dyn ckks::KeyView, ckks::Error> {
        self.key.ok_or_else(|| self.other())
    }

    fn number(&self) -> Result<f64, ckks::Error> {
        self.task.numbers.first().copied().ok_or_else(|| self.other())
    }

    fn whole(&self) -> usize {
        self.task.argument as usize
    }
}

impl Cpu<'_> {
    /// The results of a task, of operands that others own.
    ///
    /// # Errors
    /// The operation takes other operands.
    pub fn perform_on(
        &self,
        task: &Task,
        operands: &[Operand<'_>],
        key: Option<&dyn ckks::KeyView>,
        vectors: &[&Encoded],
    ) -> Result<Vec<Value>, ckks::Error> {
        use Operation as Op;
        let has = [operands.len(), vectors.len(), task.numbers.len()];
        if has[..] != task.shape(has[0], has[1])[..3] {
            let what = format!("{} operands, {} vectors, {} numbers", has[0], has[1], has[2]);
            let rule = "each work has its own numbers of them";
            return Err(ckks::Error::Operand { operation: task.operation.name(), what, rule });
        }
        let (context, given) = (self.0, Given { task, operands, key, vectors });
        let automorphism = || context.automorphism(given.task.argument);
        let made = match task.operation {
            Op::Add => context.add(given.cipher(0)?, given.cipher(1)?),
            Op::Sub => context.sub(given.cipher(0)?, given.cipher(1)?),
            Op::Mult => context.mult(given.cipher(0)?, given.cipher(1)?, given.key()?),
            Op::MultNoRelin => context.mult_no_relin(given.cipher(0)?, given.cipher(1)?),
            Op::Square => context.square(given.cipher(0)?, given.key()?),
            Op::Relinearize => context.relinearize(given.cipher(0)?, given.key()?),
            Op::Negate => context.negate(given.cipher(0)?),
            Op::AddPlain => context.add_plain(given.cipher(0)?, given.plain(0)?),
            Op::SubPlain => context.sub_plain(given.cipher(0)?, given.plain(0)?),
            Op::MultPlain => context.mult_plain(given.cipher(0)?, given.plain(0)?),
            Op::PlainSum => {
                let plains = (0..vectors.len()).map(|at| given.plain(at)).collect::<Result<Vec<_>, _>>()?;
                context.weighted_sum_plain(&given.ciphers()?, &plains)
            }
            Op::AddScalar => context.add_scalar(given.cipher(0)?, given.number()?),
            Op::SubScalar => context.sub_scalar(given.cipher(0)?, given.number()?),
            Op::ScalarSub => context.add_scalar(&context.negate(given.cipher(0)?)?, given.number()?),
            Op::MultScalar => context.mult_scalar(given.cipher(0)?, given.number()?),
            Op::NumberSum => context.weighted_sum_scalar(&given.ciphers()?, &task.numbers),
            Op::Rotate => context.rotate(given.cipher(0)?, &*automorphism()?, given.key()?),
            Op::RotateHoisted => {
                context.rotate_hoisted(given.cipher(0)?, given.digits(1)?, &*automorphism()?, given.key()?)
            }
            Op::ToSparse => context.to_sparse(given.cipher(0)?, given.key()?),
            Op::ToDense => context.to_dense(given.cipher(0)?, given.key()?),
            Op::Rescale => context.rescale(given.cipher(0)?),
            Op::RescaleNow => context.rescale_now(given.cipher(0)?),
            Op::RescaleForProduct => context.rescale_for_product(given.cipher(0)?),
            Op::ModDrop => context.mod_drop(given.cipher(0)?, given.whole()),
            Op::RescaleAndDrop => context.rescale_and_drop(given.cipher(0)?, given.whole()),
            Op::ModRaise => context.mod_raise(&context.mod_drop(given.cipher(0)?, 1)?, given.whole()),
            Op::ModRaiseToScale => {
                let mut raised = context.mod_raise(&context.mod_drop(given.cipher(0)?, 1)?, given.whole())?;
                raised.set_scale(context.scale_at(given.whole())?);
                Ok(raised)
            }
            Op::Align => context.align(given.cipher(0)?, given.cipher(1)?),
            Op::Monomial => context.mult_monomial(given.cipher(0)?, given.whole()),
            Op::Whole => context.mult_integer(given.cipher(0)?, given.task.argument),
            Op::ModDown => context.mod_down(given.extended(0)?),
            _ => return self.beyond(&given),
        };
        Ok(vec![Value::Cipher(made?)])
    }

    /// Work with digits, or with results over Q and P.
    fn beyond(&self, given: &Given<'_>) -> Result<Vec<Value>, ckks::Error> {
        use Operation as Op;
        let context = self.0;
        let automorphism = || context.automorphism(given.task.argument);
        let made = match given.task.operation {
            Op::Decompose => Value::Digits(context.decompose(given.cipher(0)?)?),
            Op::DecomposeExtended => Value::Digits(context.decompose_extended(given.extended(0)?)?),
            Op::Extend => Value::Extended(context.extend(given.cipher(0)?)?),
            Op::AddExtended => Value::Extended(context.add_extended(given.extended(0)?, given.extended(1)?)?),
            Op::RotateHoistedExtended => Value::Extended(context.rotate_hoisted_extended(
                given.cipher(0)?,
                given.digits(1)?,
                &*automorphism()?,
                given.key()?,
            )?),
            Op::RotateExtended => Value::Extended(context.rotate_extended(
                given.extended(0)?,
                given.digits(1)?,
                &*automorphism()?,
                given.key()?,
            )?),
            Op::WeightedSums => return self.weighted(given, false),
            Op::WeightedSumsPlus => return self.weighted(given, true),
            _ => return Err(given.other()),
        };
        Ok(vec![made])
    }

    /// Sums over Q and P: operands are the terms of each sum, and one more that is added.
    fn weighted(&self, given: &Given<'_>, plus: bool) -> Result<Vec<Value>, ckks::Error> {
        let plains = (0..given.vectors.len()).map(|at| given.coefficients(at)).collect::<Result<Vec<_>, _>>()?;
        let operands = (0..given.operands.len()).map(|at| given.extended(at)).collect::<Result<Vec<_>, _>>()?;
        let terms: Vec<_> = operands
            .chunks(plains.len() + usize::from(plus))
            .take(given.whole())
            .map(|own| ckks::WeightedTerms {
                terms: &own[..plains.len()],
                plus: if plus { own.last().copied() } else { None },
            })
            .collect();
        Ok(self.0.weighted_sums_extended(&terms, &plains)?.into_iter().map(Value::Extended).collect())
    }
}
