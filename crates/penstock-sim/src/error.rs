use thiserror::Error;

/// Why a run did not happen or cannot be trusted. Each message says what, where, and the rule.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum Error {
    /// One value of the input breaks a rule.
    #[error("{what} is {value}: {rule}")]
    Value {
        /// The name of the value, `access_bytes[17]`.
        what: String,
        value: String,
        rule: &'static str,
    },
    /// Two arrays that belong together have different lengths.
    #[error("{what} has {got} elements, {expected} expected: {rule}")]
    Length { what: &'static str, got: usize, expected: usize, rule: &'static str },
    /// No policy has this name.
    #[error("unknown policy '{name}'; known: {known}")]
    UnknownPolicy { name: String, known: String },
    /// The simulated time left the range of the clock.
    #[error("the simulated time passes 2^63 picoseconds (about 106 days) {at}; check units, or play less at once")]
    ClockOverflow { at: String },
    /// An account of the engine does not add up: a defect of penstock, not of the input.
    #[error("conservation broken, please report it: {what}: {left} is not {right}")]
    Conservation { what: &'static str, left: i128, right: i128 },
    /// The watch asked to stop.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    pub(crate) fn value(what: impl Into<String>, value: impl ToString, rule: &'static str) -> Self {
        Error::Value { what: what.into(), value: value.to_string(), rule }
    }
}

/// `Ok` if a value keeps `rule`.
pub(crate) fn rule(
    holds: bool,
    what: impl Into<String>,
    value: impl ToString,
    rule: &'static str,
) -> Result<(), Error> {
    if holds { Ok(()) } else { Err(Error::value(what, value, rule)) }
}

/// Whether a number is finite and not negative.
pub(crate) fn is_amount(value: f64) -> bool {
    value.is_finite() && value >= 0.0
}

/// `Ok` if an array has the length that `rule` asks for.
pub(crate) fn length(what: &'static str, got: usize, expected: usize, rule: &'static str) -> Result<(), Error> {
    if got == expected { Ok(()) } else { Err(Error::Length { what, got, expected, rule }) }
}

/// `Ok` if every element of an array keeps `rule`.
pub(crate) fn every<T: Copy + ToString>(
    what: &str,
    values: &[T],
    rule: &'static str,
    keeps: impl Fn(T) -> bool,
) -> Result<(), Error> {
    match values.iter().position(|&value| !keeps(value)) {
        Some(i) => Err(Error::value(format!("{what}[{i}]"), values[i], rule)),
        None => Ok(()),
    }
}

/// `Ok` if no element is negative, infinite or not a number.
pub(crate) fn not_negative(what: &str, values: &[f64]) -> Result<(), Error> {
    every(what, values, "it is finite and not negative", is_amount)
}

/// `Ok` if both sides of an account agree.
pub(crate) fn conserve(what: &'static str, left: i128, right: i128) -> Result<(), Error> {
    if left == right { Ok(()) } else { Err(Error::Conservation { what, left, right }) }
}
