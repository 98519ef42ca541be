//! What names a key: the tenant, the parameters and the key's id.

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use penstock_ckks::openfhe_bytes::{to_dense_element, to_sparse_element};
use penstock_operations::KeyKind;

use crate::{Digest, Error, Result, Shape};

/// One owner of keys. Letters, digits, `.`, `_` and `-`, at most 64 of them, the first a letter or digit: the name is
/// a folder's name on every file system and in every object store.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tenant(String);

impl Tenant {
    pub const MAX_BYTES: usize = 64;

    pub fn new(name: &str) -> Result<Self> {
        const RULE: &str = "letters, digits, '.', '_' and '-', at most 64, the first a letter or a digit";
        let allowed = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'_' | b'-');
        let starts = name.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric);
        if !starts || name.len() > Self::MAX_BYTES || !name.bytes().all(allowed) {
            return Err(Error::value("tenant", format!("'{name}'"), RULE));
        }
        Ok(Self(name.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tenant({})", self.0)
    }
}

/// Which evaluation key of a tenant, as traces write it: a kind, and of a rotation its Galois element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeyId {
    Relin,
    Conj,
    /// The Galois element of the automorphism, an odd number below 2N.
    Rot(u64),
    /// From the pair's secret to the ephemeral sparse one under which the modulus is raised: one digit over other
    /// moduli ([`crate::Shape::for_key`]).
    ToSparse,
    /// From the ephemeral sparse secret back: rows as of the other keys.
    ToDense,
    /// From the secret of a smaller ring, in X^(N/n), to the ephemeral sparse one, with the shape of `to-sparse`.
    FromSmall,
    /// From the square of that secret.
    FromSmallSquared,
}

/// What a key can be called.
static KEY_RULE: LazyLock<String> = LazyLock::new(|| {
    let end = |kind: KeyKind| if kind.is_of_element() { ":<galois_element>" } else { "" };
    let names = KeyId::KINDS.map(|id| format!("{}{}", id.kind().name(), end(id.kind())));
    format!("{} or {}", names[..names.len() - 1].join(", "), names[names.len() - 1])
});

impl KeyId {
    /// A key of each kind, by the number of the kind in headers, which never changes.
    pub(crate) const KINDS: [KeyId; 7] = [
        KeyId::Relin,
        KeyId::Conj,
        KeyId::Rot(0),
        KeyId::ToSparse,
        KeyId::ToDense,
        KeyId::FromSmall,
        KeyId::FromSmallSquared,
    ];

    pub fn kind(self) -> KeyKind {
        match self {
            KeyId::Relin => KeyKind::Relin,
            KeyId::Conj => KeyKind::Conj,
            KeyId::Rot(_) => KeyKind::Rot,
            KeyId::ToSparse => KeyKind::ToSparse,
            KeyId::ToDense => KeyKind::ToDense,
            KeyId::FromSmall => KeyKind::FromSmall,
            KeyId::FromSmallSquared => KeyKind::FromSmallSquared,
        }
    }

    /// The key's file name without its ending: no colon, which some file systems refuse.
    pub fn file_stem(self) -> String {
        self.to_string().replace(':', "-")
    }

    /// The key with this number in OpenFHE's maps of automorphism keys: the conjugation's is 2N - 1, and the keys to and
    /// from the sparse secret have even numbers, as no automorphism has.
    pub fn automorphism(galois_element: u64, ring_dim: usize) -> Self {
        match galois_element {
            _ if galois_element == 2 * ring_dim as u64 - 1 => KeyId::Conj,
            _ if galois_element == u64::from(to_sparse_element(ring_dim)) => KeyId::ToSparse,
            _ if galois_element == u64::from(to_dense_element(ring_dim)) => KeyId::ToDense,
            _ => KeyId::Rot(galois_element),
        }
    }

    /// Whether it has one digit over q_0 and auxiliary primes: the keys to the ephemeral sparse secret.
    pub fn has_one_limb(self) -> bool {
        self.kind().is_ephemeral()
    }

    /// Whether it comes from the secret of a smaller ring. OpenFHE has no such keys.
    pub fn is_from_small(self) -> bool {
        matches!(self, KeyId::FromSmall | KeyId::FromSmallSquared)
    }

    /// Its number in OpenFHE's maps of automorphism keys; `None`: the relinearization key, or one that OpenFHE has not.
    pub fn map_element(self, ring_dim: usize) -> Option<u32> {
        match self {
            KeyId::Relin | KeyId::FromSmall | KeyId::FromSmallSquared => None,
            KeyId::Conj => Some(2 * ring_dim as u32 - 1),
            KeyId::Rot(element) => Some(element as u32),
            KeyId::ToSparse => Some(to_sparse_element(ring_dim)),
            KeyId::ToDense => Some(to_dense_element(ring_dim)),
        }
    }

