//! Constants come back bit by bit, in the form that suits them.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::{Random, TemporaryFile, constants, content};
use penstock_package::{Coefficients, Constant, Content, Error, Form, Reader, Writer};

/// A content without instructions, for any constants of a ring.
fn empty(ring_dim: u32) -> Content {
    let mut content = Content { ring_dim, slots: ring_dim / 2, ..content() };
    content.instructions = Default::default();
    (content.inputs, content.outputs) = (Vec::new(), Vec::new());
    content
}

fn bits(constant: &Constant) -> Vec<u64> {
    match constant {
        Constant::Real(values) => values.iter().map(|value| value.to_bits()).collect(),
        Constant::Complex(values) => values.iter().flatten().map(|part| part.to_bits()).collect(),
        Constant::Coefficients(found) => found.integers.iter().map(|each| *each as u64).collect(),
    }
}

/// Writes constants and reads them again: each has the same bits. Gives the reader.
fn round_trip(constants: &[Constant], ring_dim: u32) -> Reader {
    let file = TemporaryFile::new();
    let mut writer = Writer::create(file.path()).unwrap();
    let numbers: Vec<u32> = constants.iter().map(|each| writer.add(each).unwrap()).collect();
    for (number, constant) in numbers.iter().zip(constants) {
        assert_eq!(bits(&writer.constant(*number).unwrap()), bits(constant));
    }
    writer.finish(empty(ring_dim)).unwrap();
    let reader = Reader::open(file.path()).unwrap();
    for (number, constant) in numbers.iter().zip(constants) {
        let found = reader.constant(*number).unwrap();
        assert_eq!(found.kind(), constant.kind());
        assert_eq!(bits(&found), bits(constant), "constant {number}");
    }
    reader
}

#[test]
fn each_form_is_chosen_where_it_is_the_smallest() {
    let reader = round_trip(&constants(), 128);
    let forms: Vec<Form> = reader.tables().constants.iter().map(|each| each.form).collect();
    assert_eq!(forms[..7], Form::ALL[..7]);
    assert_eq!(forms[7..], [Form::Float64, Form::Coefficients, Form::Float32]);
    let bytes: Vec<u32> = reader.tables().constants.iter().map(|each| each.bytes).collect();
    // A value below 32 has 5 bits: form, exponent, lowest, width, 25 bytes.
    assert_eq!(bytes[..4], [1 + 72, 1 + 36, 1 + 2 + 8 + 1 + 25, 1 + 4 + 1 + 24]);
}

#[test]
fn one_repeated_value_takes_a_few_bytes() {
    let reader = round_trip(&[Constant::real(&[1.5; 4096]), Constant::real(&[0.1; 4096])], 8192);
    assert!(reader.tables().constants.iter().all(|each| each.bytes <= 14), "{:?}", reader.tables().constants);
}

/// A vector that some form suits, or none, with values of any kind.
fn drawn(random: &mut Random) -> Vec<f64> {
    let count = match random.below(4) {
        0 => random.below(4),
        1 => random.below(40),
        _ => random.below(600),
    };
    let special = [0.0, -0.0, 1.0, -1.0, 5e-324, f64::MIN_POSITIVE, f64::MAX, f64::MIN, 0.1, 3e-40, 1e300];
    let kind = random.below(7);
    let scale = random.below(2000) as i32 - 1040;
    let bits = 1 + random.below(54);
    let value = |random: &mut Random| match kind {
        0 => random.real(),
        1 => f64::from(random.real() as f32),
        2 => (random.below(1 << bits) as f64 - (1u64 << bits) as f64 / 2.0) * 2f64.powi(scale.max(-1020)),
        3 => random.pick(&special),
        4 => f64::from_bits(random.word() & !(1 << 62)),
        5 => (random.below(9) as f64 - 4.0) / 3.0,
        _ => f64::from(random.below(256) as u32),
    };
    let period = 1 + random.below(count + 1);
    let few: Vec<f64> = (0..period).map(|_| value(random)).collect();
    let (shape, share) = (random.below(5), 1 + random.below(20));
    let mut last = value(random);
    (0..count)
        .map(|at| match shape {
            0 => few[at % period],
            1 if random.below(share) > 0 => 0.0,
            2 if random.below(share) > 0 => last,
            3 => random.pick(&few),
            _ => {
                last = value(random);
                last
            }
        })
        .collect()
}

#[test]
fn random_vectors_come_back_bit_by_bit() {
    let mut random = Random(7);
    for _ in 0..40 {
        let constants: Vec<Constant> = (0..50)
            .map(|_| {
                let re = drawn(&mut random);
                if random.below(2) == 0 {
                    return Constant::real(&re);
                }
                let im = drawn(&mut random);
                let paired: Vec<[f64; 2]> = re.into_iter().zip(im).map(|(re, im)| [re, im]).collect();
                Constant::complex(&paired)
            })
            .collect();
        let reader = round_trip(&constants, 2048);
        for entry in &reader.tables().constants {
            let most = if entry.kind == penstock_package::Kind::Complex { 2 } else { 1 };
            assert!(entry.bytes <= most * (1 + 8 * entry.values), "no form is larger than float64");
        }
    }
}

