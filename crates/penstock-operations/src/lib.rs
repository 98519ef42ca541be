//! The instruction set: the one list of operations on ciphertexts, and of the evaluation keys that they read.
//!
//! An operation may be a kind of row in traces, a call in program packages (then it has a code), and work that a device
//! performs. Rules of limbs, noise, price and meaning lie in their rooms in Python, by operation.

use std::sync::LazyLock;

/// A kind of evaluation key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    Relin,
    Rot,
    Conj,
    ToSparse,
    ToDense,
    RotSmall,
    FromSmall,
    FromSmallSquared,
}

impl KeyKind {
    pub const ALL: [KeyKind; 8] = [
        KeyKind::Relin,
        KeyKind::Conj,
        KeyKind::ToSparse,
        KeyKind::ToDense,
        KeyKind::FromSmall,
        KeyKind::FromSmallSquared,
        KeyKind::Rot,
        KeyKind::RotSmall,
    ];

    /// The name of a key, or, of a kind with one key for each Galois element, the name before the colon.
    pub const fn name(self) -> &'static str {
        match self {
            KeyKind::Relin => "relin",
            KeyKind::Rot => "rot",
            KeyKind::Conj => "conj",
            KeyKind::ToSparse => "to-sparse",
            KeyKind::ToDense => "to-dense",
            KeyKind::RotSmall => "rot-small",
            KeyKind::FromSmall => "from-small",
            KeyKind::FromSmallSquared => "from-small-squared",
        }
    }

    /// Whether there is one for each Galois element.
    pub const fn is_of_element(self) -> bool {
        matches!(self, KeyKind::Rot | KeyKind::RotSmall)
    }

    /// Whether it leads to the ephemeral secret: one digit over q_0 and two auxiliary primes.
    pub const fn is_ephemeral(self) -> bool {
        matches!(self, KeyKind::ToSparse | KeyKind::FromSmall | KeyKind::FromSmallSquared)
    }
}

/// The class of an operand or a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    Ciphertext,
    /// Raised digits of a polynomial.
    Digits,
    /// A ciphertext over Q and P.
    Extended,
    /// A ciphertext of the smaller ring.
    Small,
    /// Small ciphertexts in storage.
    Stored,
}

impl Class {
    /// The name in traces.
    pub const fn name(self) -> &'static str {
        match self {
            Class::Ciphertext => "ciphertext",
            Class::Digits => "digits",
            Class::Extended => "extended",
            Class::Small => "small",
            Class::Stored => "stored",
        }
    }
}

/// The whole number of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Argument {
    None,
    /// The number of an input.
    Input,
    /// The number of an output.
    Output,
    /// A rotation to the left, in slots; for a device, its Galois element.
    Step,
    /// Limbs of the result.
    Limbs,
    /// The period of the values in slots; 0: all slots.
    Slots,
    /// The number of a series.
    Series,
    /// An exponent of X.
    Power,
    /// A whole factor.
    Factor,
    /// The number of sums side by side.
    Sums,
}

impl Argument {
    pub const fn name(self) -> &'static str {
        match self {
            Argument::None => "none",
            Argument::Input => "input",
            Argument::Output => "output",
            Argument::Step => "step",
            Argument::Limbs => "limbs",
            Argument::Slots => "slots",
            Argument::Series => "series",
            Argument::Power => "power",
            Argument::Factor => "factor",
            Argument::Sums => "sums",
        }
    }
}

/// As many as an instruction states, at least one.
pub const MANY: u32 = u32::MAX;

/// Who does an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Actor {
    Client,
    Server,
    /// A library, as one call that stands for many operations.
    Library,
}

/// The properties of an operation.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// Its code in packages, which never changes.
    pub code: Option<u8>,
    /// Whether it is a kind of row in traces.
    pub is_traced: bool,
    /// Whether a device performs it.
    pub is_work: bool,
    pub actor: Actor,
    /// The evaluation key that it reads.
    pub key: Option<KeyKind>,
    /// Classes of the operands; of `many` there is one, for all.
    pub takes: &'static [Class],
    pub takes_many: bool,
    pub makes: Option<Class>,
    /// Results: 0, 1 or `MANY`.
    pub results: u32,
    /// Vectors that are encoded where it is done.
    pub constants: u32,
    /// Real numbers; in a package one may be complex.
    pub numbers: u32,
    pub argument: Argument,
    /// Whether the scale of the result is the product of two.
    pub is_product: bool,
    /// Whether real operands give complex values.
    pub is_complex: bool,
    pub doc: &'static str,
}

