//! Each rule of the format refuses what breaks it, when a package is written and when it is read.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::{FOOTER, TemporaryFile, columns, content, read_all, resealed, small, tables, write};
use penstock_operations::Argument;
use penstock_package::{Content, Error, Operation, Reader};

type Change = fn(&mut Content);

/// A change of the content, and the message of its refusal.
const REFUSED: &[(Change, &str)] = &[
    (|c| c.ring_dim = 100, "the ring: N = 100"),
    (|c| c.ring_dim = 2, "the ring: N = 2"),
    (|c| c.ring_dim = 1 << 19, "the ring: N = 524288"),
    (|c| c.slots = 0, "the ring: 0 slots"),
    (|c| c.slots = 65, "the ring: 65 slots"),
    (|c| c.num_q = 0, "the ring: 0 limbs"),
    (|c| c.num_q = 1025, "the ring: 1025 limbs"),
    (|c| c.name.clear(), "the name: it is empty"),
    (|c| c.name = "a\nb".into(), "the name: the character '\\n'"),
    (|c| c.name = "a\u{202e}b".into(), "texts are printable"),
    (|c| c.description = "\u{7f}".into(), "the description: the character"),
    (|c| c.description = "x".repeat(4097), "a text of 4097 bytes"),
    (|c| c.params = " ".repeat((1 << 20) + 1), "the parameter set: 1048577 bytes"),
    (|c| c.provenance = " ".repeat((1 << 20) + 1), "the provenance: 1048577 bytes"),
    (|c| c.scopes.clear(), "scope 0: not the program"),
    (|c| c.scopes[0].name = "x".into(), "scope 0: not the program"),
    (|c| c.scopes[0].parent = 1, "scope 0: not the program"),
    (|c| c.scopes[1].parent = 1, "scope 1: its parent is 1"),
    (|c| c.scopes[2].parent = 7, "scope 2: its parent is 7"),
    (|c| c.scopes[2].name = "\u{1b}[2J".into(), "scope 2: the character"),
    (|c| c.series[0].coefficients.clear(), "series 0: 0 coefficients"),
    (|c| c.series[0].coefficients = vec![1.0; 65_537], "series 0: 65537 coefficients"),
    (|c| c.series[0].coefficients[1] = f64::NAN, "series 0: a coefficient that is not finite"),
    (|c| c.series[0].upper = -1.0, "series 0: the interval from -1 to -1"),
    (|c| c.series[0].lower = f64::NEG_INFINITY, "series 0: the interval"),
    (|c| c.inputs[0].length = 0, "input 0: 0 values"),
    (|c| c.inputs[1].length = 65, "input 1: 65 values"),
    (|c| c.inputs[1].limbs = 6, "input 1: 6 limbs of 5"),
    (|c| c.inputs[1].name = "x".into(), "input 1: another one is named 'x'"),
    (|c| c.inputs[1].name.clear(), "input 1: no name"),
    (|c| c.inputs[1].name = "\u{9b}".into(), "input 1: the character"),
    (|c| c.outputs[0].length = 65, "output 0: 65 values"),
    (|c| c.outputs[1].name = "x".into(), "output 1: another one is named 'x'"),
    (|c| c.keys[1].name = "relin".into(), "key 1: another one is named 'relin'"),
    (|c| c.keys[1].limbs = 0, "key 1: 0 limbs of 5"),
    (|c| c.keys[1].limbs = 6, "key 1: 6 limbs of 5"),
    // N/2 = 32: constants of more values.
    (|c| (c.ring_dim, c.slots) = (64, 32), "input 0: 64 values"),
    (
        |c| {
            (c.ring_dim, c.slots) = (64, 32);
            (c.inputs[0].length, c.outputs[0].length) = (1, 1);
        },
        "constant 2: 40 values at N = 64",
    ),
    (|c| c.instructions.limbs.truncate(1), "the instructions: columns of"),
    (|c| c.instructions.many.truncate(1), "the instructions: 1 numbers of operands"),
    (|c| c.instructions.many.push(1), "the instructions: 3 numbers of operands"),
    (|c| c.instructions.many[0] = 3, "the instructions: 14 operands, and they take 15"),
    (|c| c.instructions.constants.truncate(1), "the instructions: 1 constants, and they take 4"),
    (|c| c.instructions.numbers.push([0.0; 2]), "the instructions: 2 numbers, and they take 1"),
    (
        |c| {
            c.instructions.many[1] = 0;
            c.instructions.operands.drain(9..12);
            c.instructions.constants.drain(1..4);
        },
        "instruction 9 (weighted_sum): no operands",
    ),
    (|c| c.instructions.constants[0] = 10, "instruction 2 (mult_plain): constant 10 of 10"),
    (|c| c.instructions.numbers[0][1] = f64::INFINITY, "instruction 5 (mult_scalar): a number that is not finite"),
    (|c| c.instructions.scopes[3] = 3, "instruction 3 (decompose): scope 3 of 3"),
    (|c| c.instructions.limbs[0] = 6, "instruction 0 (encrypt): a state of 6 limbs"),
    (|c| c.instructions.limbs[0] = 0, "instruction 0 (encrypt): a state of 0 limbs"),
    (|c| c.instructions.degrees[0] = 3, "instruction 0 (encrypt): a state of 5 limbs and degree 3"),
    (|c| c.instructions.degrees[0] = 0, "instruction 0 (encrypt): a state of 5 limbs and degree 0"),
    (|c| c.instructions.arguments[2] = 1, "instruction 2 (mult_plain): the argument 1; it takes no argument"),
    (|c| c.instructions.arguments[1] = 2, "instruction 1 (encrypt): input 2 of 2"),
    (|c| c.instructions.arguments[1] = -1, "instruction 1 (encrypt): input -1 of 2"),
    (|c| c.instructions.arguments[10] = 2, "instruction 10 (output): output 2 of 2"),
    (|c| c.instructions.arguments[8] = 1, "instruction 8 (chebyshev): series 1 of 1"),
    (|c| c.instructions.arguments[4] = 129, "instruction 4 (rotate_hoisted): a step of 129 at N = 128"),
    (|c| c.instructions.arguments[4] = i32::MIN, "instruction 4 (rotate_hoisted): a step of -2147483648"),
    (|c| c.instructions.arguments[6] = 0, "instruction 6 (mod_drop): 0 limbs of 5"),
    (|c| c.instructions.arguments[6] = 6, "instruction 6 (mod_drop): 6 limbs of 5"),
    (|c| c.instructions.arguments[7] = 3, "instruction 7 (bootstrap): a period of 3"),
    (|c| c.instructions.arguments[7] = 128, "instruction 7 (bootstrap): a period of 128"),
    (|c| c.instructions.arguments[7] = i32::MIN, "instruction 7 (bootstrap): a period of"),
    // Of the values.
    (|c| c.instructions.operands[0] = 2, "instruction 2 (mult_plain): value 2, and 2 were made before it"),
    (|c| c.instructions.operands[13] = u32::MAX, "instruction 11 (output): value 4294967295"),
    (|c| c.instructions.arguments[1] = 0, "instruction 1 (encrypt): input 0 again"),
    (|c| c.instructions.arguments[11] = 0, "instruction 11 (output): output 0 again"),
    (
        |c| c.inputs.push(penstock_package::Input { name: "w".into(), ..c.inputs[0].clone() }),
        "input 2: no instruction has it ('w'); each input has one instruction 'encrypt'",
    ),
    (
        |c| c.outputs.push(penstock_package::Output { name: "w".into(), length: 1 }),
        "output 2: no instruction has it ('w'); each output has one instruction 'output'",
    ),
    (|c| c.instructions.operands[2] = 1, "instruction 4 (rotate_hoisted): the digits of value 2 with value 1"),
    (|c| c.instructions.operands[3] = 1, "instruction 4 (rotate_hoisted): value 1, a ciphertext, stands for digits"),
    (|c| c.instructions.operands[2] = 3, "instruction 4 (rotate_hoisted): the digits of value 2 with value 3"),
    (|c| c.instructions.operands[4] = 3, "instruction 5 (mult_scalar): value 3, the digits of value 2; digits go to"),
    (|c| c.instructions.operands[11] = 3, "instruction 9 (weighted_sum): value 3, the digits of value 2"),
    (|c| c.instructions.operands[13] = 3, "instruction 11 (output): value 3, the digits of value 2"),
    (
        |c| (c.instructions.verbs[5], c.instructions.numbers) = (Operation::Negate, vec![[1.0, 0.0]]),
        "1 numbers, and they take 0",
    ),
];

