//! The rules of the tables. Those of values are in `rules_values`.

use std::collections::HashSet;

use penstock_operations::Argument;

use crate::error::Fault;
use crate::forms::Form;
use crate::limits;
use crate::names::{check_description, check_name};
use crate::rules_values;
use crate::tables::{Instruction, Kind, Tables};

type Result<T> = std::result::Result<T, Fault>;

fn refused<T>(place: impl Into<String>, what: impl Into<String>, rule: &'static str) -> Result<T> {
    Err(Fault::new(place, what, rule))
}

/// Refuses tables that break a rule. The constants lie from `begin` to `end` in the file.
///
/// # Errors
/// The first broken rule, with its place.
pub fn check(tables: &Tables, begin: u64, end: u64) -> Result<()> {
    check_ring(tables)?;
    check_texts(tables)?;
    check_scopes(tables)?;
    check_series(tables)?;
    check_ports(tables)?;
    check_constants(tables, begin, end)?;
    check_columns(tables)?;
    for each in tables.instructions.iter() {
        check_instruction(tables, &each)?;
    }
    rules_values::check(tables)
}

fn check_ring(tables: &Tables) -> Result<()> {
    let (ring_dim, slots, limbs) = (tables.ring_dim, tables.slots, tables.num_q);
    if !ring_dim.is_power_of_two() || !(4..=limits::MAX_RING_DIM).contains(&ring_dim) {
        return refused("the ring", format!("N = {ring_dim}"), "N is a power of two, from 4 to 2^18");
    }
    if slots == 0 || slots > ring_dim / 2 {
        return refused("the ring", format!("{slots} slots at N = {ring_dim}"), "slots are 1 to N/2");
    }
    if limbs == 0 || limbs > limits::MAX_LIMBS {
        return refused("the ring", format!("{limbs} limbs of Q"), "the chain has 1 to 1024");
    }
    Ok(())
}

fn check_texts(tables: &Tables) -> Result<()> {
    if tables.name.is_empty() {
        return refused("the name", "it is empty", "a package has a name");
    }
    check_name("the name", &tables.name)?;
    check_description("the description", &tables.description)?;
    for (what, text) in [("the parameter set", &tables.params), ("the provenance", &tables.provenance)] {
        if text.len() > limits::MAX_JSON as usize {
            return refused(what, format!("{} bytes", text.len()), "JSON texts have at most 2^20 bytes");
        }
    }
    Ok(())
}

fn check_scopes(tables: &Tables) -> Result<()> {
    match tables.scopes.first() {
        Some(first) if first.name.is_empty() && first.parent == 0 => {}
        _ => return refused("scope 0", "not the program", "scope 0 has no name and is its own parent"),
    }
    for (at, scope) in tables.scopes.iter().enumerate().skip(1) {
        let place = format!("scope {at}");
        check_name(&place, &scope.name)?;
        if scope.parent as usize >= at {
            return refused(place, format!("its parent is {}", scope.parent), "parents are earlier scopes");
        }
    }
    Ok(())
}

fn check_series(tables: &Tables) -> Result<()> {
    for (at, series) in tables.series.iter().enumerate() {
        let (place, length) = (format!("series {at}"), series.coefficients.len());
        if length == 0 || length > limits::MAX_SERIES_COEFFICIENTS as usize {
            return refused(place, format!("{length} coefficients"), "a series has 1 to 2^16");
        }
        if !series.coefficients.iter().all(|each| each.is_finite()) {
            return refused(place, "a coefficient that is not finite", "numbers are finite");
        }
        if !(series.lower.is_finite() && series.upper.is_finite() && series.lower < series.upper) {
            let what = format!("the interval from {} to {}", series.lower, series.upper);
            return refused(place, what, "intervals are finite and not empty");
        }
    }
    Ok(())
}

/// Inputs, outputs and keys.
fn check_ports(tables: &Tables) -> Result<()> {
    let lengths = |place: &str, length: u32| {
        if (1..=tables.ring_dim / 2).contains(&length) {
            return Ok(());
        }
        refused(place, format!("{length} values at N = {}", tables.ring_dim), "vectors have 1 to N/2 values")
    };
    let mut names = Names::default();
    for (at, input) in tables.inputs.iter().enumerate() {
        let place = format!("input {at}");
        names.add(&place, &input.name)?;
        lengths(&place, input.length)?;
        if u32::from(input.limbs) > tables.num_q {
            let what = format!("{} limbs of {}", input.limbs, tables.num_q);
            return refused(place, what, "inputs have at most the limbs of the chain");
        }
    }
    let mut names = Names::default();
    for (at, output) in tables.outputs.iter().enumerate() {
        let place = format!("output {at}");
        names.add(&place, &output.name)?;
        lengths(&place, output.length)?;
    }
    let mut names = Names::default();
    for (at, key) in tables.keys.iter().enumerate() {
        let place = format!("key {at}");
        names.add(&place, &key.name)?;
        if key.limbs == 0 || u32::from(key.limbs) > tables.num_q {
            let what = format!("{} limbs of {}", key.limbs, tables.num_q);
            return refused(place, what, "keys are used at 1 limb up to those of the chain");
        }
    }
    Ok(())
}

#[derive(Default)]
struct Names<'a> {
    known: HashSet<&'a str>,
}

