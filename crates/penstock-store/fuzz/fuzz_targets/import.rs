//! Bytes that claim to be keys of OpenFHE's: parsed, every word checked, a segment made. The first byte is the number of
//! limbs of Q that the caller names.
#![no_main]

use libfuzzer_sys::fuzz_target;
use penstock_store::{Checked, KeyContent, KeyId, KeyName, OpenFheKey, Tenant};

fuzz_target!(|input: &[u8]| {
    let Some((&num_q, bytes)) = input.split_first() else { return };
    let Ok(keys) = OpenFheKey::parse(bytes, usize::from(num_q)) else { return };
    for key in &keys {
        let tenant = Tenant::new("t").expect("a name");
        let id = key.id().unwrap_or(KeyId::Relin);
        let name = KeyName::new(tenant, key.shape().digest(), id);
        if let Ok(checked) = Checked::new(name, key) {
            checked.write(&mut std::io::sink()).expect("what was checked can be written");
        }
    }
});
