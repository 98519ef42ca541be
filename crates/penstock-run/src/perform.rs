//! One task on real operands.

use penstock_ckks as ckks;

use crate::encoded::Encoded;
use crate::program::{Task, Work};

/// What a task makes.
#[derive(Debug)]
pub enum Value {
    Cipher(ckks::Ciphertext),
    Digits(ckks::Digits),
    Extended(ckks::ExtendedCiphertext),
}

fn other(work: &Work) -> ckks::Error {
    let what = "an operand of another kind".to_owned();
    ckks::Error::Operand { operation: work.name(), what, rule: "pass what the operation takes" }
}

/// Operands by kind; the wrong kind is an error of the program.
struct Operands<'a>(&'a Work, &'a [&'a Value]);

impl<'a> Operands<'a> {
    fn cipher(&self, at: usize) -> Result<&'a ckks::Ciphertext, ckks::Error> {
        if let Some(Value::Cipher(found)) = self.1.get(at) { Ok(found) } else { Err(other(self.0)) }
    }

    fn digits(&self, at: usize) -> Result<&'a ckks::Digits, ckks::Error> {
        if let Some(Value::Digits(found)) = self.1.get(at) { Ok(found) } else { Err(other(self.0)) }
    }

    fn extended(&self, at: usize) -> Result<&'a ckks::ExtendedCiphertext, ckks::Error> {
        if let Some(Value::Extended(found)) = self.1.get(at) { Ok(found) } else { Err(other(self.0)) }
    }

    fn ciphers(&self) -> Result<Vec<&'a ckks::Ciphertext>, ckks::Error> {
        (0..self.1.len()).map(|at| self.cipher(at)).collect()
    }
}

/// The results of a task; not of inputs and outputs, which have none of an evaluator.
pub fn perform(
    context: &ckks::Context,
    task: &Task,
    operands: &[&Value],
    key: Option<&dyn ckks::KeyView>,
    vectors: &[&Encoded],
) -> Result<Vec<Value>, ckks::Error> {
    let work = &task.work;
    let given = Operands(work, operands);
    let cipher = |made: Result<ckks::Ciphertext, ckks::Error>| Ok(vec![Value::Cipher(made?)]);
    if let Some(key) = key {
        return keyed(context, &given, key);
    }
    let plain = |at: usize| vectors.get(at).and_then(|each| each.plaintext()).ok_or_else(|| other(work));
    match work {
        Work::Add => cipher(context.add(given.cipher(0)?, given.cipher(1)?)),
        Work::Sub => cipher(context.sub(given.cipher(0)?, given.cipher(1)?)),
        Work::MultNoRelin => cipher(context.mult_no_relin(given.cipher(0)?, given.cipher(1)?)),
        Work::Negate => cipher(context.negate(given.cipher(0)?)),
        Work::AddPlain => cipher(context.add_plain(given.cipher(0)?, plain(0)?)),
        Work::SubPlain => cipher(context.sub_plain(given.cipher(0)?, plain(0)?)),
        Work::MultPlain => cipher(context.mult_plain(given.cipher(0)?, plain(0)?)),
        Work::PlainSum => {
            let plains = (0..vectors.len()).map(plain).collect::<Result<Vec<_>, _>>()?;
            cipher(context.weighted_sum_plain(&given.ciphers()?, &plains))
        }
        Work::AddScalar(number) => cipher(context.add_scalar(given.cipher(0)?, *number)),
        Work::SubScalar(number) => cipher(context.sub_scalar(given.cipher(0)?, *number)),
        Work::ScalarSub(number) => cipher(context.add_scalar(&context.negate(given.cipher(0)?)?, *number)),
        Work::MultScalar(number) => cipher(context.mult_scalar(given.cipher(0)?, *number)),
        Work::MultOverScale([numerator, level_scale, small]) => {
            let operand = given.cipher(0)?;
            cipher(context.mult_scalar(operand, numerator / (operand.scale() * level_scale) / small))
        }
        Work::NumberSum(weights) => cipher(context.weighted_sum_scalar(&given.ciphers()?, weights)),
        Work::Rescale => cipher(context.rescale(given.cipher(0)?)),
        Work::RescaleNow => cipher(context.rescale_now(given.cipher(0)?)),
        Work::RescaleForProduct => cipher(context.rescale_for_product(given.cipher(0)?)),
        Work::ModDrop(limbs) => cipher(context.mod_drop(given.cipher(0)?, *limbs)),
        Work::RescaleAndDrop(limbs) => cipher(context.rescale_and_drop(given.cipher(0)?, *limbs)),
        Work::ModRaise(limbs, at_scale) => {
            let mut raised = context.mod_raise(&context.mod_drop(given.cipher(0)?, 1)?, *limbs)?;
            if *at_scale {
                raised.set_scale(context.scale_at(*limbs)?);
            }
            cipher(Ok(raised))
        }
        Work::Align => cipher(context.align(given.cipher(0)?, given.cipher(1)?)),
        Work::Monomial(power) => cipher(context.mult_monomial(given.cipher(0)?, *power)),
        Work::Whole(factor) => cipher(context.mult_integer(given.cipher(0)?, *factor)),
        Work::Decompose => Ok(vec![Value::Digits(context.decompose(given.cipher(0)?)?)]),
        Work::DecomposeExtended => Ok(vec![Value::Digits(context.decompose_extended(given.extended(0)?)?)]),
        Work::Extend => Ok(vec![Value::Extended(context.extend(given.cipher(0)?)?)]),
        Work::AddExtended => Ok(vec![Value::Extended(context.add_extended(given.extended(0)?, given.extended(1)?)?)]),
        Work::ModDown => cipher(context.mod_down(given.extended(0)?)),
        Work::WeightedSums(sums, plus) => weighted(context, &given, *sums, *plus, vectors),
        _ => Err(other(work)),
    }
}

