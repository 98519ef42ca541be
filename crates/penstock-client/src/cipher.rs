//! Encryption, with the public key or the secret one, and decryption.

use penstock_ckks::kernels::Digit;
use penstock_ckks::openfhe_bytes::CiphertextWriter;
use penstock_ckks::{Ciphertext, CiphertextHeader, Complex, Plaintext, SeededBytes, ciphertext_tag};
use penstock_seed::expand;
use zeroize::Zeroize;

use crate::decode::{decoded, integers, slots_of};
use crate::error::{Error, Result};
use crate::phase::Phase;
use crate::protected::Protected;
use crate::public::PublicKey;
use crate::random::{Stream, public_seed};
use crate::ring::Ring;
use crate::sample::{FloodingPlan, errors, ternary};
use crate::secret::SecretKey;

/// The header of a result, as its program gives it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stated {
    /// RNS limbs.
    pub limbs: usize,
    /// Power of the scale.
    pub degree: u32,
    /// The factor that values are multiplied by.
    pub scale: f64,
    /// Values that it holds.
    pub slots: u32,
}

/// The share by which a scale may differ from its program's: doubles are multiplied in another order.
const SAME_SCALE: f64 = 1.0 / (1u64 << 30) as f64;

impl Ring {
    /// Encodes values and encrypts them with the public key, in OpenFHE's bytes.
    ///
    /// # Errors
    /// [`Error::Ring`]: they cannot be encoded. [`Error::Random`]: the system has no random bytes.
    pub fn encrypt(&self, public: &PublicKey, values: &[Complex], limbs: usize, degree: u32) -> Result<Vec<u8>> {
        let plain = self.encoded(values, limbs, degree)?;
        let n = self.ring_dim();
        let (mut mask, mut small) = (Protected::<u64>::new(n), Protected::<i8>::new(n));
        ternary(&mut Stream::new()?, &mut small);
        for (word, value) in mask.iter_mut().zip(small.iter()) {
            *word = i64::from(*value) as u64;
        }
        let mut noise = Protected::<u64>::new(2 * n);
        errors(&mut Stream::new()?, &mut noise);
        let mut rows = vec![0; 2 * limbs * n];
        let (first, second) = rows.split_at_mut(limbs * n);
        let jobs = first.chunks_exact_mut(n).zip(second.chunks_exact_mut(n)).enumerate().collect();
        self.context().each(jobs, |(limb, (c0, c1))| {
            let (kernels, p) = (self.kernels(), &self.primes()[limb]);
            let (mut v, mut e) = (Protected::<u64>::new(n), Protected::<u64>::new(n));
            self.evaluated(limb, &mask, &mut v);
            for (polynomial, out) in [c0, c1].into_iter().enumerate() {
                self.product(limb, public.row(self, polynomial, limb), &v, out);
                self.evaluated(limb, &noise[polynomial * n..(polynomial + 1) * n], &mut e);
                kernels.add(p, out, &e);
                if polynomial == 0 {
                    kernels.add(p, out, &plain.words()[limb * n..(limb + 1) * n]);
                }
            }
            Ok(())
        })?;
        let made = self.context().ciphertext_from_rows(&self.header(2, limbs, &plain), &rows)?;
        let writer = CiphertextWriter::of(self.described(), public.tag())?;
        Ok(self.context().export(&made, &writer)?)
    }

    /// Encodes values and encrypts them with the secret key: half the bytes, `docs/guides/client.md` has their format.
    ///
    /// # Errors
    /// As [`Ring::encrypt`].
    pub fn encrypt_seeded(&self, secret: &SecretKey, values: &[Complex], limbs: usize, degree: u32) -> Result<Vec<u8>> {
        let secret = secret.here(self)?;
        let plain = self.encoded(values, limbs, degree)?;
        let n = self.ring_dim();
        let seed = public_seed()?;
        let mut noise = Protected::<u64>::new(n);
        errors(&mut Stream::new()?, &mut noise);
        let mut rows = vec![0; limbs * n];
        self.context().each(rows.chunks_exact_mut(n).enumerate().collect(), |(limb, c0)| {
            let (kernels, p) = (self.kernels(), &self.primes()[limb]);
            let mut c1 = vec![0; n];
            expand(&seed, 0, limb as u32, p.modulus.value(), &mut c1);
            let mut product = Protected::<u64>::new(n);
            self.product(limb, &c1, secret.row(limb), &mut product);
            self.evaluated(limb, &noise, c0);
            kernels.subtract(p, c0, &product);
            kernels.add(p, c0, &plain.words()[limb * n..(limb + 1) * n]);
            Ok(())
        })?;
        let writer = CiphertextWriter::of(self.described(), secret.tag())?;
        let header = self.header(1, limbs, &plain);
        Ok(SeededBytes::write(writer.prefix(), &self.described().moduli[..limbs], &header, &rows, &seed)?)
    }

    /// `c0 + c1 s (+ c2 s^2)` at each limb, in evaluation order: the message and its error.
    ///
    /// # Errors
    /// [`Error::Ring`]: not a ciphertext of these parameters. [`Error::Value`]: of another key pair.
    pub fn phase(&self, secret: &SecretKey, ciphertext: &[u8]) -> Result<Phase> {
        self.phase_of(secret, &self.own(secret, ciphertext)?)
    }

    /// A ciphertext of the pair.
    fn own(&self, secret: &SecretKey, ciphertext: &[u8]) -> Result<Ciphertext> {
        let tag = ciphertext_tag(ciphertext)?;
        if tag.as_deref().is_some_and(|tag| tag != secret.tag()) {
            let what = format!("a ciphertext of key pair {}", tag.unwrap_or_default());
            return Err(Error::value(what, format!("decrypt it with its own, this is {}", secret.tag())));
        }
        Ok(self.context().import(ciphertext)?)
    }

