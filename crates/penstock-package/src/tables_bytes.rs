//! The bytes of the tables: a head of counts, then columns.

use penstock_operations::Operation;

use crate::cursor::Cursor;
use crate::error::Fault;
use crate::forms::Form;
use crate::limits;
use crate::tables::{Entry, Input, Instructions, Key, Kind, Output, Scope, Series, Tables};

type Result<T> = std::result::Result<T, Fault>;

/// Numbers of 32 bits in the head.
const HEAD_NUMBERS: usize = 18;
/// Bytes of the head.
pub const HEAD_BYTES: usize = 4 * HEAD_NUMBERS;
/// Texts that every package has: its name and its description.
const OWN_TEXTS: u64 = 2;

/// The counts of the head, each within its limit.
#[derive(Debug, Clone, Copy)]
pub struct Head {
    ring_dim: u32,
    slots: u32,
    num_q: u32,
    instructions: u32,
    many: u32,
    operands: u32,
    uses: u32,
    numbers: u32,
    scopes: u32,
    series: u32,
    coefficients: u32,
    inputs: u32,
    outputs: u32,
    keys: u32,
    constants: u32,
    text_bytes: u32,
    params_bytes: u32,
    provenance_bytes: u32,
}

impl Head {
    fn of(tables: &Tables) -> Result<Self> {
        let calls = &tables.instructions;
        let count = |count: usize| {
            let rule = "counts are within the limits of the format";
            u32::try_from(count).map_err(|_| Fault::new("the tables", format!("a count of {count}"), rule))
        };
        let head = Self {
            ring_dim: tables.ring_dim,
            slots: tables.slots,
            num_q: tables.num_q,
            instructions: count(calls.len())?,
            many: count(calls.many.len())?,
            operands: count(calls.operands.len())?,
            uses: count(calls.constants.len())?,
            numbers: count(calls.numbers.len())?,
            scopes: count(tables.scopes.len())?,
            series: count(tables.series.len())?,
            coefficients: count(tables.series.iter().map(|each| each.coefficients.len()).sum())?,
            inputs: count(tables.inputs.len())?,
            outputs: count(tables.outputs.len())?,
            keys: count(tables.keys.len())?,
            constants: count(tables.constants.len())?,
            text_bytes: count(texts(tables).map(str::len).sum())?,
            params_bytes: count(tables.params.len())?,
            provenance_bytes: count(tables.provenance.len())?,
        };
        head.check()?;
        Ok(head)
    }

    fn numbers(&self) -> [u32; HEAD_NUMBERS] {
        [
            self.ring_dim,
            self.slots,
            self.num_q,
            self.instructions,
            self.many,
            self.operands,
            self.uses,
            self.numbers,
            self.scopes,
            self.series,
            self.coefficients,
            self.inputs,
            self.outputs,
            self.keys,
            self.constants,
            self.text_bytes,
            self.params_bytes,
            self.provenance_bytes,
        ]
    }

    /// Reads a head of [`HEAD_BYTES`] and checks its counts against the limits.
    pub fn read(bytes: &[u8]) -> Result<Self> {
        let mut cursor = Cursor::new(bytes);
        let mut next = || cursor.u32();
        let head = Self {
            ring_dim: next()?,
            slots: next()?,
            num_q: next()?,
            instructions: next()?,
            many: next()?,
            operands: next()?,
            uses: next()?,
            numbers: next()?,
            scopes: next()?,
            series: next()?,
            coefficients: next()?,
            inputs: next()?,
            outputs: next()?,
            keys: next()?,
            constants: next()?,
            text_bytes: next()?,
            params_bytes: next()?,
            provenance_bytes: next()?,
        };
        head.check()?;
        Ok(head)
    }