    pub fn check(self, ring_dim: usize) -> Result<()> {
        match self {
            KeyId::Rot(element) if element % 2 == 0 || element < 3 || element >= 2 * ring_dim as u64 - 1 => {
                const RULE: &str = "a Galois element is odd, above 1 and below 2N - 1, which is the conjugation's";
                Err(Error::value("key", self, RULE))
            }
            _ => Ok(()),
        }
    }
}

impl Shape {
    /// The shape of a key of these parameters. A key to the sparse secret has one digit, one limb of Q, and in the
    /// place of P the auxiliary primes of OpenFHE 1.6.1 ([`penstock_ckks::auxiliary_moduli`]): the sparse secret never
    /// meets a larger modulus. All other keys have the shape of the set.
    ///
    /// # Errors
    /// `Shape`: there are no such primes for so large an N.
    pub fn for_key(&self, key: KeyId) -> Result<Self> {
        let set = self.set();
        if !key.has_one_limb() {
            return Ok(set.clone());
        }
        let Some(auxiliary) = penstock_ckks::auxiliary_moduli(set.ring_dim(), set.moduli()) else {
            return Err(Error::shape(format!("N = {}: no key to a sparse secret has so large an N", set.ring_dim())));
        };
        set.special(&set.moduli()[..1], &auxiliary, 1)
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind().name())?;
        if let KeyId::Rot(element) = self { write!(f, ":{element}") } else { Ok(()) }
    }
}

impl FromStr for KeyId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, digits) = text.split_once(':').unwrap_or((text, "0"));
        let known = match KeyId::KINDS.into_iter().find(|id| id.kind().name() == name) {
            Some(KeyId::Rot(_)) => digits.parse().ok().map(KeyId::Rot),
            other => other,
        };
        // One spelling a key: no sign, no leading zero.
        let known = known.filter(|id| id.to_string() == text);
        known.ok_or_else(|| Error::value("key", format!("'{text}'"), &KEY_RULE))
    }
}

/// One key of one tenant under one set of parameters: the unit of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyName {
    pub tenant: Tenant,
    pub digest: Digest,
    /// Which of the tenant's key pairs: 1, or more after the pair was replaced.
    pub pair: u32,
    pub key: KeyId,
}

impl KeyName {
    pub const FIRST_PAIR: u32 = 1;

    /// A key of the tenant's first pair.
    pub fn new(tenant: Tenant, digest: Digest, key: KeyId) -> Self {
        Self { tenant, digest, pair: Self::FIRST_PAIR, key }
    }

    /// Keys with the same value have one shape.
    pub fn shape_name(&self) -> (Digest, bool) {
        (self.digest, self.key.has_one_limb())
    }

    /// The path of the key's segment below the store's root, with `/` between the parts.
    pub fn path(&self) -> String {
        let folder = if self.pair == Self::FIRST_PAIR { String::new() } else { format!("{PAIR_PREFIX}{}/", self.pair) };
        format!("{}/{}/{folder}{}.{SEGMENT_ENDING}", self.tenant, self.digest, self.key.file_stem())
    }

    /// The key whose segment lies at `path`; `None` for any other file.
    pub fn from_path(path: &str) -> Option<Self> {
        let (tenant, digest, pair, file) = match path.split('/').collect::<Vec<_>>()[..] {
            [tenant, digest, file] => (tenant, digest, Self::FIRST_PAIR, file),
            [tenant, digest, pair, file] => (tenant, digest, pair.strip_prefix(PAIR_PREFIX)?.parse().ok()?, file),
            _ => return None,
        };
        let stem = file.strip_suffix(SEGMENT_ENDING)?.strip_suffix('.')?;
        let name = Self {
            tenant: Tenant::new(tenant).ok()?,
            digest: digest.parse().ok()?,
            pair,
            key: stem.parse().or_else(|_| stem.replacen('-', ":", 1).parse()).ok()?,
        };
        (pair >= Self::FIRST_PAIR && name.path() == path).then_some(name)
    }

    /// Whether the file at `path` lies in a folder of keys: what lies elsewhere is not the store's, whatever its name.
    pub fn in_folder_of_keys(path: &str) -> bool {
        let keys = |tenant: &str, digest: &str| Tenant::new(tenant).is_ok() && digest.parse::<Digest>().is_ok();
        match path.split('/').collect::<Vec<_>>()[..] {
            [tenant, digest, _] => keys(tenant, digest),
            [tenant, digest, pair, _] => keys(tenant, digest) && pair.starts_with(PAIR_PREFIX),
            _ => false,
        }
    }
}

impl fmt::Display for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of tenant '{}'", self.key, self.tenant)?;
        if self.pair == Self::FIRST_PAIR { Ok(()) } else { write!(f, " (key pair {})", self.pair) }
    }
}