const C: &[Class] = &[Class::Ciphertext];
const CC: &[Class] = &[Class::Ciphertext, Class::Ciphertext];
const X: &[Class] = &[Class::Extended];

impl Row {
    /// An operation of the server that makes one ciphertext.
    const fn takes(takes: &'static [Class]) -> Self {
        Row {
            code: None,
            is_traced: false,
            is_work: false,
            actor: Actor::Server,
            key: None,
            takes,
            takes_many: false,
            makes: Some(Class::Ciphertext),
            results: 1,
            constants: 0,
            numbers: 0,
            argument: Argument::None,
            is_product: false,
            is_complex: false,
            doc: "",
        }
    }

    /// The number of its operands.
    pub const fn operands(&self) -> u32 {
        if self.takes_many { MANY } else { self.takes.len() as u32 }
    }

    /// Any number of one class.
    const fn many(takes: &'static [Class]) -> Self {
        let mut row = Self::takes(takes);
        row.takes_many = true;
        row
    }

    const fn makes(mut self, class: Class) -> Self {
        self.makes = Some(class);
        self
    }

    const fn makes_nothing(mut self) -> Self {
        self.makes = None;
        self.results = 0;
        self
    }

    const fn makes_many(mut self) -> Self {
        self.results = MANY;
        self
    }

    const fn constants(mut self, constants: u32) -> Self {
        self.constants = constants;
        self
    }

    const fn numbers(mut self, numbers: u32) -> Self {
        self.numbers = numbers;
        self
    }

    const fn argument(mut self, argument: Argument) -> Self {
        self.argument = argument;
        self
    }

    const fn key(mut self, key: KeyKind) -> Self {
        self.key = Some(key);
        self
    }

    const fn product(mut self) -> Self {
        self.is_product = true;
        self
    }

    const fn complex(mut self) -> Self {
        self.is_complex = true;
        self
    }

    const fn by(mut self, actor: Actor) -> Self {
        self.actor = actor;
        self
    }

    /// It has a code in packages.
    const fn code(mut self, code: u8) -> Self {
        self.code = Some(code);
        self
    }

    /// It is work of a device.
    const fn work(mut self) -> Self {
        self.is_work = true;
        self
    }

    /// It is a kind of row in traces.
    const fn traced(mut self, doc: &'static str) -> Self {
        self.is_traced = true;
        self.doc = doc;
        self
    }
}

macro_rules! operations {
    ($($operation:ident $name:literal $row:expr;)*) => {
        /// An operation.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Operation { $($operation,)* }

        impl Operation {
            /// All: first the kinds of traces, in their order.
            pub const ALL: &[Operation] = &[$(Operation::$operation,)*];

            /// The name in traces, packages, messages and at the border to Python.
            pub const fn name(self) -> &'static str {
                match self { $(Operation::$operation => $name,)* }
            }

            pub fn row(self) -> &'static Row {
                static ROWS: &[Row] = &[$($row,)*];
                &ROWS[self as usize]
            }
        }
    };
}

