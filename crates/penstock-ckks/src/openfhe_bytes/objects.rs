//! Keys that OpenFHE reads: of a pair, and evaluation keys one or many to a file.

use std::borrow::Cow;
use std::io::{self, Write};

use super::archive::{Archive, Chain, Class, ContextDescription};
use super::grammar::{Polynomials, RowSpan, key_tag};
use super::input::Input;
use super::key::Part;
use crate::error::Error;

const TAG_BYTES: usize = 32;
const EVALUATION_KEY: &str = "lbcrypto::EvalKeyRelinImpl<lbcrypto::DCRTPoly>";

/// Which of a pair's keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyObject {
    /// A list of two polynomials.
    Public,
    /// A polynomial. The evaluator never reads or writes one.
    Private,
}

impl KeyObject {
    fn name(self) -> &'static str {
        match self {
            KeyObject::Public => "public key",
            KeyObject::Private => "private key",
        }
    }
}

/// The places of the rows of a pair's key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectBytes {
    /// Words of a row.
    pub ring_dim: usize,
    /// The tag of the key pair.
    pub key_tag: String,
    /// Of each polynomial the limbs.
    pub polynomials: Vec<Vec<RowSpan>>,
}

/// Whether a tag of a key pair is one of OpenFHE's: 32 hexadecimal digits.
///
/// # Errors
/// [`Error::Operand`] where it is not.
pub fn check_tag(tag: &str) -> Result<(), Error> {
    if tag.len() == TAG_BYTES && tag.bytes().all(|c| c.is_ascii_hexdigit()) {
        return Ok(());
    }
    let rule = "the tag of a key pair is 32 hexadecimal digits";
    Err(Error::Operand { operation: "write", what: format!("tag '{tag}'"), rule })
}

/// Reads the layout of a pair's key. Rows are copied by [`super::read_row`].
///
/// # Errors
/// [`Error::Bytes`] where the bytes do not follow the layout.
pub fn parse_key_object<I: Input + ?Sized>(input: &I, kind: KeyObject) -> Result<ObjectBytes, Error> {
    let (mut found, polynomials) = match kind {
        KeyObject::Public => {
            let mut found = Polynomials::find(input, kind.name())?;
            let rows = found.list()?;
            (found, rows)
        }
        KeyObject::Private => {
            let mut found = Polynomials::find_single(input, kind.name())?;
            let rows = vec![found.polynomial()?];
            (found, rows)
        }
    };
    let cursor = &mut found.cursor;
    let moduli = |rows: &[RowSpan]| -> Vec<u64> { rows.iter().map(|row| row.modulus).collect() };
    let expected = if kind == KeyObject::Public { 2 } else { 1 };
    if polynomials.len() != expected {
        return Err(cursor.error(format!("{} polynomials, where it has {expected}", polynomials.len())));
    }
    if polynomials.iter().any(|rows| moduli(rows) != moduli(&polynomials[0])) {
        return Err(cursor.error("the polynomials of a key differ in their moduli"));
    }
    let left = input.bytes() - cursor.at;
    if left != 0 {
        return Err(cursor.error(format!("{left} bytes behind the key")));
    }
    let key_tag = key_tag(input, found.start).ok_or_else(|| found.cursor.error("no key tag"))?;
    Ok(ObjectBytes { ring_dim: found.ring_dim, key_tag, polynomials })
}

/// Writes a pair's key: `row(polynomial, limb)` gives the words of each row.
///
/// # Errors
/// Those of `out` and of `row`.
pub fn write_key_object<'a>(
    out: impl Write,
    kind: KeyObject,
    context: &ContextDescription,
    key_tag: &str,
    mut row: impl FnMut(usize, usize) -> io::Result<Cow<'a, [u64]>>,
) -> io::Result<()> {
    let mut archive = Archive::begin(out, context.ring_dim)?;
    archive.plain_object()?;
    let class = if kind == KeyObject::Public { Class::PublicKey } else { Class::PrivateKey };
    archive.versions(&[class, Class::Key, Class::CryptoObject])?;
    let (_, mut chain) = archive.context(context)?;
    archive.text(key_tag)?;
    if kind == KeyObject::Private {
        return archive.polynomial(&mut chain, |limb| row(0, limb));
    }
    archive.u64(2)?;
    (0..2).try_for_each(|polynomial| archive.polynomial(&mut chain, |limb| row(polynomial, limb)))
}

/// Which calls of OpenFHE read a file of evaluation keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyFileLayout {
    /// `DeserializeEvalMultKey` and `DeserializeEvalAutomorphismKey`, which put the keys into the registry of all contexts:
    /// what `SerializeEvalMultKey` and `SerializeEvalAutomorphismKey` write.
    Registry,
    /// `DeserializeEvalKey` and `DeserializeEvalKeyMap`, which return the keys.
    Objects,
}

