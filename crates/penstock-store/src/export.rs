//! Stored keys as files that OpenFHE reads.

use std::borrow::Cow;
use std::cell::RefCell;
use std::io::{self, Write};

use penstock_ckks::Part;
use penstock_ckks::modulus::Modulus;
use penstock_ckks::openfhe_bytes::{ContextDescription, EvaluationKeyWriter, KeyFileLayout, check_tag};

use crate::{Error, KeyName, Result, Segment, Shape, Store};

/// One key of an export, opened and checked.
struct Exported {
    segment: Segment,
    /// `None`: the relinearization key.
    element: Option<u32>,
}

impl Store {
    /// Writes keys in OpenFHE's format (`BINARY`): the relinearization key alone, or a map of automorphism keys in the
    /// order of their elements. Part A of a seeded key is expanded. One row at a time is in memory. `context` is the
    /// context that the file states, with the moduli of the keys.
    ///
    /// # Errors
    /// `NotExported`: a truncated key, keys of several secret keys, or a tag that is not one of OpenFHE's. `Missing`,
    /// `Damaged`, `DamagedRow`: a key. `Io`: `out` refuses.
    pub fn export_openfhe(
        &self,
        names: &[KeyName],
        context: &ContextDescription,
        layout: KeyFileLayout,
        out: impl Write,
    ) -> Result<()> {
        let mut keys = names.iter().map(|name| self.exported(name)).collect::<Result<Vec<_>>>()?;
        keys.sort_by_key(|key| key.element);
        let Some(first) = keys.first().map(|key| &key.segment.header) else {
            return Err(Error::value("keys", "an empty list", "name the keys to export"));
        };
        let (shape, tag) = (first.shape.set().clone(), first.secret_tag.clone());
        check_tag(&tag)?;
        let refused = |why: &str| Err(Error::NotExported { key: names[0].to_string(), why: why.into() });
        if keys.iter().any(|key| key.segment.header.secret_tag != tag) {
            return refused("the others are of another secret key; a file has the keys of one");
        }
        if context.moduli != shape.moduli()[..shape.num_q()]
            || keys.iter().any(|key| *key.segment.header.shape.set() != shape)
        {
            return refused("its moduli are not those of the context");
        }
        let roots = minimal_roots(&shape)?;
        let p = (&shape.moduli()[shape.num_q()..], &roots[shape.num_q()..]);
        let failed = |error| Error::io("the file of OpenFHE's keys", "write", error);
        let fault = RefCell::new(None);
        let written = match (&keys[..], keys[0].element) {
            ([key], None) => EvaluationKeyWriter::single(out, layout, context, p, &tag)
                .and_then(|mut writer| key.write(&mut writer, &fault).map(|()| writer)),
            (_, None) => return refused("a relinearization key has a file of its own"),
            _ => EvaluationKeyWriter::map(out, layout, context, p, &tag, keys.len() as u64)
                .and_then(|mut writer| keys.iter().try_for_each(|key| key.write(&mut writer, &fault)).map(|()| writer)),
        };
        let flushed = written.and_then(|writer| writer.into_inner().flush());
        match fault.into_inner() {
            Some(error) => Err(error),
            None => flushed.map_err(failed),
        }
    }

    fn exported(&self, name: &KeyName) -> Result<Exported> {
        let segment = self.segment(name)?;
        let (shape, limbs) = (&segment.header.shape, segment.header.layout().limbs);
        if name.key.is_from_small() {
            let why = "OpenFHE switches no ciphertext between rings".to_owned();
            return Err(Error::NotExported { key: name.to_string(), why });
        }
        if limbs < shape.num_q() {
            let why = format!(
                "it is truncated, with rows for {limbs} of {} limbs, and OpenFHE's key switch indexes the whole chain; make \
                 the key for every limb",
                shape.num_q()
            );
            return Err(Error::NotExported { key: name.to_string(), why });
        }
        Ok(Exported { element: name.key.map_element(shape.ring_dim()), segment })
    }
}

impl Exported {
    /// Writes the key; the error of a row goes to `fault`.
    fn write<W: Write>(&self, writer: &mut EvaluationKeyWriter<W>, fault: &RefCell<Option<Error>>) -> io::Result<()> {
        if let Some(element) = self.element {
            writer.element(element)?;
        }
        let header = &self.segment.header;
        let shape = &header.shape;
        let row = |part, digit, limb| {
            let row = shape.row(usize::from(part == Part::B), digit, limb);
            let words = self.segment.row(row).map_err(|error| {
                *fault.borrow_mut() = Some(error);
                io::Error::other("a row could not be read")
            })?;
            Ok(Cow::Owned(words.words()[..shape.ring_dim()].to_vec()))
        };
        if !header.name.key.has_one_limb() {
            return writer.key(row);
        }
        let roots = minimal_roots(shape).map_err(|error| {
            *fault.borrow_mut() = Some(error);
            io::Error::other("a modulus without a root")
        })?;
        writer.key_over(shape.moduli(), &roots, row)
    }
}

/// The minimal primitive root of each modulus, as OpenFHE's contexts have them.
///
/// # Errors
/// `Shape`: a modulus that is not prime.
pub fn minimal_roots(shape: &Shape) -> Result<Vec<u64>> {
    let root = |&modulus: &u64| {
        let found = Modulus::new(modulus).and_then(|modulus| modulus.minimal_root(shape.ring_dim()));
        found.ok_or_else(|| Error::shape(format!("modulus {modulus} is not a prime that is 1 mod 2N")))
    };
    shape.moduli().iter().map(root).collect()
}