operations! {
    Encrypt "encrypt" Row::takes(&[]).argument(Argument::Input).code(0).by(Actor::Client)
        .traced("encrypt a packed vector (client)");
    Decrypt "decrypt" Row::many(C).makes_nothing().by(Actor::Client).traced("decrypt to a vector (client)");
    Add "add" Row::takes(CC).code(2).work().traced("sum of two ciphertexts");
    AddPlain "add_plain" Row::takes(C).constants(1).code(6).work().traced("sum of a ciphertext and an encoded vector");
    AddScalar "add_scalar" Row::takes(C).numbers(1).code(9).work().traced("sum of a ciphertext and one number");
    Sub "sub" Row::takes(CC).code(3).work().traced("difference of two ciphertexts");
    SubPlain "sub_plain" Row::takes(C).constants(1).code(7).work()
        .traced("difference of a ciphertext and an encoded vector");
    SubScalar "sub_scalar" Row::takes(C).numbers(1).code(10).work()
        .traced("difference of a ciphertext and one number, in either order");
    Negate "negate" Row::takes(C).code(13).work().traced("negation");
    Mult "mult" Row::takes(CC).key(KeyKind::Relin).product().code(4).work()
        .traced("product of two ciphertexts, relinearized");
    MultNoRelin "mult_no_relin" Row::takes(CC).product().code(5).work()
        .traced("product of two ciphertexts, three polynomials");
    Relinearize "relinearize" Row::takes(C).key(KeyKind::Relin).code(15).work()
        .traced("three polynomials back to two");
    MultPlain "mult_plain" Row::takes(C).constants(1).product().code(8).work()
        .traced("product of a ciphertext and an encoded vector");
    MultScalar "mult_scalar" Row::takes(C).numbers(1).product().code(12).work()
        .traced("product of a ciphertext and one number");
    Square "square" Row::takes(C).key(KeyKind::Relin).product().code(14).work()
        .traced("product of a ciphertext with itself, relinearized");
    Rotate "rotate" Row::takes(C).argument(Argument::Step).key(KeyKind::Rot).code(17).work()
        .traced("cyclic left rotation of the slots");
    Decompose "decompose" Row::takes(C).makes(Class::Digits).code(18).work()
        .traced("digit decomposition (ModUp) shared by hoisted rotations");
    RotateHoisted "rotate_hoisted" Row::takes(&[Class::Ciphertext, Class::Digits]).argument(Argument::Step)
        .key(KeyKind::Rot).code(19).work().traced("rotation that re-uses a digit decomposition");
    Conjugate "conjugate" Row::takes(C).key(KeyKind::Conj).code(16).traced("complex conjugation of the slots");
    ToSparse "to_sparse" Row::takes(C).key(KeyKind::ToSparse).work()
        .traced("one limb to the ephemeral sparse secret (bootstrapping)");
    ToDense "to_dense" Row::takes(C).key(KeyKind::ToDense).work()
        .traced("key switch back from the ephemeral sparse secret");
    Extend "extend" Row::takes(C).makes(Class::Extended).work()
        .traced("ciphertext times P, over the primes of Q and P (only inside circuits)");
    AddExtended "add_extended" Row::takes(&[Class::Extended, Class::Extended]).makes(Class::Extended).work()
        .traced("sum of two ciphertexts over Q and P");
    MultPlainExtended "mult_plain_extended" Row::takes(X).makes(Class::Extended).constants(1)
        .traced("product of a ciphertext and an encoded vector, over Q and P");
    RotateHoistedExtended "rotate_hoisted_extended" Row::takes(&[Class::Ciphertext, Class::Digits])
        .makes(Class::Extended).argument(Argument::Step).key(KeyKind::Rot).work()
        .traced("hoisted rotation without ModDown: over Q and P");
    DecomposeExtended "decompose_extended" Row::takes(X).makes(Class::Digits).work()
        .traced("ModDown of one polynomial over Q and P, and its decomposition");
    RotateExtended "rotate_extended" Row::takes(&[Class::Extended, Class::Digits]).makes(Class::Extended)
        .argument(Argument::Step).key(KeyKind::Rot).work()
        .traced("rotation over Q and P that re-uses a decomposition");
    ModDown "mod_down" Row::takes(X).work().traced("ciphertext over Q and P back to Q: division by P");
    Rescale "rescale" Row::takes(C).code(20).work().traced("division by the last prime; one limb fewer");
    ModDrop "mod_drop" Row::takes(C).argument(Argument::Limbs).code(21).work()
        .traced("limbs dropped without division");
    ModRaise "mod_raise" Row::takes(C).argument(Argument::Limbs).work()
        .traced("modulus raised to the full chain (first step of bootstrapping)");
    ExpandSmall "expand_small" Row::takes(&[Class::Small]).makes(Class::Small).key(KeyKind::RotSmall)
        .traced("small ciphertexts, each split by its odd coefficients");
    InnerProducts "inner_products" Row::takes(&[Class::Small, Class::Stored]).makes(Class::Small)
        .traced("stored small ciphertexts times a vector of small ciphertexts, summed");
    PackSmall "pack_small" Row::many(&[Class::Small])
        .traced("ciphertexts of the small ring side by side in one of the large ring");
    SwitchSmall "switch_small" Row::takes(CC).key(KeyKind::FromSmall)
        .traced("key switch from the small ring's secret");
    SwitchSmallSquared "switch_small_squared" Row::takes(C).key(KeyKind::FromSmallSquared)
        .traced("key switch from the square of the small ring's secret");
    Bootstrap "bootstrap" Row::many(C).makes_many().argument(Argument::Slots).code(22).by(Actor::Library)
        .traced("refresh of the modulus chain, as the library's one call");
    Chebyshev "chebyshev" Row::takes(C).argument(Argument::Series).code(23).by(Actor::Library)
        .traced("Chebyshev series, as the library's one call");
    Composite "composite" Row::many(C).by(Actor::Library).traced("any other composite call of the library");

    Output "output" Row::takes(C).makes_nothing().argument(Argument::Output).code(1).work();
    ScalarSub "scalar_sub" Row::takes(C).numbers(1).code(11).work();
    Polynomial "polynomial" Row::takes(C).argument(Argument::Series).code(24);
    MultByI "mult_by_i" Row::takes(C).complex().code(25);
    Scaled "scaled" Row::takes(C).numbers(1).code(26);
    WeightedSum "weighted_sum" Row::many(C).constants(MANY).code(27);

    Input "input" Row::takes(&[]).argument(Argument::Input).work();
    PlainSum "plain_sum" Row::many(C).constants(MANY).work();
    MultOverScale "mult_over_scale" Row::takes(C).numbers(3).work();
    NumberSum "number_sum" Row::many(C).numbers(MANY).work();
    RescaleNow "rescale_now" Row::takes(C).work();
    RescaleForProduct "rescale_for_product" Row::takes(C).work();
    RescaleAndDrop "rescale_and_drop" Row::takes(C).argument(Argument::Limbs).work();
    ModRaiseToScale "mod_raise_to_scale" Row::takes(C).argument(Argument::Limbs).work();
    Align "align" Row::takes(CC).work();
    Monomial "monomial" Row::takes(C).argument(Argument::Power).work();
    Whole "whole" Row::takes(C).argument(Argument::Factor).work();
    WeightedSums "weighted_sums" Row::many(X).makes(Class::Extended).makes_many().constants(MANY)
        .argument(Argument::Sums).work();
    WeightedSumsPlus "weighted_sums_plus" Row::many(X).makes(Class::Extended).makes_many().constants(MANY)
        .argument(Argument::Sums).work();
}

