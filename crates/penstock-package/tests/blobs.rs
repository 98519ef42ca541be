//! Stored bytes that no writer makes, with good digests: each is refused with its rule.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::{TemporaryFile, columns, resealed, sealed, small, tables};
use penstock_package::{Form, Reader};

/// Reads constant 0 with these stored bytes, kind and number of values; returns it or the message.
fn refusal(kind: u8, values: u32, blob: &[u8]) -> String {
    let file = small();
    let mut changed = file[tables(&file)].to_vec();
    let place = columns(&changed);
    let mut set = |name: &str, bytes: &[u8]| {
        let start = place.iter().find(|(each, _)| *each == name).unwrap().1.start;
        changed[start..start + bytes.len()].copy_from_slice(bytes);
    };
    set("bytes of constants", &(blob.len() as u32).to_le_bytes());
    set("values", &values.to_le_bytes());
    set("kinds", &[kind]);
    set("forms", &blob[..1]);
    let first = 73;
    let offsets: Vec<u8> = std::iter::once(16u64)
        .chain(later_offsets(&file).iter().map(|offset| offset - first + blob.len() as u64))
        .flat_map(u64::to_le_bytes)
        .collect();
    set("offsets", &offsets);
    let before = [&file[..16], blob, &file[16 + first as usize..tables(&file).start]].concat();
    let made = TemporaryFile::new();
    let bytes = resealed(&before, &changed);
    assert_ne!(bytes, sealed(&before, &changed), "the digest of constant 0 is another");
    let reader = Reader::open(made.with(&bytes)).unwrap();
    assert!(reader.constant(1).is_ok());
    reader.constant(0).map(|found| format!("{found:?}")).unwrap_or_else(|error| error.to_string())
}

fn later_offsets(file: &[u8]) -> Vec<u64> {
    let found = TemporaryFile::new();
    let reader = Reader::open(found.with(file)).unwrap();
    reader.tables().constants[1..].iter().map(|entry| entry.offset).collect()
}

fn number(form: Form, number: u32, rest: &[u8]) -> Vec<u8> {
    let mut bytes = vec![form as u8];
    bytes.extend(number.to_le_bytes());
    bytes.extend(rest);
    bytes
}

fn float(value: f64) -> Vec<u8> {
    [&[Form::Float64 as u8][..], &value.to_le_bytes()].concat()
}

fn integers(exponent: i16, low: i64, width: u8, packed: &[u8]) -> Vec<u8> {
    [&[Form::Integers as u8][..], &exponent.to_le_bytes(), &low.to_le_bytes(), &[width], packed].concat()
}

#[test]
fn whole_bytes_of_a_vector_are_read() {
    assert_eq!(refusal(0, 1, &float(2.5)), "Real([2.5])");
    assert_eq!(refusal(0, 3, &number(Form::Period, 1, &float(2.5))), "Real([2.5, 2.5, 2.5])");
    assert_eq!(refusal(0, 3, &integers(-1, 1, 2, &[0b00_11_10])), "Real([1.5, 2.0, 0.5])");
    let sparse = [&[2, 0b0110][..], &integers(0, 7, 0, &[])].concat();
    assert_eq!(refusal(0, 5, &number(Form::Sparse, 2, &sparse)), "Real([0.0, 0.0, 7.0, 0.0, 7.0])");
}

