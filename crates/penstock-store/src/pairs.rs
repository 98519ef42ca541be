//! Key pairs of one tenant: which one a key belongs to, and how a new one takes the place of the old.
//!
//! A tenant has one pair for one set of parameters. After [`Store::replace`] the keys of another secret key are imported
//! as its next pair, while jobs with the old one go on: each session sees one pair. [`Store::retire`] removes the old keys
//! once no session uses them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::PathBuf;

use crate::index::Identity;
use crate::store::open_shared;
use crate::{Digest, Error, Garbage, KeyId, KeyName, Result, Store, Tenant};

impl Store {
    /// Begins a new key pair: the next import of another secret key is its first key. Until then, and for sessions that
    /// are bound to it, the old pair stays. Returns the number of the new pair.
    ///
    /// # Errors
    /// `Value`: the tenant has no keys of these parameters. `ReadOnly`.
    pub fn replace(&self, tenant: &Tenant, digest: Digest) -> Result<u32> {
        self.check_writable()?;
        let lock = self.open_lock()?;
        lock.lock().map_err(|error| Error::io(&self.lock, "lock", error))?;
        let Some(newest) = self.pairs(tenant, digest)?.into_keys().next_back() else {
            const RULE: &str =
                "it has no keys of these parameters, so there is no pair to replace: import the new keys";
            return Err(Error::value("tenant", format!("'{tenant}'"), RULE));
        };
        self.index.replace(tenant, digest, true)?;
        Ok(newest + 1)
    }

    /// Removes the keys of every pair but the newest. A pair that a session uses, in any process, is named and kept: call
    /// again when its jobs have ended.
    ///
    /// # Errors
    /// `Value`: there is one pair. `ReadOnly`; `Io`: a file cannot be removed.
    pub fn retire(&self, tenant: &Tenant, digest: Digest) -> Result<Vec<Garbage>> {
        self.check_writable()?;
        let lock = self.open_lock()?;
        lock.lock().map_err(|error| Error::io(&self.lock, "lock", error))?;
        let pairs = self.pairs(tenant, digest)?;
        let Some(newest) = pairs.keys().next_back().copied().filter(|_| pairs.len() > 1) else {
            const RULE: &str = "it has one key pair for these parameters: begin a new one with 'penstock keys replace' and \
                                import its keys; then the old one is retired";
            return Err(Error::value("tenant", format!("'{tenant}'"), RULE));
        };
        let mut gone = vec![];
        for pair in pairs.into_keys().filter(|pair| *pair < newest) {
            let path = self.use_lock(tenant, digest, pair);
            let held = open_shared(&path)?;
            let in_use = held.try_lock().is_err();
            for entry in self.list_of(tenant, digest)?.into_iter().filter(|entry| entry.name.pair == pair) {
                if !in_use {
                    self.index.remove(&entry.name)?;
                    self.backend().remove(&entry.name.path())?;
                }
                let reason = if in_use { "a session uses its key pair" } else { "its key pair was replaced" };
                let (path, bytes) = (entry.name.path(), entry.bytes());
                gone.push(Garbage { path, bytes, reason: reason.into(), kept: in_use });
            }
            if !in_use {
                let _ = fs::remove_file(&path); // An empty file, which the next session of such a pair makes again.
            }
        }
        Ok(gone)
    }

    /// The pairs of a tenant, with the tags of their secret keys.
    ///
    /// # Errors
    /// `Index`.
    pub fn pairs(&self, tenant: &Tenant, digest: Digest) -> Result<BTreeMap<u32, BTreeSet<String>>> {
        let mut pairs: BTreeMap<u32, BTreeSet<String>> = BTreeMap::new();
        for entry in self.list_of(tenant, digest)? {
            pairs.entry(entry.name.pair).or_default().insert(entry.secret_tag);
        }
        Ok(pairs)
    }

    /// The pair that a key of this secret key belongs to, and whether it is the first key of a new one.
    pub(crate) fn pair_of(&self, tenant: &Tenant, digest: Digest, tag: &str) -> Result<(u32, bool)> {
        let others = self.list_of(tenant, digest)?;
        let begun = self.index.is_replaced(tenant, digest)?;
        let Some(newest) = others.iter().map(|entry| entry.name.pair).max() else {
            return Ok((KeyName::FIRST_PAIR, begun));
        };
        let oldest = others.iter().map(|entry| entry.name.pair).min().unwrap_or(newest);
        if let Some(same) = others.iter().find(|entry| !tag.is_empty() && entry.secret_tag == tag) {
            return Ok((same.name.pair, false));
        }
        let wrong = |rule: String| Err(Error::WrongSecret { found: tag.to_owned(), rule });
        if tag.is_empty() {
            return match oldest == newest && !begun {
                true => Ok((newest, false)),
                false => wrong(format!(
                    "which does not say to which of the key pairs of tenant '{tenant}' it belongs; write the keys with a tag"
                )),
            };
        }
        match others.iter().find(|entry| !entry.secret_tag.is_empty()) {
            None => Ok((newest, false)),
            Some(_) if begun => Ok((newest + 1, true)),
            Some(other) => wrong(format!(
                "and {} from the one with tag {}: one tenant has one secret key for one set of parameters; begin a new one \
                 with 'penstock keys replace --tenant {tenant} --params SET', import it for another tenant, or remove the \
                 old keys with 'penstock keys gc --tenant {tenant}'",
                other.name, other.secret_tag,
            )),
        }
    }

