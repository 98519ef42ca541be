//! The calls of a package and their shapes. A test holds them equal to `penstock.package.content`.

/// As many as an instruction states, at least one.
pub const MANY: u32 = u32::MAX;

/// The whole number of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Argument {
    None,
    /// The number of an input.
    Input,
    /// The number of an output.
    Output,
    /// A rotation to the left, in slots.
    Step,
    /// Limbs of the result.
    Limbs,
    /// The period of the values in slots; 0: all slots.
    Slots,
    /// The number of a series.
    Series,
}

impl Argument {
    /// The name in Python.
    pub fn name(self) -> &'static str {
        match self {
            Argument::None => "none",
            Argument::Input => "input",
            Argument::Output => "output",
            Argument::Step => "step",
            Argument::Limbs => "limbs",
            Argument::Slots => "slots",
            Argument::Series => "series",
        }
    }
}

/// The operands, results and constants of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    pub operands: u32,
    pub results: u32,
    pub constants: u32,
    pub number: bool,
    pub argument: Argument,
}

impl Shape {
    const fn takes(operands: u32) -> Self {
        Shape { operands, results: 1, constants: 0, number: false, argument: Argument::None }
    }

    const fn with(mut self, argument: Argument) -> Self {
        self.argument = argument;
        self
    }

    const fn with_number(mut self) -> Self {
        self.number = true;
        self
    }

    const fn with_constants(mut self, constants: u32) -> Self {
        self.constants = constants;
        self
    }

    const fn makes(mut self, results: u32) -> Self {
        self.results = results;
        self
    }
}

macro_rules! verbs {
    ($($verb:ident $code:literal $name:literal $shape:expr;)*) => {
        /// The calls of a package. The number is the code in files and never changes.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Verb { $($verb = $code,)* }

        impl Verb {
            /// All, by code.
            pub const ALL: &[Verb] = &[$(Verb::$verb,)*];

            /// The name in texts.
            pub fn name(self) -> &'static str {
                match self { $(Verb::$verb => $name,)* }
            }

            pub fn shape(self) -> Shape {
                match self { $(Verb::$verb => $shape,)* }
            }
        }
    };
}

verbs! {
    Encrypt 0 "encrypt" Shape::takes(0).with(Argument::Input);
    Output 1 "output" Shape::takes(1).makes(0).with(Argument::Output);
    Add 2 "add" Shape::takes(2);
    Sub 3 "sub" Shape::takes(2);
    Mult 4 "mult" Shape::takes(2);
    MultNoRelin 5 "mult_no_relin" Shape::takes(2);
    AddPlain 6 "add_plain" Shape::takes(1).with_constants(1);
    SubPlain 7 "sub_plain" Shape::takes(1).with_constants(1);
    MultPlain 8 "mult_plain" Shape::takes(1).with_constants(1);
    AddScalar 9 "add_scalar" Shape::takes(1).with_number();
    SubScalar 10 "sub_scalar" Shape::takes(1).with_number();
    ScalarSub 11 "scalar_sub" Shape::takes(1).with_number();
    MultScalar 12 "mult_scalar" Shape::takes(1).with_number();
    Negate 13 "negate" Shape::takes(1);
    Square 14 "square" Shape::takes(1);
    Relinearize 15 "relinearize" Shape::takes(1);
    Conjugate 16 "conjugate" Shape::takes(1);
    Rotate 17 "rotate" Shape::takes(1).with(Argument::Step);
    Decompose 18 "decompose" Shape::takes(1);
    RotateHoisted 19 "rotate_hoisted" Shape::takes(2).with(Argument::Step);
    Rescale 20 "rescale" Shape::takes(1);
    ModDrop 21 "mod_drop" Shape::takes(1).with(Argument::Limbs);
    Bootstrap 22 "bootstrap" Shape::takes(MANY).makes(MANY).with(Argument::Slots);
    Chebyshev 23 "chebyshev" Shape::takes(1).with(Argument::Series);
    Polynomial 24 "polynomial" Shape::takes(1).with(Argument::Series);
    MultByI 25 "mult_by_i" Shape::takes(1);
    Scaled 26 "scaled" Shape::takes(1).with_number();
    WeightedSum 27 "weighted_sum" Shape::takes(MANY).with_constants(MANY);
}

impl Verb {
    /// The verb of a code in a file.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    pub fn code(self) -> u8 {
        self as u8
    }

    /// Whether an instruction states how many operands it takes.
    pub fn takes_many(self) -> bool {
        self.shape().operands == MANY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_places_in_the_list() {
        for (code, verb) in Verb::ALL.iter().enumerate() {
            assert_eq!(usize::from(verb.code()), code);
            assert_eq!(Verb::from_code(verb.code()), Some(*verb));
        }
        assert_eq!(Verb::from_code(Verb::ALL.len() as u8), None);
    }

    #[test]
    fn many_results_or_constants_are_as_many_as_the_operands() {
        for verb in Verb::ALL {
            let shape = verb.shape();
            assert!(shape.operands == MANY || (shape.results != MANY && shape.constants != MANY));
        }
    }
}