#[test]
fn each_rule_refuses_what_breaks_it() {
    for (change, says) in REFUSED {
        let (file, mut changed) = (TemporaryFile::new(), content());
        change(&mut changed);
        match write(file.path(), changed) {
            Err(Error::Refused(fault)) => {
                assert!(fault.to_string().contains(says), "{fault} instead of {says}");
            }
            other => panic!("{other:?} instead of {says}"),
        }
        assert!(Reader::open(file.path()).is_err(), "a file without tables is not opened");
    }
}

#[test]
fn a_whole_package_comes_back() {
    let file = TemporaryFile::new();
    let bytes = write(file.path(), content()).unwrap();
    let reader = read_all(file.path()).unwrap();
    assert_eq!((reader.file_bytes(), reader.path()), (bytes, file.path()));
    assert_eq!(bytes, std::fs::metadata(file.path()).unwrap().len());
    let mut found = reader.tables().clone();
    assert_eq!(found.constants.len(), common::constants().len());
    found.constants.clear();
    assert_eq!(found, content());
}

#[test]
fn instructions_are_given_with_their_operands_and_results() {
    let instructions = content().instructions;
    let all: Vec<_> = instructions.iter().collect();
    assert_eq!(all.len(), instructions.len());
    assert_eq!((all[7].verb, all[7].operands, all[7].first, all[7].results), (Operation::Bootstrap, &[6, 1][..], 7, 2));
    assert_eq!((all[9].operands, all[9].constants, all[9].first), (&[8, 9, 0][..], &[1, 7, 8][..], 10));
    assert_eq!((all[5].number, all[5].state, all[4].state), (Some([0.5, -2.0]), Some((4, 1)), None));
    assert_eq!(all[4].verb.row().argument, Argument::Step);
}