impl<'a> Names<'a> {
    fn add(&mut self, place: &str, name: &'a str) -> Result<()> {
        check_name(place, name)?;
        if name.is_empty() {
            return refused(place, "no name", "inputs, outputs and keys have names");
        }
        if !self.known.insert(name) {
            return refused(place, format!("another one is named '{name}'"), "names are unique");
        }
        Ok(())
    }
}

fn check_constants(tables: &Tables, begin: u64, end: u64) -> Result<()> {
    let mut next = begin;
    for (at, entry) in tables.constants.iter().enumerate() {
        let place = || format!("constant {at}");
        let most = if entry.kind == Kind::Coefficients { tables.ring_dim } else { tables.ring_dim / 2 };
        if entry.values > most {
            let what = format!("{} values at N = {}", entry.values, tables.ring_dim);
            return refused(place(), what, "constants have at most N/2 values, or N coefficients");
        }
        if (entry.form == Form::Coefficients) != (entry.kind == Kind::Coefficients) {
            return refused(place(), "a form of another kind", "coefficients have a form of their own");
        }
        if entry.offset != next || entry.bytes == 0 || entry.bytes > limits::MAX_BLOB {
            let what = format!("{} bytes at offset {}", entry.bytes, entry.offset);
            return refused(place(), what, "constants follow each other without gaps");
        }
        next += u64::from(entry.bytes);
    }
    if next != end {
        let what = format!("they end at offset {next}, the tables begin at {end}");
        return refused("the constants", what, "constants follow each other up to the tables");
    }
    Ok(())
}

fn check_columns(tables: &Tables) -> Result<()> {
    let calls = &tables.instructions;
    let rule = "the columns have what the verbs take";
    let lengths = [calls.arguments.len(), calls.limbs.len(), calls.degrees.len(), calls.scopes.len()];
    if lengths != [calls.len(); 4] {
        return refused("the instructions", format!("columns of {lengths:?} for {}", calls.len()), rule);
    }
    if let Some((at, other)) = calls.verbs.iter().enumerate().find(|(_, verb)| verb.row().code.is_none()) {
        return refused(format!("instruction {at}"), other.name(), "packages have no such call");
    }
    let Some([operands, uses, numbers, _]) = calls.totals() else {
        return refused("the instructions", format!("{} numbers of operands", calls.many.len()), rule);
    };
    for (what, wanted, found) in [
        ("operands", operands, calls.operands.len()),
        ("constants", uses, calls.constants.len()),
        ("numbers", numbers, calls.numbers.len()),
    ] {
        if wanted != found as u64 {
            return refused("the instructions", format!("{found} {what}, and they take {wanted}"), rule);
        }
    }
    Ok(())
}

fn check_instruction(tables: &Tables, each: &Instruction<'_>) -> Result<()> {
    if each.verb.row().takes_many && each.operands.is_empty() {
        return refused(each.place(), "no operands", "it takes at least one");
    }
    if let Some(number) = each.constants.iter().find(|number| **number as usize >= tables.constants.len()) {
        let what = format!("constant {number} of {}", tables.constants.len());
        return refused(each.place(), what, "constants are those of the package");
    }
    if each.number.is_some_and(|parts| !parts.iter().all(|part| part.is_finite())) {
        return refused(each.place(), "a number that is not finite", "numbers are finite");
    }
    if each.scope as usize >= tables.scopes.len() {
        let what = format!("scope {} of {}", each.scope, tables.scopes.len());
        return refused(each.place(), what, "scopes are those of the package");
    }
    if let Some((limbs, degree)) = each.state
        && !((1..=tables.num_q).contains(&u32::from(limbs)) && (1..=2).contains(&degree))
    {
        let what = format!("a state of {limbs} limbs and degree {degree}");
        return refused(each.place(), what, "limbs are 1 to those of the chain, degrees 1 or 2");
    }
    check_argument(tables, each)
}

fn check_argument(tables: &Tables, each: &Instruction<'_>) -> Result<()> {
    let argument = i64::from(each.argument);
    let wrong = |what: String, rule| refused(each.place(), what, rule);
    let among = |what: &str, count: usize| {
        if (0..count as i64).contains(&argument) {
            return Ok(());
        }
        wrong(format!("{what} {argument} of {count}"), "it is one of the package's")
    };
    match each.verb.row().argument {
        Argument::None if argument != 0 => wrong(format!("the argument {argument}"), "it takes no argument"),
        Argument::Input => among("input", tables.inputs.len()),
        Argument::Output => among("output", tables.outputs.len()),
        Argument::Series => among("series", tables.series.len()),
        Argument::Step if argument.unsigned_abs() > u64::from(tables.ring_dim) => {
            wrong(format!("a step of {argument} at N = {}", tables.ring_dim), "steps are -N to N")
        }
        Argument::Limbs if !(1..=i64::from(tables.num_q)).contains(&argument) => {
            wrong(format!("{argument} limbs of {}", tables.num_q), "limbs are 1 to those of the chain")
        }
        Argument::Slots if argument != 0 && !is_period(argument, tables.ring_dim) => {
            wrong(format!("a period of {argument}"), "periods are powers of two up to N/2, or 0")
        }
        _ => Ok(()),
    }
}

fn is_period(argument: i64, ring_dim: u32) -> bool {
    (1..=i64::from(ring_dim / 2)).contains(&argument) && argument.count_ones() == 1
}