impl Operation {
    /// The operation of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|operation| operation.name() == name)
    }

    /// The call of a code in a package.
    pub fn of_code(code: u8) -> Option<Self> {
        static CALLS: LazyLock<[Option<Operation>; 256]> = LazyLock::new(|| {
            let mut calls = [None; 256];
            for each in Operation::ALL {
                if let Some(code) = each.row().code {
                    calls[usize::from(code)] = Some(*each);
                }
            }
            calls
        });
        CALLS[usize::from(code)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_places_in_the_list_of_calls() {
        let mut codes: Vec<_> = Operation::ALL.iter().filter_map(|each| each.row().code).collect();
        codes.sort_unstable();
        assert!(codes.iter().copied().eq(0..codes.len() as u8), "codes are different, and have no gaps");
        for each in Operation::ALL.iter().filter(|each| each.row().code.is_some()) {
            assert_eq!(each.row().code.and_then(Operation::of_code), Some(*each));
        }
    }

    #[test]
    fn names_are_unique_and_found() {
        for each in Operation::ALL {
            assert_eq!(Operation::named(each.name()), Some(*each));
        }
        assert_eq!(Operation::named("add_many"), None);
    }

    #[test]
    fn many_results_or_constants_are_as_many_as_the_operands() {
        for each in Operation::ALL {
            let row = each.row();
            assert!(row.takes_many || (row.results != MANY && row.constants != MANY), "{}", each.name());
            assert!(!row.takes_many || row.takes.len() == 1, "{}", each.name());
            assert_eq!(row.makes.is_some(), row.results > 0, "{}", each.name());
        }
    }
}
