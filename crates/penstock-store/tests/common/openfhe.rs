//! What OpenFHE 1.6.1 serializes (BINARY), made when the tests start by `openfhe_samples.py`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::Folder;

/// N = 16, 3 limbs of Q, 2 digits.
pub struct Samples {
    /// The map of the rotations by 1 and 2.
    pub rotations: Vec<u8>,
    /// The relinearization key alone.
    pub relin: Vec<u8>,
    /// What `SerializeEvalAutomorphismKey` and `SerializeEvalMultKey` write of one secret key.
    pub context_rotations: Vec<u8>,
    pub context_relin: Vec<u8>,
    /// Rotation keys of two secret keys in one file.
    pub two_secrets: Vec<u8>,
    /// `EvalMultKeysGen`: keys for the square and the cube of the secret.
    pub powers: Vec<u8>,
    /// N = 512: the keys of a bootstrapping with an ephemeral sparse secret, as a map and as a context's.
    pub encapsulated: Vec<u8>,
    pub context_encapsulated: Vec<u8>,
    /// The tag of their secret key.
    pub encapsulated_tag: String,
}

/// `None`, and a line that says so, where no Python of this checkout has OpenFHE.
pub fn samples() -> Option<&'static Samples> {
    static MADE: OnceLock<Option<Samples>> = OnceLock::new();
    MADE.get_or_init(make).as_ref()
}

fn make() -> Option<Samples> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = std::env::var_os("PENSTOCK_PYTHON").map_or_else(|| here.join("../../.venv/bin/python"), PathBuf::from);
    let has_openfhe =
        Command::new(&python).args(["-c", "import openfhe"]).output().is_ok_and(|run| run.status.success());
    if !has_openfhe {
        eprintln!("skipped: {} has no OpenFHE; 'make setup' installs it", python.display());
        return None;
    }
    let folder = Folder::new();
    let run = Command::new(&python).arg(here.join("tests/openfhe_samples.py")).arg(folder.path()).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let read = |name: &str| std::fs::read(folder.path().join(format!("{name}.bin"))).unwrap();
    Some(Samples {
        rotations: read("rotations"),
        relin: read("relin"),
        context_rotations: read("context-rotations"),
        context_relin: read("context-relin"),
        two_secrets: read("two-secrets"),
        powers: read("powers"),
        encapsulated: read("encapsulated"),
        context_encapsulated: read("context-encapsulated"),
        encapsulated_tag: std::fs::read_to_string(folder.path().join("encapsulated.txt")).unwrap(),
    })
}
