//! Ciphertexts from OpenFHE's bytes, and back.

use crate::cipher::Ciphertext;
use crate::context::Context;
use crate::error::Error;
use crate::openfhe_bytes::{CiphertextWriter, Stated, parse_ciphertext, read_row};
use crate::seeded::{SeededBytes, is_seeded};

/// The key pair that a serialized ciphertext states, OpenFHE's or a seeded one: 32 hexadecimal digits; `None`: none.
///
/// # Errors
/// [`Error::Bytes`]: no whole ciphertext.
pub fn ciphertext_tag(bytes: &[u8]) -> Result<Option<String>, Error> {
    if is_seeded(bytes) {
        return Ok(SeededBytes::parse(bytes)?.key_tag(bytes));
    }
    Ok(parse_ciphertext(bytes)?.key_tag)
}

impl Context {
    /// Reads a serialized ciphertext, OpenFHE's or a seeded one, and checks every word against its modulus.
    ///
    /// # Errors
    /// [`Error::Bytes`] or [`Error::Word`]: damaged or foreign bytes; [`Error::Operand`]: other parameters.
    pub fn import(&self, bytes: &[u8]) -> Result<Ciphertext, Error> {
        if is_seeded(bytes) {
            return self.import_seeded(bytes);
        }
        let parsed = parse_ciphertext(bytes)?;
        let n = self.ring_dim();
        let refused = |what: String, rule| Err(Error::Operand { operation: "import", what, rule });
        let moduli = parsed.moduli();
        if parsed.ring_dim != n || !self.parameters().moduli_q.starts_with(&moduli) {
            let what = format!("a ciphertext of N = {} and {} limbs", parsed.ring_dim, moduli.len());
            return refused(what, "its moduli are not the context's: import it with the parameters it was made with");
        }
        if parsed.level as usize != self.level(moduli.len()) {
            let what = format!("level {} with {} limbs", parsed.level, moduli.len());
            return refused(what, "each level has one limb less");
        }
        if !(2..=3).contains(&parsed.polynomials.len()) {
            return refused(format!("{} polynomials", parsed.polynomials.len()), "ciphertexts have 2, products 3");
        }
        // A scale of 0 is one that OpenFHE lost.
        let scale = if parsed.scale == 0.0 { 1.0 } else { parsed.scale };
        self.check_described(parsed.noise_scale_degree, scale, parsed.slots)?;
        let mut polynomials = Vec::with_capacity(parsed.polynomials.len());
        for _ in &parsed.polynomials {
            polynomials.push(self.arena.words(moduli.len() * n)?);
        }
        let rows = polynomials
            .iter_mut()
            .zip(&parsed.polynomials)
            .flat_map(|(words, spans)| words.chunks_exact_mut(n).zip(spans).enumerate());
        self.workers.each(rows.collect(), |(limb, (row, span))| read_row(bytes, span, limb, row))?;
        Ok(Ciphertext {
            polynomials,
            limbs: moduli.len(),
            ring_dim: n,
            degree: parsed.noise_scale_degree,
            scale: parsed.scale,
            slots: parsed.slots,
        })
    }

    fn import_seeded(&self, bytes: &[u8]) -> Result<Ciphertext, Error> {
        let parsed = SeededBytes::parse(bytes)?;
        let (n, limbs) = (self.ring_dim(), parsed.rows.len());
        let moduli = parsed.rows.iter().map(|row| row.modulus);
        if parsed.ring_dim != n
            || limbs > self.count_q()
            || !moduli.eq(self.parameters().moduli_q[..limbs].iter().copied())
        {
            let what = format!("a ciphertext of N = {} and {limbs} limbs", parsed.ring_dim);
            let rule = "its moduli are not the context's: import it with the parameters it was made with";
            return Err(Error::Operand { operation: "import", what, rule });
        }
        self.check_described(parsed.degree, parsed.scale, parsed.slots)?;
        let mut polynomials = vec![self.arena.words(limbs * n)?, self.arena.words(limbs * n)?];
        let rows = polynomials[0].chunks_exact_mut(n).zip(&parsed.rows).enumerate();
        self.workers.each(rows.collect(), |(limb, (row, span))| read_row(bytes, span, limb, row))?;
        self.expand_seed(&parsed.seed, &mut polynomials[1])?;
        let SeededBytes { degree, scale, slots, .. } = parsed;
        Ok(Ciphertext { polynomials, limbs, ring_dim: n, degree, scale, slots })
    }

    /// The bytes that OpenFHE reads; `writer` brings OpenFHE's context and the key's tag.
    ///
    /// # Errors
    /// [`Error::Operand`]: not of this context.
    pub fn export(&self, a: &Ciphertext, writer: &CiphertextWriter) -> Result<Vec<u8>, Error> {
        self.check("export", a)?;
        let stated =
            Stated { slots: a.slots, level: self.level(a.limbs) as u32, noise_scale_degree: a.degree, scale: a.scale };
        let rows: Vec<&[u64]> = (0..a.polynomials.len()).map(|p| a.words(p)).collect();
        writer.write(&stated, &self.parameters().moduli_q[..a.limbs], &self.roots()[..a.limbs], &rows)
    }
}