    fn check(&self) -> Result<()> {
        for (what, count, limit) in [
            ("instructions", self.instructions, limits::MAX_INSTRUCTIONS),
            ("instructions of many operands", self.many, self.instructions),
            ("operands", self.operands, limits::MAX_OPERANDS),
            ("uses of constants", self.uses, limits::MAX_USES),
            ("numbers", self.numbers, self.instructions),
            ("scopes", self.scopes, limits::MAX_SCOPES),
            ("series", self.series, limits::MAX_SERIES),
            ("coefficients of series", self.coefficients, limits::MAX_COEFFICIENTS),
            ("inputs", self.inputs, limits::MAX_INPUTS),
            ("outputs", self.outputs, limits::MAX_INPUTS),
            ("keys", self.keys, limits::MAX_KEYS),
            ("constants", self.constants, limits::MAX_CONSTANTS),
            ("bytes of names", self.text_bytes, limits::MAX_TEXTS),
            ("bytes of the parameter set", self.params_bytes, limits::MAX_JSON),
            ("bytes of provenance", self.provenance_bytes, limits::MAX_JSON),
        ] {
            if count > limit {
                let rule = "counts are within the limits of the format";
                return Err(Fault::new("the tables", format!("{count} {what}, and the limit is {limit}"), rule));
            }
        }
        Ok(())
    }

    /// Bytes of the tables that have these counts.
    pub fn tables_bytes(&self) -> u64 {
        let texts = OWN_TEXTS + [self.scopes, self.inputs, self.outputs, self.keys].map(u64::from).iter().sum::<u64>();
        let columns = [
            (self.instructions, 1 + 4 + 2 + 1 + 4),
            (self.many, 4),
            (self.operands, 4),
            (self.uses, 4),
            (self.numbers, 16),
            (self.scopes, 4),
            (self.series, 8 + 8 + 4),
            (self.coefficients, 8),
            (self.inputs, 4 + 2 + 1),
            (self.outputs, 4),
            (self.keys, 2),
            (self.constants, 8 + 4 + 4 + 1 + 1 + 32),
            (self.text_bytes, 1),
            (self.params_bytes, 1),
            (self.provenance_bytes, 1),
        ];
        let columns: u64 = columns.iter().map(|(count, bytes)| u64::from(*count) * bytes).sum();
        HEAD_BYTES as u64 + columns + 2 * texts
    }
}

fn texts(tables: &Tables) -> impl Iterator<Item = &str> {
    let own = [tables.name.as_str(), tables.description.as_str()].into_iter();
    own.chain(tables.scopes.iter().map(|each| each.name.as_str()))
        .chain(tables.inputs.iter().map(|each| each.name.as_str()))
        .chain(tables.outputs.iter().map(|each| each.name.as_str()))
        .chain(tables.keys.iter().map(|each| each.name.as_str()))
}

/// The bytes of tables whose content was checked.
pub fn write(tables: &Tables) -> Result<Vec<u8>> {
    let head = Head::of(tables)?;
    let mut out = Vec::with_capacity(head.tables_bytes() as usize);
    let calls = &tables.instructions;
    out.extend(head.numbers().iter().flat_map(|each| each.to_le_bytes()));
    out.extend(calls.verbs.iter().filter_map(|verb| verb.row().code));
    out.extend(calls.arguments.iter().flat_map(|each| each.to_le_bytes()));
    out.extend(calls.limbs.iter().flat_map(|each| each.to_le_bytes()));
    out.extend(&calls.degrees);
    for column in [&calls.scopes, &calls.many, &calls.operands, &calls.constants] {
        out.extend(column.iter().flat_map(|each| each.to_le_bytes()));
    }
    out.extend(calls.numbers.iter().flatten().flat_map(|each| each.to_le_bytes()));
    out.extend(tables.scopes.iter().flat_map(|each| each.parent.to_le_bytes()));
    out.extend(tables.series.iter().flat_map(|each| each.lower.to_le_bytes()));
    out.extend(tables.series.iter().flat_map(|each| each.upper.to_le_bytes()));
    out.extend(tables.series.iter().flat_map(|each| (each.coefficients.len() as u32).to_le_bytes()));
    out.extend(tables.series.iter().flat_map(|each| &each.coefficients).flat_map(|each| each.to_le_bytes()));
    out.extend(tables.inputs.iter().flat_map(|each| each.length.to_le_bytes()));
    out.extend(tables.inputs.iter().flat_map(|each| each.limbs.to_le_bytes()));
    out.extend(tables.inputs.iter().map(|each| u8::from(each.is_complex)));
    out.extend(tables.outputs.iter().flat_map(|each| each.length.to_le_bytes()));
    out.extend(tables.keys.iter().flat_map(|each| each.limbs.to_le_bytes()));
    out.extend(tables.constants.iter().flat_map(|each| each.offset.to_le_bytes()));
    out.extend(tables.constants.iter().flat_map(|each| each.bytes.to_le_bytes()));
    out.extend(tables.constants.iter().flat_map(|each| each.values.to_le_bytes()));
    out.extend(tables.constants.iter().map(|each| each.kind.code()));
    out.extend(tables.constants.iter().map(|each| each.form.code()));
    out.extend(tables.constants.iter().flat_map(|each| each.digest));
    out.extend(texts(tables).flat_map(|each| (each.len() as u16).to_le_bytes()));
    texts(tables).for_each(|each| out.extend(each.as_bytes()));
    out.extend(tables.params.as_bytes());
    out.extend(tables.provenance.as_bytes());
    Ok(out)
}

