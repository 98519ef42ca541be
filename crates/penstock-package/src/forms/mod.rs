//! The stored forms of real vectors: each gives back the same bits. A form may hold a shorter vector in another form.

mod integers;
mod read;
mod write;

pub use integers::{MAX_EXPONENT, MIN_EXPONENT, power_of_two};
pub use read::read;
pub use write::write;

/// The way in which a vector is stored. The number is the code in files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Form {
    /// Eight bytes each.
    Float64 = 0,
    /// Four bytes each.
    Float32 = 1,
    /// Integers of a few bits, times a power of two.
    Integers = 2,
    /// A shorter vector, repeated; of one value for a constant one.
    Period = 3,
    /// Places and values of the elements other than 0.
    Sparse = 4,
    /// Lengths and values of runs.
    Runs = 5,
    /// The different values, and for each place which.
    Dictionary = 6,
    /// Not a vector: integers, the coefficients of a polynomial.
    Coefficients = 7,
}

impl Form {
    pub const ALL: &[Form] = &[
        Form::Float64,
        Form::Float32,
        Form::Integers,
        Form::Period,
        Form::Sparse,
        Form::Runs,
        Form::Dictionary,
        Form::Coefficients,
    ];

    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    pub fn code(self) -> u8 {
        self as u8
    }

    pub fn name(self) -> &'static str {
        match self {
            Form::Float64 => "float64",
            Form::Float32 => "float32",
            Form::Integers => "integers",
            Form::Period => "period",
            Form::Sparse => "sparse",
            Form::Runs => "runs",
            Form::Dictionary => "dictionary",
            Form::Coefficients => "coefficients",
        }
    }
}