/// Writes evaluation keys into one file, row by row.
pub struct EvaluationKeyWriter<W> {
    archive: Archive<W>,
    context: ContextDescription,
    key_tag: String,
    /// The number of the context, of the chain over Q and P, and of the class's name, once they are there.
    written: Option<(u32, u32)>,
    extended: Chain,
}

impl<W: Write> EvaluationKeyWriter<W> {
    /// The file of one key: of the relinearization key, or as an object, which does not name its purpose, of any.
    ///
    /// `p`: moduli of P and their roots.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn single(
        out: W,
        layout: KeyFileLayout,
        context: &ContextDescription,
        p: (&[u64], &[u64]),
        key_tag: &str,
    ) -> io::Result<Self> {
        let mut made = Self::begin(out, layout, context, p, key_tag)?;
        if layout == KeyFileLayout::Registry {
            made.archive.u64(1)?;
        }
        Ok(made)
    }

    fn begin(
        out: W,
        layout: KeyFileLayout,
        context: &ContextDescription,
        p: (&[u64], &[u64]),
        key_tag: &str,
    ) -> io::Result<Self> {
        let mut archive = Archive::begin(out, context.ring_dim)?;
        if layout == KeyFileLayout::Registry {
            archive.u64(1)?; // secret keys
            archive.text(key_tag)?;
        }
        let moduli = [&context.moduli, p.0].concat();
        let roots = [&context.roots, p.1].concat();
        Ok(Self {
            archive,
            context: context.clone(),
            key_tag: key_tag.to_owned(),
            written: None,
            extended: Chain::new(&moduli, &roots),
        })
    }

    /// The file of the keys of automorphisms, as OpenFHE's `EvalKeyMap`. [`Self::element`] comes before each key.
    ///
    /// `p`: moduli of P and their roots.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn map(
        out: W,
        layout: KeyFileLayout,
        context: &ContextDescription,
        p: (&[u64], &[u64]),
        key_tag: &str,
        keys: u64,
    ) -> io::Result<Self> {
        let mut made = Self::begin(out, layout, context, p, key_tag)?;
        made.archive.new_object()?;
        made.archive.u64(keys)?;
        Ok(made)
    }

    /// The automorphism of the next key of a map; they ascend.
    ///
    /// # Errors
    /// Those of the output.
    pub fn element(&mut self, galois_element: u32) -> io::Result<()> {
        self.archive.u32(galois_element)
    }

    /// The next key: `row(part, digit, limb)` gives its words; `limb` counts the moduli of Q, then of P.
    ///
    /// # Errors
    /// Those of the output and of `row`.
    pub fn key<'a>(&mut self, row: impl FnMut(Part, usize, usize) -> io::Result<Cow<'a, [u64]>>) -> io::Result<()> {
        self.head()?;
        let digits = self.context.dnum as usize;
        polynomials(&mut self.archive, &mut self.extended, digits, row)
    }

    /// The next key, the one to the sparse secret: one digit over other moduli.
    ///
    /// # Errors
    /// Those of the output and of `row`.
    pub fn key_over<'a>(
        &mut self,
        moduli: &[u64],
        roots: &[u64],
        row: impl FnMut(Part, usize, usize) -> io::Result<Cow<'a, [u64]>>,
    ) -> io::Result<()> {
        self.head()?;
        polynomials(&mut self.archive, &mut Chain::new(moduli, roots), 1, row)
    }

    /// Everything before the polynomials of a key.
    fn head(&mut self) -> io::Result<()> {
        let archive = &mut self.archive;
        match self.written {
            None => {
                let name = archive.name(EVALUATION_KEY)?;
                archive.new_object()?;
                archive.versions(&[Class::EvalKeyRelin, Class::EvalKey, Class::Key, Class::CryptoObject])?;
                let (context, _) = archive.context(&self.context)?;
                self.written = Some((name, context));
            }
            Some((name, context)) => {
                archive.u32(name)?;
                archive.new_object()?;
                archive.plain_reference(context)?;
            }
        }
        archive.text(&self.key_tag)
    }

    /// The output.
    pub fn into_inner(self) -> W {
        self.archive.end().0
    }
}

fn polynomials<'a, W: Write>(
    archive: &mut Archive<W>,
    chain: &mut Chain,
    digits: usize,
    mut row: impl FnMut(Part, usize, usize) -> io::Result<Cow<'a, [u64]>>,
) -> io::Result<()> {
    for part in Part::BOTH {
        archive.u64(digits as u64)?;
        for digit in 0..digits {
            archive.polynomial(chain, |limb| row(part, digit, limb))?;
        }
    }
    Ok(())
}