/// Work that reads a key.
fn keyed(context: &ckks::Context, given: &Operands<'_>, key: &dyn ckks::KeyView) -> Result<Vec<Value>, ckks::Error> {
    let cipher = |made: Result<ckks::Ciphertext, ckks::Error>| Ok(vec![Value::Cipher(made?)]);
    let extended = |made: Result<ckks::ExtendedCiphertext, ckks::Error>| Ok(vec![Value::Extended(made?)]);
    match given.0 {
        Work::Mult => cipher(context.mult(given.cipher(0)?, given.cipher(1)?, key)),
        Work::Square => cipher(context.square(given.cipher(0)?, key)),
        Work::Relinearize => cipher(context.relinearize(given.cipher(0)?, key)),
        Work::Rotate(element) => cipher(context.rotate(given.cipher(0)?, &*context.automorphism(*element)?, key)),
        Work::RotateHoisted(element) => {
            cipher(context.rotate_hoisted(given.cipher(0)?, given.digits(1)?, &*context.automorphism(*element)?, key))
        }
        Work::RotateHoistedExtended(element) => extended(context.rotate_hoisted_extended(
            given.cipher(0)?,
            given.digits(1)?,
            &*context.automorphism(*element)?,
            key,
        )),
        Work::RotateExtended(element) => extended(context.rotate_extended(
            given.extended(0)?,
            given.digits(1)?,
            &*context.automorphism(*element)?,
            key,
        )),
        Work::ToSparse => cipher(context.to_sparse(given.cipher(0)?, key)),
        Work::ToDense => cipher(context.to_dense(given.cipher(0)?, key)),
        work => Err(other(work)),
    }
}

/// Sums over Q and P: operands are the terms of each sum, and one more that is added.
fn weighted(
    context: &ckks::Context,
    given: &Operands<'_>,
    sums: usize,
    plus: bool,
    vectors: &[&Encoded],
) -> Result<Vec<Value>, ckks::Error> {
    let plains =
        vectors.iter().map(|each| each.coefficients().ok_or_else(|| other(given.0))).collect::<Result<Vec<_>, _>>()?;
    let each = plains.len() + usize::from(plus);
    let operands = (0..given.1.len()).map(|at| given.extended(at)).collect::<Result<Vec<_>, _>>()?;
    let terms: Vec<_> = operands
        .chunks(each)
        .take(sums)
        .map(|own| ckks::WeightedTerms {
            terms: &own[..plains.len()],
            plus: if plus { own.last().copied() } else { None },
        })
        .collect();
    Ok(context.weighted_sums_extended(&terms, &plains)?.into_iter().map(Value::Extended).collect())
}
