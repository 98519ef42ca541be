//! A decrypted ciphertext before it is decoded.

use crate::protected::Protected;

/// A decrypted ciphertext before it is decoded. It is wiped when it is dropped.
pub struct Phase {
    /// `limbs * N` words, canonical, in evaluation order.
    pub words: Protected<u64>,
    /// Its limbs.
    pub limbs: usize,
    /// The factor that values are multiplied by.
    pub scale: f64,
    /// Values that it holds.
    pub slots: usize,
}