#[test]
fn coefficients_come_back_at_every_width() {
    let mut random = Random(3);
    let mut constants = Vec::new();
    for bits in 0..=64 {
        let shift = |word: u64| if bits == 0 { 0 } else { (word as i64) >> (64 - bits) };
        let integers = (0..16).map(|_| shift(random.word())).collect();
        constants.push(Constant::Coefficients(Coefficients { integers, exponent: bits * 30 - 1000 }));
    }
    constants.push(Constant::Coefficients(Coefficients { integers: vec![i64::MIN, i64::MAX], exponent: -63 }));
    round_trip(&constants, 128);
}

#[test]
fn values_of_coefficients_are_those_of_the_polynomial() {
    let coefficients = Coefficients { integers: vec![3, -1, 4, 1, -5, 9, 2, -6], exponent: -3 };
    let reader = round_trip(&[Constant::Coefficients(coefficients.clone())], 128);
    let values = reader.constant_values(0).unwrap();
    assert_eq!(values.len(), 64);
    let mut power = 1;
    for value in &values {
        let mut sum = [0.0; 2];
        for (k, integer) in coefficients.integers.iter().enumerate() {
            let angle = std::f64::consts::PI * (power * k % 16) as f64 / 8.0;
            let real = *integer as f64 / 8.0;
            sum = [sum[0] + real * angle.cos(), sum[1] + real * angle.sin()];
        }
        assert!((value[0] - sum[0]).abs() < 1e-12 && (value[1] - sum[1]).abs() < 1e-12, "{value:?} {sum:?}");
        power = power * 5 % 16;
    }
}

#[test]
fn equal_vectors_are_stored_once() {
    let file = TemporaryFile::new();
    let mut writer = Writer::create(file.path()).unwrap();
    let numbers = [
        Constant::real(&[1.0, 2.0]),
        Constant::real(&[1.0, 2.0, 0.0]),
        Constant::complex(&[[1.0, 0.0], [2.0, 0.0], [0.0, -0.0]]),
        Constant::real(&[1.0, -0.0, 2.0]),
        Constant::real(&[1.0, 0.0, 2.0]),
        Constant::complex(&[[1.0, 0.0], [0.0, 2.0]]),
        Constant::Coefficients(Coefficients { integers: vec![1, 2], exponent: 0 }),
        Constant::Coefficients(Coefficients { integers: vec![1, 2], exponent: 1 }),
    ]
    .map(|each| writer.add(&each).unwrap());
    assert_eq!(numbers, [0, 0, 0, 1, 2, 3, 4, 5]);
    assert_eq!((writer.len(), writer.is_empty()), (6, false));
}

#[test]
fn several_threads_read_at_the_same_time() {
    let mut random = Random(11);
    let constants: Vec<Constant> = (0..200).map(|_| Constant::real(&drawn(&mut random))).collect();
    let reader = round_trip(&constants, 2048);
    let wanted: Vec<Vec<u64>> =
        (0..reader.tables().constants.len() as u32).map(|at| bits(&reader.constant(at).unwrap())).collect();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (reader, wanted) = (&reader, &wanted);
            scope.spawn(move || {
                for at in (0..wanted.len()).chain(0..thread) {
                    assert_eq!(&bits(&reader.constant(at as u32).unwrap()), &wanted[at]);
                    assert_eq!(
                        reader.constant_bytes(at as u32).unwrap().len(),
                        reader.tables().constants[at].bytes as usize
                    );
                }
            });
        }
    });
    assert!(matches!(reader.constant(9999), Err(Error::NoConstant { number: 9999, .. })));
}

#[test]
fn constants_that_break_a_rule_are_refused() {
    let file = TemporaryFile::new();
    let mut writer = Writer::create(file.path()).unwrap();
    let coefficients =
        |count: usize, exponent| Constant::Coefficients(Coefficients { integers: vec![1; count], exponent });
    for (constant, says) in [
        (Constant::real(&[1.0, f64::NAN]), "not finite"),
        (Constant::complex(&[[1.0, f64::INFINITY]]), "not finite"),
        (Constant::real(&vec![0.1; (1 << 17) + 1]), "at most 2^17 values"),
        (coefficients(0, 0), "power of two"),
        (coefficients(1, 0), "power of two"),
        (coefficients(12, 0), "power of two"),
        (coefficients(1 << 19, 0), "2^18 coefficients"),
        (coefficients(8, 972), "-1074 to 971"),
        (coefficients(8, -1075), "-1074 to 971"),
    ] {
        let error = writer.add(&constant).unwrap_err().to_string();
        assert!(error.contains("the package is not written: constant 0") && error.contains(says), "{error}");
    }
    assert!(writer.is_empty());
}