    /// The key that a session means: of the secret key with this tag, or else of the oldest pair there is.
    ///
    /// # Errors
    /// `Missing`; `OtherSecret`: no pair of this tag has the key, and another has.
    pub(crate) fn resolve(&self, asked: &KeyName, tag: Option<&str>) -> Result<(KeyName, Identity)> {
        let (tenant, digest) = (&asked.tenant, asked.digest);
        let found = self.index.identities(tenant, digest, asked.key)?;
        let none = found.is_empty();
        let chosen = match tag {
            Some(tag) => found.into_iter().find(|identity| identity.secret_tag == tag),
            // A key of the first pair is of the oldest one.
            None => match found.into_iter().next() {
                Some(first) if first.pair > KeyName::FIRST_PAIR => {
                    (self.index.oldest_pair(tenant, digest)? == Some(first.pair)).then_some(first)
                }
                first => first,
            },
        };
        match chosen {
            Some(identity) => Ok((KeyName { pair: identity.pair, ..asked.clone() }, identity)),
            None if none || tag.is_none() => Err(self.missing(asked)?),
            None => Err(Error::OtherSecret { tenant: tenant.to_string(), key: asked.key.to_string() }),
        }
    }

    /// The same of a pair that is known: which import of the key the index names now.
    pub(crate) fn identity(&self, name: &KeyName, tag: Option<&str>) -> Result<Identity> {
        let found = self.index.identities(&name.tenant, name.digest, name.key)?;
        match found.into_iter().find(|identity| identity.pair == name.pair) {
            None => Err(self.missing(name)?),
            Some(identity) if tag.is_none_or(|tag| identity.secret_tag == tag) => Ok(identity),
            Some(_) => Err(Error::OtherSecret { tenant: name.tenant.to_string(), key: name.key.to_string() }),
        }
    }

    /// The name that a session of this secret key gets for a key. If it gets none: the key of the oldest pair that has it.
    pub fn name_for(&self, tenant: &Tenant, digest: Digest, key: KeyId, tag: Option<&str>) -> KeyName {
        let asked = KeyName::new(tenant.clone(), digest, key);
        if let Ok((name, _)) = self.resolve(&asked, tag) {
            return name;
        }
        let first = self.index.identities(tenant, digest, key).ok().and_then(|found| found.into_iter().next());
        KeyName { pair: first.map_or(asked.pair, |identity| identity.pair), ..asked }
    }

    /// Whether keys of this secret key may be imported.
    ///
    /// # Errors
    /// `Index`.
    pub fn takes(&self, tenant: &Tenant, digest: Digest, tag: &str) -> Result<bool> {
        match self.pair_of(tenant, digest, tag) {
            Err(Error::WrongSecret { .. }) => Ok(false),
            found => found.map(|_| true),
        }
    }

    /// The pair that a session of this secret key uses; `None`: the tenant has no such keys.
    pub(crate) fn session_pair(&self, tenant: &Tenant, digest: Digest, tag: Option<&str>) -> Result<Option<u32>> {
        match tag {
            None => self.index.oldest_pair(tenant, digest),
            Some(tag) => self.index.pair_of_secret(tenant, digest, tag),
        }
    }

    /// Says that a pair is used, until the result is dropped or the process ends. `None`: nobody can be told, since the
    /// store is read-only here.
    pub(crate) fn hold(&self, tenant: &Tenant, digest: Digest, pair: u32) -> Result<Option<File>> {
        if self.read_only.is_some() {
            return Ok(None);
        }
        let path = self.use_lock(tenant, digest, pair);
        let held = open_shared(&path)?;
        held.lock_shared().map_err(|error| Error::io(&path, "lock", error))?;
        Ok(Some(held))
    }

    fn use_lock(&self, tenant: &Tenant, digest: Digest, pair: u32) -> PathBuf {
        self.lock.with_file_name(format!("use-{tenant}-{digest}-{pair}.lock"))
    }
}
