//! What the tests of packages share: a small program, random numbers, files that go away, and where bytes lie.
#![allow(dead_code)] // Each test file uses its part of it.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use penstock_package::{
    Coefficients, Constant, Content, Input, Instructions, Key, Operation, Output, Reader, Result, Scope, Series, Writer,
};
use sha2::{Digest, Sha256};

/// A file below the system's temporary folder, removed when the test ends.
pub struct TemporaryFile(PathBuf);

impl TemporaryFile {
    pub fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let shared = Path::new("/dev/shm");
        let folder = if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() };
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        Self(folder.join(format!("penstock-package-{}-{count}.pkg", std::process::id())))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The path, with other content.
    pub fn with(&self, content: &[u8]) -> &Path {
        std::fs::write(&self.0, content).unwrap();
        &self.0
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Numbers that look random, from a seed (splitmix64).
#[derive(Debug, Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ word >> 31
    }

    /// Below `end`, which is at least 1.
    pub fn below(&mut self, end: usize) -> usize {
        (self.word() % end as u64) as usize
    }

    /// In -1 to 1.
    pub fn real(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// The constants of [`content`]: one in each form.
pub fn constants() -> Vec<Constant> {
    let mut random = Random(26);
    let mut reals = |count: usize| (0..count).map(|_| random.real() / 3.0).collect::<Vec<_>>();
    let (some, few) = (reals(9), reals(3));
    let small: Vec<f64> = (0..40).map(|_| random.below(32) as f64).collect();
    let sparse: Vec<f64> = (0..64).map(|at| if at % 9 == 0 { 0.1 * (at + 1) as f64 } else { 0.0 }).collect();
    let runs: Vec<f64> = (0..64).map(|at| some[at / 13]).collect();
    let chosen: Vec<f64> = (0..64).map(|at| few[(at * at / 3 + at / 5) % 3]).collect();
    vec![
        Constant::real(&some),
        Constant::real(&some.iter().map(|value| f64::from(*value as f32)).collect::<Vec<_>>()),
        Constant::real(&small),
        Constant::real(&few.iter().copied().cycle().take(40).collect::<Vec<_>>()),
        Constant::real(&sparse),
        Constant::real(&runs),
        Constant::real(&chosen),
        Constant::complex(&some.iter().map(|value| [*value, 1.0 - value]).collect::<Vec<_>>()),
        Constant::Coefficients(Coefficients { integers: (0..16).map(|at| at * 37 % 101 - 50).collect(), exponent: -6 }),
        Constant::real(&[0.0]),
    ]
}

/// A small program: two inputs, digits, a series, a refresh of two, a sum with weights, two outputs.
pub fn content() -> Content {
    let verbs = vec![
        Operation::Encrypt,
        Operation::Encrypt,
        Operation::MultPlain,
        Operation::Decompose,
        Operation::RotateHoisted,
        Operation::MultScalar,
        Operation::ModDrop,
        Operation::Bootstrap,
        Operation::Chebyshev,
        Operation::WeightedSum,
        Operation::Output,
        Operation::Output,
    ];
    Content {
        ring_dim: 128,
        slots: 64,
        num_q: 5,
        name: "small".into(),
        description: "a program\nof every part".into(),
        instructions: Instructions {
            arguments: vec![0, 1, 0, 0, -3, 0, 2, 8, 0, 0, 0, 1],
            limbs: vec![5, 0, 5, 0, 0, 4, 2, 5, 0, 0, 0, 0],
            degrees: vec![1, 0, 2, 0, 0, 1, 1, 1, 0, 0, 0, 0],
            scopes: vec![0, 0, 1, 2, 2, 1, 1, 0, 0, 0, 0, 0],
            many: vec![2, 3],
            //            2  3  4     5  6  7     8  9         10 11
            operands: vec![0, 2, 2, 3, 4, 5, 6, 1, 7, 8, 9, 0, 10, 9],
            constants: vec![0, 1, 7, 8],
            numbers: vec![[0.5, -2.0]],
            verbs,
        },
        scopes: vec![
            Scope { name: String::new(), parent: 0 },
            Scope { name: "layer".into(), parent: 0 },
            Scope { name: "turn".into(), parent: 1 },
        ],
        series: vec![Series { lower: -1.0, upper: 2.0, coefficients: vec![1.0, 0.5, 0.25] }],
        inputs: vec![
            Input { name: "x".into(), length: 64, limbs: 0, is_complex: false },
            Input { name: "y".into(), length: 3, limbs: 4, is_complex: true },
        ],
        outputs: vec![Output { name: "x".into(), length: 64 }, Output { name: "z".into(), length: 1 }],
        keys: vec![Key { name: "relin".into(), limbs: 5 }, Key { name: "rot:5".into(), limbs: 4 }],
        constants: Vec::new(),
        params: r#"{"name": "small"}"#.into(),
        provenance: r#"{"penstock": "0.1.0"}"#.into(),
    }
}

/// Writes the small program with another content.
pub fn write(path: &Path, content: Content) -> Result<u64> {
    let mut writer = Writer::create(path)?;
    for (number, constant) in constants().iter().enumerate() {
        assert_eq!(writer.add(constant)?, number as u32);
    }
    writer.finish(content)
}

/// The bytes of the small program.
pub fn small() -> Vec<u8> {
    let file = TemporaryFile::new();
    write(file.path(), content()).unwrap();
    std::fs::read(file.path()).unwrap()
}

/// Opens a package and reads all of it.
pub fn read_all(path: &Path) -> Result<Reader> {
    let reader = Reader::open(path)?;
    for number in 0..reader.tables().constants.len() as u32 {
        reader.constant_values(number)?;
    }
    Ok(reader)
}

pub const FOOTER: usize = 64;
pub const HEAD: usize = 72;

fn word(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize
}

/// The place of the tables.
pub fn tables(file: &[u8]) -> std::ops::Range<usize> {
    let footer = file.len() - FOOTER;
    word(file, footer)..footer
}

/// The places of columns in tables, by their names in docs/reference/package-format.md.
pub fn columns(tables: &[u8]) -> Vec<(&'static str, std::ops::Range<usize>)> {
    let count: Vec<usize> = (0..18).map(|at| word(tables, 4 * at)).collect();
    let [
        _,
        _,
        _,
        calls,
        many,
        operands,
        uses,
        numbers,
        scopes,
        series,
        coefficients,
        inputs,
        outputs,
        keys,
        constants,
        ..,
    ] = count[..]
    else {
        unreachable!()
    };
    let mut at = HEAD;
    [
        ("verbs", calls),
        ("arguments", 4 * calls),
        ("limbs", 2 * calls),
        ("degrees", calls),
        ("scopes", 4 * calls),
        ("many", 4 * many),
        ("operands", 4 * operands),
        ("uses", 4 * uses),
        ("numbers", 16 * numbers),
        ("parents", 4 * scopes),
        ("lower", 8 * series),
        ("upper", 8 * series),
        ("lengths of series", 4 * series),
        ("coefficients", 8 * coefficients),
        ("lengths of inputs", 4 * inputs),
        ("limbs of inputs", 2 * inputs),
        ("complex", inputs),
        ("lengths of outputs", 4 * outputs),
        ("limbs of keys", 2 * keys),
        ("offsets", 8 * constants),
        ("bytes of constants", 4 * constants),
        ("values", 4 * constants),
        ("kinds", constants),
        ("forms", constants),
        ("digests", 32 * constants),
        ("lengths of texts", 2 * (2 + scopes + inputs + outputs + keys)),
        ("texts", count[15]),
        ("params", count[16]),
        ("provenance", count[17]),
    ]
    .into_iter()
    .map(|(name, bytes)| {
        at += bytes;
        (name, at - bytes..at)
    })
    .collect()
}

/// A file with other tables, whose footer agrees with them.
pub fn sealed(before: &[u8], tables: &[u8]) -> Vec<u8> {
    let mut file = before.to_vec();
    file.extend(tables);
    file.extend((before.len() as u64).to_le_bytes());
    file.extend((tables.len() as u64).to_le_bytes());
    file.extend(Sha256::digest(tables));
    file.extend(1u64.to_le_bytes());
    file.extend(b"GKPTSNEP");
    file
}

/// Computes the digests of constants anew, if their places are inside the file, then seals the tables.
pub fn resealed(before: &[u8], tables: &[u8]) -> Vec<u8> {
    if tables.len() < HEAD {
        return sealed(before, tables);
    }
    let mut tables = tables.to_vec();
    let places = columns(&tables);
    let range = |name: &str| places.iter().find(|(each, _)| *each == name).unwrap().1.clone();
    let (offsets, lengths, digests) = (range("offsets"), range("bytes of constants"), range("digests"));
    if digests.end <= tables.len() {
        for (number, at) in digests.step_by(32).enumerate() {
            let offset = word(&tables, offsets.start + 8 * number);
            let blob = before.get(offset..offset.saturating_add(word(&tables, lengths.start + 4 * number)));
            if let Some(blob) = blob {
                tables[at..at + 32].copy_from_slice(&Sha256::digest(blob));
            }
        }
    }
    sealed(before, &tables)
}