#[test]
fn bytes_of_no_vector_are_refused() {
    let nested = (4..9).fold(float(1.0), |inner, length| number(Form::Period, length, &inner));
    let packed = |form, count, width: u8, places: &[u8], inner: &[u8]| {
        number(form, count, &[&[width][..], places, inner].concat())
    };
    let two = [&[Form::Float32 as u8][..], &[0, 0, 128, 63].repeat(2)].concat();
    for (values, blob, says) in [
        (1, float(f64::NAN), "value 0 is NaN; values are finite"),
        (1, integers(971, 1 << 53, 0, &[]), "value 0 is inf"),
        (1, float(0.0), "zeros at its end"),
        (2, float(1.0), "16 bytes follow, and 8 are there"),
        (1, [float(1.0), vec![0]].concat(), "1 bytes too many"),
        (1, vec![0], "8 bytes follow, and 0 are there"),
        (9, number(Form::Period, 0, &[]), "0 of 9 values"),
        (9, number(Form::Period, 9, &float(1.0)), "9 of 9 values"),
        (9, number(Form::Period, u32::MAX, &float(1.0)), "4294967295 of 9 values"),
        (9, number(Form::Period, 1, &[7]), "form 7; the forms of vectors are 0 to 6"),
        (9, number(Form::Period, 1, &[99]), "form 99"),
        (9, nested, "they nest four deep at most"),
        (1, integers(-1075, 0, 0, &[]), "integers from 0 on, times 2^-1075"),
        (1, integers(972, 0, 0, &[]), "times 2^972"),
        (1, integers(0, i64::MIN, 0, &[]), "integers from -9223372036854775808 on"),
        (1, integers(0, 0, 55, &[0; 7]), "integers of 55 bits"),
        (1, integers(0, 0, 8, &[]), "1 bytes follow, and 0 are there"),
        (9, number(Form::Sparse, 0, &[]), "0 of 9 values"),
        (9, number(Form::Sparse, 9, &[]), "9 of 9 values"),
        (9, packed(Form::Sparse, 1, 33, &[], &float(1.0)), "integers of 33 bits"),
        (9, packed(Form::Sparse, 1, 8, &[9], &float(1.0)), "place 9 of 9"),
        (9, packed(Form::Sparse, 2, 32, &[0xff; 8], &two), "place 4294967295 of 9"),
        (9, packed(Form::Runs, 2, 8, &[3, 3], &two), "runs of 8 values"),
        (9, packed(Form::Runs, 2, 8, &[3, 5], &two), "runs of more than 9 values"),
        (9, packed(Form::Runs, 2, 32, &[0xff; 8], &two), "runs of more than 9 values"),
        (9, number(Form::Runs, 9, &[]), "9 of 9 values"),
        (9, number(Form::Dictionary, 9, &[]), "9 of 9 values"),
        (9, number(Form::Dictionary, 1 << 17, &[]), "a dictionary of 131072 values"),
        (9, number(Form::Dictionary, 3, &[two.clone(), vec![0; 4], vec![0xaa; 3]].concat()), "zeros at its end"),
        (9, number(Form::Dictionary, 3, &[two, vec![0; 4], vec![255; 3]].concat()), "value 3 of a dictionary of 3"),
    ] {
        let found = refusal(0, values, &blob);
        assert!(found.contains("constant 0") && found.contains(says), "{found} instead of {says}");
    }
}

#[test]
fn bytes_of_no_coefficients_are_refused() {
    let head = |exponent: i16, width: u8| {
        [&[Form::Coefficients as u8][..], &exponent.to_le_bytes(), &5i64.to_le_bytes(), &[width]].concat()
    };
    assert_eq!(refusal(2, 2, &head(3, 0)), "Coefficients(Coefficients { integers: [5, 5], exponent: 3 })");
    for (values, blob, says) in [
        (3, head(0, 0), "3 coefficients"),
        (1, head(0, 0), "1 coefficients"),
        (0, head(0, 0), "0 coefficients"),
        (2, head(972, 0), "-1074 to 971"),
        (2, head(0, 65), "integers of 65 bits"),
        (2, head(0, 4), "1 bytes follow, and 0 are there"),
        (2, [head(0, 0), vec![0]].concat(), "1 bytes too many"),
    ] {
        let found = refusal(2, values, &blob);
        assert!(found.contains("constant 0") && found.contains(says), "{found} instead of {says}");
    }
}

#[test]
fn values_of_coefficients_that_overflow_are_refused() {
    let file = small();
    let made = TemporaryFile::new();
    let mut bytes = file[tables(&file)].to_vec();
    let reader = Reader::open(made.with(&file)).unwrap();
    let entry = reader.tables().constants[8];
    let mut before = file[..tables(&file).start].to_vec();
    // The largest exponent, and integers of 63 bits.
    before[entry.offset as usize + 1..entry.offset as usize + 3].copy_from_slice(&971i16.to_le_bytes());
    before[entry.offset as usize + 3..entry.offset as usize + 11].copy_from_slice(&(i64::MAX >> 1).to_le_bytes());
    bytes = resealed(&before, &bytes)[before.len()..][..bytes.len()].to_vec();
    let reader = Reader::open(made.with(&sealed(&before, &bytes))).unwrap();
    assert!(reader.constant(8).is_ok());
    let message = reader.constant_values(8).unwrap_err().to_string();
    assert!(message.contains("constant 8: coefficients whose values overflow"), "{message}");
}