/// Reads tables of [`Head::tables_bytes`] bytes. Checks only codes and texts; `rules` checks the rest.
pub fn read(head: &Head, bytes: &[u8]) -> Result<Tables> {
    let mut cursor = Cursor::new(bytes);
    cursor.take(HEAD_BYTES)?;
    let provenance = &bytes[bytes.len().saturating_sub(head.provenance_bytes as usize)..];
    let instructions = read_instructions(head, &mut cursor, provenance)?;
    let parents = cursor.column(head.scopes as usize, u32::from_le_bytes)?;
    let series = read_series(head, &mut cursor)?;
    let inputs = head.inputs as usize;
    let input_lengths = cursor.column(inputs, u32::from_le_bytes)?;
    let input_limbs = cursor.column(inputs, u16::from_le_bytes)?;
    let complex =
        codes(cursor.take(inputs)?, "input", "complex", |code| [false, true].get(usize::from(code)).copied())?;
    let output_lengths = cursor.column(head.outputs as usize, u32::from_le_bytes)?;
    let key_limbs = cursor.column(head.keys as usize, u16::from_le_bytes)?;
    let constants = read_constants(head, &mut cursor)?;
    let mut texts = Texts::read(head, &mut cursor)?;
    let tables = Tables {
        ring_dim: head.ring_dim,
        slots: head.slots,
        num_q: head.num_q,
        name: texts.next("the name")?,
        description: texts.next("the description")?,
        instructions,
        scopes: texts.rows("scope", parents, |name, parent| Scope { name, parent })?,
        series,
        inputs: texts.rows(
            "input",
            input_lengths.into_iter().zip(input_limbs).zip(complex),
            |name, ((length, limbs), is_complex)| Input { name, length, limbs, is_complex },
        )?,
        outputs: texts.rows("output", output_lengths, |name, length| Output { name, length })?,
        keys: texts.rows("key", key_limbs, |name, limbs| Key { name, limbs })?,
        constants,
        params: text(cursor.take(head.params_bytes as usize)?, "the parameter set")?,
        provenance: text(cursor.take(head.provenance_bytes as usize)?, "the provenance")?,
    };
    cursor.end()?;
    Ok(tables)
}

fn codes<T>(bytes: &[u8], what: &str, field: &str, known: impl Fn(u8) -> Option<T>) -> Result<Vec<T>> {
    let mut found = Vec::with_capacity(bytes.len());
    for (at, code) in bytes.iter().enumerate() {
        match known(*code) {
            Some(each) => found.push(each),
            None => {
                let rule = "codes are those of the format";
                return Err(Fault::new(format!("{what} {at}"), format!("{field} has the code {code}"), rule));
            }
        }
    }
    Ok(found)
}

fn read_instructions(head: &Head, cursor: &mut Cursor<'_>, provenance: &[u8]) -> Result<Instructions> {
    let count = head.instructions as usize;
    let verbs = cursor.take(count)?;
    if let Some((at, code)) = verbs.iter().enumerate().find(|(_, code)| Operation::of_code(**code).is_none())
        && let Some(name) = name_of_newer(*code, provenance)
    {
        let rule = "this version of penstock has no such operation: upgrade penstock";
        return Err(Fault::new(format!("instruction {at}"), format!("it is '{name}'"), rule));
    }
    Ok(Instructions {
        verbs: codes(verbs, "instruction", "its verb", Operation::of_code)?,
        arguments: cursor.column(count, i32::from_le_bytes)?,
        limbs: cursor.column(count, u16::from_le_bytes)?,
        degrees: cursor.take(count)?.to_vec(),
        scopes: cursor.column(count, u32::from_le_bytes)?,
        many: cursor.column(head.many as usize, u32::from_le_bytes)?,
        operands: cursor.column(head.operands as usize, u32::from_le_bytes)?,
        constants: cursor.column(head.uses as usize, u32::from_le_bytes)?,
        numbers: cursor.column(head.numbers as usize, pair)?,
    })
}