/// How the names of segment files end.
pub const SEGMENT_ENDING: &str = "pkey";
/// Folders of the pairs that replaced a tenant's first one.
const PAIR_PREFIX: &str = "pair-";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::shape;

    #[test]
    fn key_ids_have_one_spelling() {
        for text in
            ["relin", "conj", "rot:5", "rot:131069", "to-sparse", "to-dense", "from-small", "from-small-squared"]
        {
            assert_eq!(text.parse::<KeyId>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "rot",
            "to:sparse",
            "to-",
            "To-dense",
            "rot:",
            "rot:05",
            "rot:+5",
            "rot:-1",
            "Relin",
            "rot:5 ",
            "rot:99999999999999999999",
        ] {
            assert!(text.parse::<KeyId>().is_err(), "{text}");
        }
    }

    #[test]
    fn keys_of_every_kind_are_stored_but_rotations_of_the_small_ring() {
        let stored = KeyId::KINDS.map(KeyId::kind);
        for kind in KeyKind::ALL {
            assert_eq!(stored.contains(&kind), kind != KeyKind::RotSmall, "{}", kind.name());
        }
        let rule = "rot".parse::<KeyId>().unwrap_err().to_string();
        assert!(
            rule.ends_with("relin, conj, rot:<galois_element>, to-sparse, to-dense, from-small or from-small-squared")
        );
    }

    #[test]
    fn galois_elements_are_odd_and_between_one_and_the_conjugation() {
        for element in [3, 5, 61] {
            assert!(KeyId::Rot(element).check(32).is_ok(), "{element}");
            assert_eq!(KeyId::Rot(element).map_element(32), Some(element as u32));
        }
        for element in [0, 1, 2, 4, 62, 63, 64, 65, u64::MAX] {
            assert!(KeyId::Rot(element).check(32).is_err(), "{element}");
        }
        assert_eq!((KeyId::Conj.map_element(32), KeyId::Relin.map_element(32)), (Some(63), None));
    }

    #[test]
    fn tenants_cannot_leave_their_folder() {
        for name in ["", ".", "..", "a/b", "../b", ".hidden", "-x", "ä", "a b", "a\0", &"x".repeat(65)] {
            assert!(Tenant::new(name).is_err(), "{name}");
        }
        for name in ["alice", "a", "A-1_b.c", &"x".repeat(64)] {
            assert!(Tenant::new(name).is_ok(), "{name}");
        }
    }

    #[test]
    fn a_path_names_one_key() {
        let digest = "0123456789abcdef0123456789abcdef";
        let name = KeyName::new(Tenant::new("al-ice").unwrap(), digest.parse().unwrap(), KeyId::Rot(5));
        assert_eq!(name.path(), format!("al-ice/{digest}/rot-5.pkey"));
        let second = KeyName { pair: 2, ..name.clone() };
        assert_eq!(second.path(), format!("al-ice/{digest}/pair-2/rot-5.pkey"));
        let others = [KeyId::Relin, KeyId::ToSparse, KeyId::ToDense].map(|key| KeyName { key, ..name.clone() });
        assert_eq!(others[1].path(), format!("al-ice/{digest}/to-sparse.pkey"));
        for each in [name, second].into_iter().chain(others) {
            assert_eq!(KeyName::from_path(&each.path()), Some(each));
        }
        for other in [
            "al-ice/rot-5.pkey",
            "index.sqlite",
            &format!("a/{digest}/rot-05.pkey"),
            &format!("a/{digest}/to:sparse.pkey"),
        ] {
            assert_eq!(KeyName::from_path(other), None, "{other}");
        }
        for folder in ["pair-0", "pair-1", "pair-02", "pair-", "pair-x", "2", "pair-99999999999"] {
            assert_eq!(KeyName::from_path(&format!("a/{digest}/{folder}/relin.pkey")), None, "{folder}");
        }
    }

    #[test]
    fn the_key_to_the_sparse_secret_has_a_shape_of_its_own() {
        let set = shape(64, 5, 2, 3);
        for key in [KeyId::Relin, KeyId::Rot(5), KeyId::Conj, KeyId::ToDense] {
            assert_eq!(set.for_key(key).unwrap(), set);
        }
        let own = set.for_key(KeyId::ToSparse).unwrap();
        assert_eq!((own.num_q(), own.num_p(), own.digits(), own.num_rows()), (1, 2, 1, 6));
        assert_eq!(own.moduli()[0], set.moduli()[0]);
        assert!(own.moduli()[1..].iter().all(|p| p >> 32 == 1 && p % 128 == 1 && !set.moduli().contains(p)));
        assert_eq!((own.digest(), own.set()), (set.digest(), &set));
        assert_eq!((own.for_key(KeyId::ToSparse).unwrap(), own.for_key(KeyId::Conj).unwrap()), (own.clone(), set));
        // 2 parts x 3 rows x N x 8 bytes.
        assert_eq!(shape(1 << 16, 11, 4, 3).for_key(KeyId::ToSparse).unwrap().bytes_needed(1), 6 << 19);
        assert!(own.check_limbs(2).is_err());
    }
}
