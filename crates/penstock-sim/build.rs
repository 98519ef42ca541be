//! Writes the registry of replacement policies: each file of `src/policy` but `mod.rs` is a module with an `ENTRY`.

use std::fmt::Write;
use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=src/policy");
    let from = |name| env::var(name).map_err(io::Error::other);
    let folder = Path::new(&from("CARGO_MANIFEST_DIR")?).join("src/policy");
    let mut files = fs::read_dir(&folder)?.map(|file| Ok(file?.path())).collect::<io::Result<Vec<_>>>()?;
    files.retain(|file| file.extension().is_some_and(|end| end == "rs") && !file.ends_with("mod.rs"));
    files.sort();
    let (mut modules, mut entries) = (String::new(), String::new());
    for file in &files {
        let name = file.file_stem().unwrap_or_default().display();
        let _ = writeln!(modules, "#[path = {:?}]\npub mod {name};", file.display().to_string());
        let _ = writeln!(entries, "    {name}::ENTRY,");
    }
    let registry = format!("{modules}\n/// All policies.\npub const POLICIES: &[PolicyEntry] = &[\n{entries}];\n");
    fs::write(Path::new(&from("OUT_DIR")?).join("policies.rs"), registry)
}