/// The name of an operation of a newer instruction set, as the writer put it in the provenance.
fn name_of_newer(code: u8, provenance: &[u8]) -> Option<&str> {
    let (_, rest) = std::str::from_utf8(provenance).ok()?.split_once(&format!("\"operation {code}\": \""))?;
    let name = rest.split_once('"')?.0;
    (!name.is_empty() && name.bytes().all(|c| c.is_ascii_lowercase() || c == b'_')).then_some(name)
}

fn pair(bytes: [u8; 16]) -> [f64; 2] {
    let bits = u128::from_le_bytes(bytes);
    [f64::from_bits(bits as u64), f64::from_bits((bits >> 64) as u64)]
}

fn read_series(head: &Head, cursor: &mut Cursor<'_>) -> Result<Vec<Series>> {
    let count = head.series as usize;
    let lower = cursor.column(count, f64::from_le_bytes)?;
    let upper = cursor.column(count, f64::from_le_bytes)?;
    let lengths = cursor.column(count, u32::from_le_bytes)?;
    let total: u64 = lengths.iter().map(|length| u64::from(*length)).sum();
    if total != u64::from(head.coefficients) {
        let what = format!("{total} coefficients, and the head has {}", head.coefficients);
        return Err(Fault::new("the series", what, "counts agree"));
    }
    let mut made = Vec::with_capacity(count);
    for ((lower, upper), length) in lower.into_iter().zip(upper).zip(lengths) {
        made.push(Series { lower, upper, coefficients: cursor.column(length as usize, f64::from_le_bytes)? });
    }
    Ok(made)
}

fn read_constants(head: &Head, cursor: &mut Cursor<'_>) -> Result<Vec<Entry>> {
    let count = head.constants as usize;
    let offsets = cursor.column(count, u64::from_le_bytes)?;
    let lengths = cursor.column(count, u32::from_le_bytes)?;
    let values = cursor.column(count, u32::from_le_bytes)?;
    let kinds = codes(cursor.take(count)?, "constant", "its kind", Kind::from_code)?;
    let forms = codes(cursor.take(count)?, "constant", "its form", Form::from_code)?;
    let digests = cursor.column(count, |digest: [u8; 32]| digest)?;
    let entry = |at: usize| Entry {
        offset: offsets[at],
        bytes: lengths[at],
        values: values[at],
        kind: kinds[at],
        form: forms[at],
        digest: digests[at],
    };
    Ok((0..count).map(entry).collect())
}

fn text(bytes: &[u8], place: &str) -> Result<String> {
    match str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(error) => Err(Fault::new(place, error.to_string(), "texts are UTF-8")),
    }
}

/// Names, one after another.
struct Texts<'a> {
    lengths: std::vec::IntoIter<u16>,
    bytes: Cursor<'a>,
}

impl<'a> Texts<'a> {
    fn read(head: &Head, cursor: &mut Cursor<'a>) -> Result<Self> {
        let count =
            OWN_TEXTS as usize + [head.scopes, head.inputs, head.outputs, head.keys].iter().sum::<u32>() as usize;
        let lengths = cursor.column(count, u16::from_le_bytes)?;
        let total: u64 = lengths.iter().map(|length| u64::from(*length)).sum();
        if total != u64::from(head.text_bytes) {
            let what = format!("{total} bytes, and the head has {}", head.text_bytes);
            return Err(Fault::new("the names", what, "counts agree"));
        }
        Ok(Self { lengths: lengths.into_iter(), bytes: Cursor::new(cursor.take(head.text_bytes as usize)?) })
    }

    fn next(&mut self, place: &str) -> Result<String> {
        text(self.bytes.take(usize::from(self.lengths.next().unwrap_or(0)))?, place)
    }

    fn rows<T, R>(
        &mut self,
        what: &str,
        rows: impl IntoIterator<Item = T>,
        made: impl Fn(String, T) -> R,
    ) -> Result<Vec<R>> {
        rows.into_iter()
            .enumerate()
            .map(|(at, row)| match self.next("") {
                Ok(name) => Ok(made(name, row)),
                Err(fault) => Err(Fault { place: format!("the name of {what} {at}"), ..fault }),
            })
            .collect()
    }
}
