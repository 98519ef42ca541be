//! What a file may declare. A reader refuses more before it allocates, so that a small hostile file takes little
//! memory; each limit is well above what programs have.

/// ResNet-20 has 50,000; a table of this many takes 200 MB.
pub const MAX_INSTRUCTIONS: u32 = 10_000_000;
/// Operands of all instructions: four for each.
pub const MAX_OPERANDS: u32 = 40_000_000;
/// Uses of constants by all instructions, at most as many.
pub const MAX_USES: u32 = 40_000_000;
/// ResNet-20 has 5,000; their index takes 50 bytes each.
pub const MAX_CONSTANTS: u32 = 1_000_000;
/// Values of a constant: the slots of a ring of [`MAX_RING_DIM`].
pub const MAX_VALUES: u32 = 1 << 17;
/// Twice the largest ring of the security tables.
pub const MAX_RING_DIM: u32 = 1 << 18;
/// Limbs of Q. A chain of 30-bit primes for 3,000 bits has 100.
pub const MAX_LIMBS: u32 = 1 << 10;
/// Series of a program: one for each activation, at most.
pub const MAX_SERIES: u32 = 100_000;
/// Coefficients of one series. A degree above some hundreds is not evaluated.
pub const MAX_SERIES_COEFFICIENTS: u32 = 1 << 16;
/// Coefficients of all series: 80 MB.
pub const MAX_COEFFICIENTS: u32 = 10_000_000;
/// Openings of scopes.
pub const MAX_SCOPES: u32 = 1_000_000;
/// Inputs, and as many outputs: one ciphertext each.
pub const MAX_INPUTS: u32 = 100_000;
/// Evaluation keys: one for each rotation, at most all of a ring.
pub const MAX_KEYS: u32 = MAX_RING_DIM;
/// Bytes of a name or a description.
pub const MAX_TEXT: usize = 4096;
/// Bytes of all names.
pub const MAX_TEXTS: u32 = 64 << 20;
/// Bytes of a JSON text: the parameter set, and the provenance.
pub const MAX_JSON: u32 = 1 << 20;
/// Forms of a constant inside each other.
pub const MAX_NESTING: u32 = 4;
/// Entries of a dictionary of values.
pub const MAX_DICTIONARY: u32 = 1 << 16;
/// Bytes of a stored constant: complex values as float64, with what their forms add.
pub const MAX_BLOB: u32 = 16 * MAX_VALUES + 4096;