/// Opens and reads a file of other bytes; the message of its refusal.
fn refusal(bytes: &[u8]) -> String {
    let file = TemporaryFile::new();
    read_all(file.with(bytes)).map(|_| ()).unwrap_err().to_string()
}

/// The refusal of the small program with other bytes at a place of a column, and good digests.
fn changed(column: &str, at: usize, bytes: &[u8]) -> String {
    let file = small();
    let place = tables(&file);
    let mut changed = file[place.clone()].to_vec();
    let range = columns(&changed).into_iter().find(|(name, _)| *name == column).unwrap().1;
    changed[range.start + at..range.start + at + bytes.len()].copy_from_slice(bytes);
    refusal(&resealed(&file[..place.start], &changed))
}

#[test]
fn an_operation_of_a_newer_set_is_refused_by_its_name() {
    let newer = |name: &str| {
        let (file, mut content) = (TemporaryFile::new(), content());
        content.provenance = format!("{{\"operation 28\": \"{name}\"}}");
        write(file.path(), content).unwrap();
        let file = std::fs::read(file.path()).unwrap();
        let place = tables(&file);
        let mut changed = file[place.clone()].to_vec();
        let verbs = columns(&changed).into_iter().find(|(name, _)| *name == "verbs").unwrap().1;
        changed[verbs.start + 3] = 28;
        refusal(&resealed(&file[..place.start], &changed))
    };
    let says = newer("mult_monomial");
    assert!(
        says.contains("instruction 3: it is 'mult_monomial'; this version of penstock has no such operation"),
        "{says}"
    );
    assert!(newer("a \u{1b}[31m name").contains("instruction 3: its verb has the code 28"));
}

#[test]
fn codes_that_the_format_does_not_have_are_refused() {
    for (column, at, code, says) in [
        ("verbs", 3, 28, "instruction 3: its verb has the code 28"),
        ("complex", 1, 2, "input 1: complex has the code 2"),
        ("kinds", 0, 3, "constant 0: its kind has the code 3"),
        ("forms", 4, 8, "constant 4: its form has the code 8"),
        ("forms", 4, 7, "constant 4: a form of another kind"),
        ("forms", 4, 5, "constant 4: the index has the form runs"),
        ("kinds", 8, 0, "constant 8: a form of another kind"),
        ("values", 0, 8, "constant 0: 8 bytes too many"),
        ("values", 0, 10, "constant 0: 80 bytes follow, and 72 are there"),
        ("values", 8, 65, "constant 2: 65 values at N = 128"),
        ("values", 32, 12, "constant 8: 12 coefficients"),
        ("offsets", 8, 90, "constant 1: 37 bytes at offset 90"),
        ("bytes of constants", 0, 72, "constant 1: 37 bytes at offset 89"),
        ("bytes of constants", 0, 0, "constant 0: 0 bytes at offset 16"),
        ("bytes of constants", 36, 2, "the constants: they end at offset"),
        ("lengths of series", 0, 4, "the series: 4 coefficients, and the head has 3"),
        ("lengths of texts", 0, 6, "the names: 52 bytes, and the head has 51"),
        ("texts", 0, 0xff, "the name: invalid utf-8"),
        ("texts", 28, 0xff, "the name of scope 1: invalid utf-8"),
        ("params", 0, 0xff, "the parameter set: invalid utf-8"),
        ("provenance", 3, 0x80, "the provenance: invalid utf-8"),
    ] {
        let message = changed(column, at, &[code]);
        assert!(message.contains(says), "{message} instead of {says}");
    }
}