    fn phase_of(&self, secret: &SecretKey, read: &Ciphertext) -> Result<Phase> {
        let secret = secret.here(self)?;
        let (n, limbs) = (self.ring_dim(), read.limbs());
        let mut words = Protected::<u64>::new(limbs * n);
        self.context().each(words.chunks_exact_mut(n).enumerate().collect(), |(limb, out)| {
            let (kernels, p) = (self.kernels(), &self.primes()[limb]);
            let s = secret.row(limb);
            let row = |polynomial: usize| &read.words(polynomial)[limb * n..(limb + 1) * n];
            let mut square = Protected::<u64>::new(if read.polynomials() > 2 { n } else { 0 });
            if read.polynomials() > 2 {
                self.product(limb, s, s, &mut square);
                let digits = [Digit { row: row(1), canonical: true }, Digit { row: row(2), canonical: true }];
                kernels.sum_of_products(p, &digits, &[s, &square], out);
            } else {
                self.product(limb, row(1), s, out);
            }
            kernels.add(p, out, row(0));
            Ok(())
        })?;
        Ok(Phase { words, limbs, scale: read.scale(), slots: read.slots() as usize })
    }

    /// Holds a result to its header alone, which tells nothing of the secret: as [`Ring::decrypt`] does first.
    ///
    /// # Errors
    /// As [`Ring::decrypt`], but for values.
    pub fn check_result(&self, secret: &SecretKey, ciphertext: &[u8], stated: &Stated) -> Result<()> {
        self.check_header(&self.own(secret, ciphertext)?, Some(stated))
    }

    /// Whether the header of a result is the one that its program states; without a program, one of the set's.
    fn check_header(&self, read: &Ciphertext, stated: Option<&Stated>) -> Result<()> {
        let wrong = |what, found: String, whose, expected: String| Err(Error::Header { what, found, whose, expected });
        let (whose, slots) = match stated {
            Some(stated) => ("its program states", stated.slots),
            None => ("the parameter set has", self.described().slots),
        };
        if read.slots() != slots {
            return wrong("slots", read.slots().to_string(), whose, slots.to_string());
        }
        let (scale, least, most) = match stated {
            Some(stated) => {
                if read.limbs() != stated.limbs {
                    return wrong("limbs", read.limbs().to_string(), whose, stated.limbs.to_string());
                }
                if read.degree() != stated.degree {
                    return wrong("degree", read.degree().to_string(), whose, stated.degree.to_string());
                }
                (stated.scale, 1.0 - SAME_SCALE, 1.0 + SAME_SCALE)
            }
            // Scales of one degree and as many limbs differ by their primes' distance from a power of two.
            None => (self.context().scale_of_degree(read.limbs(), read.degree())?, 0.5, 2.0),
        };
        if (least..=most).contains(&(read.scale() / scale)) {
            return Ok(());
        }
        wrong("scale", format!("2^{:.2}", read.scale().log2()), whose, format!("2^{:.2}", scale.log2()))
    }

    /// The slots of a ciphertext, imaginary parts left out; `keep_imaginary` keeps them, and nothing tells then whether
    /// they are error.
    ///
    /// `stated`: the header that the result's program gives it; else the header is held against the set.
    /// `flooding`: noise of this plan is added to each coefficient before it is decoded, so that a result can go to
    /// somebody else; `docs/guides/client.md` says how much noise that takes. A product that was not rescaled is rescaled first
    /// where it has limbs: its error is stated at degree 1, and is far wider before.
    ///
    /// # Errors
    /// As [`Ring::phase`]; [`Error::Header`]: not the header of such a result. [`Error::Drowned`]: the values outgrew
    /// the modulus. [`Error::Imaginary`]: they are complex, and no noise hides it.
    pub fn decrypt(
        &self,
        secret: &SecretKey,
        ciphertext: &[u8],
        stated: Option<&Stated>,
        flooding: Option<&FloodingPlan>,
        keep_imaginary: bool,
    ) -> Result<Vec<Complex>> {
        let mut read = self.own(secret, ciphertext)?;
        self.check_header(&read, stated)?;
        while flooding.is_some() && read.degree() > 1 && read.limbs() > 1 {
            read = self.context().rescale_now(&read)?;
        }
        let phase = self.phase_of(secret, &read)?;
        let mut coefficients = integers(self, &phase)?;
        if let Some(plan) = flooding {
            let mut stream = Stream::new()?;
            for coefficient in coefficients.iter_mut() {
                let mut noise = plan.sample(&mut stream);
                coefficient.add_noise(noise);
                noise.zeroize();
            }
        }
        if flooding.is_none() && !keep_imaginary {
            return decoded(self, &phase, &coefficients);
        }
        let mut values = slots_of(self, &phase, &coefficients);
        if !keep_imaginary {
            values.iter_mut().for_each(|value| value[1] = 0.0); // of a real result, noise
        }
        Ok(values)
    }

    fn encoded(&self, values: &[Complex], limbs: usize, degree: u32) -> Result<Plaintext> {
        self.check_limbs(limbs)?;
        Ok(self.context().encode(values, limbs, degree, self.described().slots as usize)?)
    }

    fn header(&self, polynomials: usize, limbs: usize, plain: &Plaintext) -> CiphertextHeader {
        CiphertextHeader {
            polynomials,
            limbs,
            degree: plain.degree(),
            scale: plain.scale(),
            slots: self.described().slots,
        }
    }
}
