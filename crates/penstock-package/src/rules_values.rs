//! The rules of the values: each is made before it is used, inputs and outputs have one instruction each, digits go to
//! rotations of their ciphertext.

use penstock_operations::Operation;

use crate::error::Fault;
use crate::tables::{Instruction, Tables};

type Result<T> = std::result::Result<T, Fault>;

/// In the table of digits: the value is a ciphertext.
const CIPHERTEXT: u32 = u32::MAX;

/// Refuses programs whose values break a rule.
///
/// # Errors
/// The first broken rule, with its instruction.
pub fn check(tables: &Tables) -> Result<()> {
    let values = tables.instructions.totals().map_or(0, |totals| totals[3]);
    // The ciphertext that digits were made of, by value.
    let mut digits_of: Vec<u32> = Vec::with_capacity(values as usize);
    let mut inputs = Ports::new("input", "encrypt", tables.inputs.len());
    let mut outputs = Ports::new("output", "output", tables.outputs.len());
    for each in tables.instructions.iter() {
        if let Some(value) = each.operands.iter().find(|value| **value >= each.first) {
            let what = format!("value {value}, and {} were made before it", each.first);
            return Err(Fault::new(each.place(), what, "operands are results of earlier instructions"));
        }
        check_digits(&each, &digits_of)?;
        match each.verb {
            Operation::Encrypt => inputs.mark(&each)?,
            Operation::Output => outputs.mark(&each)?,
            _ => {}
        }
        let made = if each.verb == Operation::Decompose { each.operands[0] } else { CIPHERTEXT };
        digits_of.resize(digits_of.len() + each.results as usize, made);
    }
    inputs.end(tables.inputs.iter().map(|each| each.name.as_str()))?;
    outputs.end(tables.outputs.iter().map(|each| each.name.as_str()))
}

fn check_digits(each: &Instruction<'_>, digits_of: &[u32]) -> Result<()> {
    let is_digits = |value: &&u32| digits_of[**value as usize] != CIPHERTEXT;
    let ciphertexts = match (each.verb, each.operands) {
        (Operation::RotateHoisted, [ciphertext, digits]) => {
            let made_of = digits_of[*digits as usize];
            if made_of != *ciphertext {
                let what = match made_of {
                    CIPHERTEXT => format!("value {digits}, a ciphertext, stands for digits"),
                    other => format!("the digits of value {other} with value {ciphertext}"),
                };
                return Err(Fault::new(each.place(), what, "it takes a ciphertext and the digits of that ciphertext"));
            }
            &each.operands[..1]
        }
        _ => each.operands,
    };
    match ciphertexts.iter().find(is_digits) {
        Some(value) => {
            let what = format!("value {value}, the digits of value {}", digits_of[*value as usize]);
            Err(Fault::new(each.place(), what, "digits go to rotate_hoisted only"))
        }
        None => Ok(()),
    }
}

/// Inputs or outputs, each with one instruction.
struct Ports {
    what: &'static str,
    verb: &'static str,
    seen: Vec<bool>,
}

impl Ports {
    fn new(what: &'static str, verb: &'static str, count: usize) -> Self {
        Self { what, verb, seen: vec![false; count] }
    }

    fn mark(&mut self, each: &Instruction<'_>) -> Result<()> {
        let number = usize::try_from(each.argument).unwrap_or(usize::MAX);
        match self.seen.get_mut(number) {
            Some(seen) if !*seen => {
                *seen = true;
                Ok(())
            }
            _ => {
                let what = format!("{} {} again", self.what, each.argument);
                Err(Fault::new(each.place(), what, "inputs and outputs have one instruction each"))
            }
        }
    }

    fn end<'a>(&self, mut names: impl Iterator<Item = &'a str>) -> Result<()> {
        match self.seen.iter().position(|seen| !seen) {
            Some(number) => {
                let what = format!("no instruction has it ('{}')", names.nth(number).unwrap_or_default());
                let rule = match self.verb {
                    "encrypt" => "each input has one instruction 'encrypt'",
                    _ => "each output has one instruction 'output'",
                };
                Err(Fault::new(format!("{} {number}", self.what), what, rule))
            }
            None => Ok(()),
        }
    }
}