#[test]
fn counts_above_their_limits_are_refused_before_anything_is_read() {
    let file = small();
    let place = tables(&file);
    for (number, says) in [
        (3, "4294967295 instructions, and the limit is 10000000"),
        (4, "4294967295 instructions of many operands"),
        (5, "4294967295 operands, and the limit is 40000000"),
        (6, "4294967295 uses of constants"),
        (7, "4294967295 numbers"),
        (8, "4294967295 scopes"),
        (9, "4294967295 series"),
        (10, "4294967295 coefficients of series"),
        (11, "4294967295 inputs"),
        (12, "4294967295 outputs"),
        (13, "4294967295 keys"),
        (14, "4294967295 constants"),
        (15, "4294967295 bytes of names"),
        (16, "4294967295 bytes of the parameter set"),
        (17, "4294967295 bytes of provenance"),
    ] {
        let mut changed = file.clone();
        changed[place.start + 4 * number..place.start + 4 * number + 4].fill(0xff);
        let message = refusal(&changed);
        assert!(message.contains(says), "{message} instead of {says}");
        // Within the limit, but another number than in the tables.
        changed[place.start + 4 * number..place.start + 4 * number + 4].fill(0);
        let message = refusal(&changed);
        assert!(message.contains("by their counts") || message.contains("the limit is 0"), "{message}");
    }
}

#[test]
fn the_frame_of_a_file_is_checked() {
    let whole = small();
    let (end, place) = (whole.len(), tables(&whole));
    let with = |at: usize, byte: u8| {
        let mut file = whole.clone();
        file[at] = byte;
        refusal(&file)
    };
    assert!(with(0, b'p').contains("does not begin as a program package does"));
    assert!(with(8, 2).contains("its format is version 2, this program reads versions up to 1: upgrade penstock"));
    assert!(with(8, 0).contains("its header is not that of a version"));
    assert!(with(12, 1).contains("its header is not that of a version"));
    assert!(with(end - 1, 0).contains("does not end as a program package does"));
    assert!(with(end - 16, 2).contains("does not end as a program package does"));
    assert!(with(end - 12, 1).contains("does not end as a program package does"));
    assert!(with(end - FOOTER, 1).contains("its tables are"));
    assert!(with(end - FOOTER + 7, 0xff).contains("its tables are"));
    assert!(with(end - FOOTER + 15, 0xff).contains("its tables are"));
    assert!(with(end - FOOTER + 16, !whole[end - FOOTER + 16]).contains("its tables differ from their digest"));
    assert!(with(place.start + 80, 0xee).contains("its tables differ from their digest"));
    assert!(with(16 + 5, !whole[16 + 5]).contains("constant 0 differs from its digest"));
    assert!(refusal(b"").contains("does not begin"));
}

#[test]
fn a_file_that_is_cut_short_or_longer_is_refused_at_every_byte() {
    let whole = small();
    let file = TemporaryFile::new();
    for length in 0..whole.len() {
        assert!(matches!(Reader::open(file.with(&whole[..length])), Err(Error::Damaged { .. })), "{length} bytes");
    }
    for more in 1..100 {
        let longer = [&whole[..], &vec![0; more]].concat();
        assert!(matches!(Reader::open(file.with(&longer)), Err(Error::Damaged { .. })));
    }
    assert!(read_all(file.with(&whole)).is_ok());
}

#[test]
fn what_is_no_ordinary_file_is_said() {
    assert!(matches!(Reader::open("/dev/null"), Err(Error::Damaged { .. })));
    assert!(matches!(Reader::open(std::env::temp_dir()), Err(Error::Io { .. })));
    let missing = TemporaryFile::new();
    assert!(matches!(Reader::open(missing.path()), Err(Error::Io { doing: "read", .. })));
}

#[test]
fn a_file_that_changes_after_it_was_opened_is_noticed() {
    let (file, whole) = (TemporaryFile::new(), small());
    let reader = Reader::open(file.with(&whole)).unwrap();
    assert!(reader.constant(0).is_ok());
    let mut changed = whole.clone();
    changed[20] ^= 1;
    file.with(&changed);
    assert!(matches!(reader.constant(0), Err(Error::Damaged { .. })));
    file.with(&whole[..30]);
    assert!(matches!(reader.constant(0), Err(Error::Damaged { .. })));
}
