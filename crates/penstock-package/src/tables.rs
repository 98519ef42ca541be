//! The tables of a package: everything but the bytes of its constants.

use penstock_operations::{MANY, Operation};

use crate::forms::Form;

/// The calls of a program as columns; one element for each instruction, but where it says otherwise.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Instructions {
    pub verbs: Vec<Operation>,
    pub arguments: Vec<i32>,
    /// Limbs of the (first) result where the program was recorded; 0: not stated.
    pub limbs: Vec<u16>,
    /// Its degree, 1 or 2; 0: not stated.
    pub degrees: Vec<u8>,
    pub scopes: Vec<u32>,
    /// Numbers of operands, for each instruction whose verb takes many.
    pub many: Vec<u32>,
    /// Numbers of values, of all instructions in order.
    pub operands: Vec<u32>,
    /// Numbers of constants, of all instructions in order.
    pub constants: Vec<u32>,
    /// Real and imaginary part, for each instruction whose verb takes a number.
    pub numbers: Vec<[f64; 2]>,
}

/// One call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Instruction<'a> {
    /// Its place in the program.
    pub at: usize,
    pub verb: Operation,
    pub operands: &'a [u32],
    pub constants: &'a [u32],
    /// The number of its first result.
    pub first: u32,
    /// How many results it makes.
    pub results: u32,
    pub number: Option<[f64; 2]>,
    pub argument: i32,
    /// Limbs and degree of the (first) result; `None`: not stated.
    pub state: Option<(u16, u8)>,
    pub scope: u32,
}

impl Instruction<'_> {
    /// For messages.
    pub(crate) fn place(&self) -> String {
        format!("instruction {} ({})", self.at, self.verb.name())
    }
}

impl Instructions {
    pub fn len(&self) -> usize {
        self.verbs.len()
    }

    pub fn is_empty(&self) -> bool {
        self.verbs.is_empty()
    }

    /// Operands, constants and numbers that the verbs take, and the values that they make; `None`: a number of operands
    /// is missing.
    pub(crate) fn totals(&self) -> Option<[u64; 4]> {
        let (mut totals, mut many) = ([0; 4], self.many.iter());
        for verb in &self.verbs {
            let row = verb.row();
            let stated = if row.takes_many { u64::from(*many.next()?) } else { 0 };
            let of = |count: u32| if count == MANY { stated } else { u64::from(count) };
            let here = [of(row.operands()), of(row.constants), u64::from(row.numbers), of(row.results)];
            for (total, each) in totals.iter_mut().zip(here) {
                *total += each;
            }
        }
        many.next().is_none().then_some(totals)
    }

    /// The calls, in order. Columns that a [`Reader`](crate::Reader) checked give all of them.
    pub fn iter(&self) -> impl Iterator<Item = Instruction<'_>> {
        let (mut many, mut numbers) = (self.many.iter(), self.numbers.iter());
        let (mut operands, mut constants) = (self.operands.as_slice(), self.constants.as_slice());
        let mut made: u32 = 0;
        (0..self.len()).map_while(move |at| {
            let verb = self.verbs[at];
            let row = verb.row();
            let stated = if row.takes_many { *many.next()? } else { 0 };
            let of = |count: u32| if count == MANY { stated } else { count };
            let (own, rest) = operands.split_at_checked(of(row.operands()) as usize)?;
            operands = rest;
            let (used, rest) = constants.split_at_checked(of(row.constants) as usize)?;
            constants = rest;
            let (first, results) = (made, of(row.results));
            made = made.saturating_add(results);
            Some(Instruction {
                at,
                verb,
                operands: own,
                constants: used,
                first,
                results,
                number: if row.numbers > 0 { Some(*numbers.next()?) } else { None },
                argument: *self.arguments.get(at)?,
                state: Some((*self.limbs.get(at)?, *self.degrees.get(at)?)).filter(|state| *state != (0, 0)),
                scope: *self.scopes.get(at)?,
            })
        })
    }
}

/// Coefficients, lowest first: of Chebyshev polynomials over an interval (c_0 counts half), or of powers.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    pub lower: f64,
    pub upper: f64,
    pub coefficients: Vec<f64>,
}

/// One opening of a scope. Scope 0 is the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    pub name: String,
    pub parent: u32,
}

/// A vector that the client encrypts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    pub name: String,
    pub length: u32,
    /// At which it is encrypted; 0: the full chain.
    pub limbs: u16,
    pub is_complex: bool,
}

/// A vector that the client decrypts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    pub name: String,
    pub length: u32,
}

/// An evaluation key, and the most limbs at which the program uses it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    pub name: String,
    pub limbs: u16,
}

/// The kinds of constants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    Real = 0,
    Complex = 1,
    /// Of a polynomial.
    Coefficients = 2,
}

impl Kind {
    pub fn from_code(code: u8) -> Option<Self> {
        [Kind::Real, Kind::Complex, Kind::Coefficients].get(usize::from(code)).copied()
    }

    pub fn code(self) -> u8 {
        self as u8
    }
}

/// The index entry of a constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    pub offset: u64,
    /// Stored bytes.
    pub bytes: u32,
    /// Values, or coefficients.
    pub values: u32,
    pub kind: Kind,
    /// The outermost form.
    pub form: Form,
    /// SHA-256 of the stored bytes.
    pub digest: [u8; 32],
}

/// Everything but the bytes of constants.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tables {
    /// N.
    pub ring_dim: u32,
    pub slots: u32,
    /// Limbs of Q.
    pub num_q: u32,
    pub name: String,
    pub description: String,
    pub instructions: Instructions,
    pub scopes: Vec<Scope>,
    pub series: Vec<Series>,
    pub inputs: Vec<Input>,
    pub outputs: Vec<Output>,
    pub keys: Vec<Key>,
    pub constants: Vec<Entry>,
    /// JSON: the parameter set.
    pub params: String,
    /// JSON: versions of what made the package.
    pub provenance: String,
}
