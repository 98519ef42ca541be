//! The index: the content of the store, in one SQLite file. It repeats the headers, so that a store of many keys opens
//! without reading each. A lost or damaged index is built again from them.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::types::FromSql;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, Params, Row, TransactionBehavior, params};

use penstock_ckks::Process;

use crate::{Digest, Error, Header, KeyId, KeyName, Layout, Result, Shape, Tenant, WORD_BYTES};

/// "pstk": tells the file from other SQLite files.
const APPLICATION_ID: i64 = 0x7073_746b;
const VERSION: i64 = 2;
/// An index of this version knows neither forms nor pairs; it is brought up to date when it is opened.
const BEFORE_FORMS: i64 = 1;
const BUSY: Duration = Duration::from_secs(20);

const TABLE: &str = "
CREATE TABLE keys (
    tenant TEXT NOT NULL, digest TEXT NOT NULL, key TEXT NOT NULL,
    ring_dim INTEGER NOT NULL, num_q INTEGER NOT NULL, digits INTEGER NOT NULL, moduli BLOB NOT NULL,
    secret_tag TEXT NOT NULL, header_checksum INTEGER NOT NULL,
    pair INTEGER NOT NULL, limbs INTEGER NOT NULL, seeded INTEGER NOT NULL,
    PRIMARY KEY (tenant, digest, key, pair)
) WITHOUT ROWID;
CREATE INDEX keys_of_secret ON keys (secret_tag);
CREATE INDEX keys_of_pair ON keys (tenant, digest, pair);";
/// From the first version: every key was full, and of the first pair.
const MIGRATION: &str = "
INSERT INTO keys SELECT tenant, digest, key, ring_dim, num_q, digits, moduli, secret_tag, header_checksum, 1, num_q, 0
FROM keys_1;
DROP TABLE keys_1;";
/// Tenants that replace their key pair: the next import of another secret key begins the new one.
const REPLACEMENTS: &str = "
CREATE TABLE IF NOT EXISTS replacements (
    tenant TEXT NOT NULL, digest TEXT NOT NULL, PRIMARY KEY (tenant, digest)
) WITHOUT ROWID;";
/// Keys whose row and segment may not be one: being replaced, or lost. A key without a row here is settled.
const UNSETTLED: &str = "
CREATE TABLE IF NOT EXISTS unsettled (path TEXT PRIMARY KEY, lost INTEGER NOT NULL) WITHOUT ROWID;";

/// What the store knows of a key without opening its segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub name: KeyName,
    /// Of this key; [`Shape::set`] has that of the parameters.
    pub shape: Shape,
    /// Which rows its segment stores.
    pub layout: Layout,
    pub secret_tag: String,
    /// Of the segment's header: another import of the same key has another one.
    pub header_checksum: u64,
}

/// Which of a key's imports the index names, and what it can be used for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub pair: u32,
    pub secret_tag: String,
    pub header_checksum: u64,
    /// Limbs that its rows reach.
    pub limbs: usize,
}

impl Entry {
    /// Bytes of the segment.
    pub fn bytes(&self) -> u64 {
        Header::segment_bytes(&self.shape, self.layout)
    }

    /// Bytes that a key switch at `limbs` limbs reads from storage.
    pub fn stored_bytes(&self, limbs: usize) -> u64 {
        self.layout.stored_bytes(&self.shape, limbs)
    }
}

impl From<&Header> for Entry {
    fn from(header: &Header) -> Self {
        Self {
            name: header.name.clone(),
            shape: header.shape.clone(),
            layout: header.layout(),
            secret_tag: header.secret_tag.clone(),
            header_checksum: header.checksum(),
        }
    }
}

pub(crate) struct Index {
    path: PathBuf,
    /// SQLite forbids the use of a connection in a child of the process that opened it.
    process: Process,
    connection: Mutex<Connection>,
}

impl Index {
    /// Opens the index, or makes an empty one. A file that is not an index of this version is moved to `*.damaged`.
    /// Returns whether that happened.
    pub(crate) fn open(path: &Path) -> Result<(Self, bool)> {
        refuse_link(path)?;
        match connect(path) {
            Ok(connection) => Ok((Self::of(path, connection), false)),
            Err(source) if is_damage(&source) => Ok((Self::anew(path)?, true)),
            Err(source) => Err(Error::Index { path: path.to_owned(), source }),
        }
    }

    /// Opens an index that may not be written to. `None`: no readable index; and whether it is damaged.
    pub(crate) fn open_reading(path: &Path) -> Result<(Option<Self>, bool)> {
        refuse_link(path)?;
        match connect_reading(path) {
            Ok(connection) => Ok((connection.map(|made| Self::of(path, made)), false)),
            Err(source) if is_damage(&source) => Ok((None, true)),
            // Missing, another user's, or left by a killed process with changes to take back.
            Err(source) if is_unusable(&source) => Ok((None, false)),
            Err(source) => Err(Error::Index { path: path.to_owned(), source }),
        }
    }

    /// An empty index in memory, in the place of the one at `path`.
    pub(crate) fn in_memory(path: &Path) -> Result<Self> {
        let made = Connection::open_in_memory().and_then(|connection| {
            connection.execute_batch(&[TABLE, UNSETTLED, REPLACEMENTS].concat())?;
            Ok(connection)
        });
        let connection = made.map_err(|source| Error::Index { path: path.to_owned(), source })?;
        Ok(Self::of(path, connection))
    }

    /// A copy in memory, without rows that make no sense.
    pub(crate) fn copied(&self) -> Result<Self> {
        let copy = Self::in_memory(&self.path)?;
        for entry in self.all()? {
            copy.put(&entry)?;
        }
        for lost in [false, true] {
            for name in self.unsettled(lost)? {
                copy.change(|made| unsettle(made, &name, lost))?;
            }
        }
        Ok(copy)
    }

    /// An empty index in the place of the one at `path`, which is moved to `*.damaged`.
    pub(crate) fn anew(path: &Path) -> Result<Self> {
        let aside = path.with_extension("sqlite.damaged");
        std::fs::rename(path, &aside).map_err(|error| Error::io(path, "move away", error))?;
        let connection = connect(path).map_err(|source| Error::Index { path: path.to_owned(), source })?;
        Ok(Self::of(path, connection))
    }

    fn of(path: &Path, connection: Connection) -> Self {
        Self { path: path.to_owned(), process: Process::this(), connection: Mutex::new(connection) }
    }

    fn connection(&self) -> Result<MutexGuard<'_, Connection>> {
        if !self.process.is_this() {
            return Err(Error::Forked { what: format!("the key store with the index {}", self.path.display()) });
        }
        Ok(self.connection.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn failed(&self) -> impl Fn(rusqlite::Error) -> Error + '_ {
        |source| Error::Index { path: self.path.clone(), source }
    }

    /// Every readable row, in the order of names. Rows that make no sense are left out: their segments are read anew.
    pub(crate) fn all(&self) -> Result<Vec<Entry>> {
        let connection = self.connection()?;
        let mut statement =
            connection.prepare("SELECT * FROM keys ORDER BY tenant, digest, pair, key").map_err(self.failed())?;
        let rows = statement.query_map([], |row| Ok(entry(row).ok())).map_err(self.failed())?;
        rows.filter_map(|row| row.map_err(self.failed()).transpose()).collect()
    }

    pub(crate) fn get(&self, name: &KeyName) -> Result<Option<Entry>> {
        let found = self
            .connection()?
            .query_row(
                "SELECT * FROM keys WHERE tenant = ?1 AND digest = ?2 AND key = ?3 AND pair = ?4",
                params![name.tenant.as_str(), name.digest.to_string(), name.key.to_string(), name.pair],
                |row| Ok(entry(row).ok()),
            )
            .optional()
            .map_err(self.failed())?;
        Ok(found.flatten())
    }

    /// Of a key's rows what tells its imports apart, one for each pair that has the key, oldest first: cheap enough to be
    /// asked at every use of a key.
    pub(crate) fn identities(&self, tenant: &Tenant, digest: Digest, key: KeyId) -> Result<Vec<Identity>> {
        let connection = self.connection()?;
        let found = connection.prepare(
            "SELECT pair, secret_tag, header_checksum, limbs FROM keys WHERE tenant = ?1 AND digest = ?2 AND key = ?3 \
             ORDER BY pair",
        );
        let rows = found.and_then(|mut statement| {
            let identity = |row: &Row<'_>| {
                Ok(Identity {
                    pair: row.get(0)?,
                    secret_tag: row.get(1)?,
                    header_checksum: row.get::<_, i64>(2)?.cast_unsigned(),
                    limbs: usize::try_from(row.get::<_, i64>(3)?).unwrap_or(0),
                })
            };
            statement.query_map(params![tenant.as_str(), digest.to_string(), key.to_string()], identity)?.collect()
        });
        rows.map_err(self.failed())
    }

    /// The first value that a query finds.
    fn first<T: FromSql>(&self, query: &str, of: impl Params) -> Result<Option<T>> {
        self.connection()?.query_row(query, of, |row| row.get(0)).optional().map_err(self.failed())
    }

    /// The oldest pair of which a tenant has a key.
    pub(crate) fn oldest_pair(&self, tenant: &Tenant, digest: Digest) -> Result<Option<u32>> {
        const OLDEST: &str = "SELECT pair FROM keys WHERE tenant = ?1 AND digest = ?2 ORDER BY pair LIMIT 1";
        self.first(OLDEST, params![tenant.as_str(), digest.to_string()])
    }

    /// The pair of a tenant whose keys were made from this secret key.
    pub(crate) fn pair_of_secret(&self, tenant: &Tenant, digest: Digest, tag: &str) -> Result<Option<u32>> {
        const PAIR: &str = "SELECT pair FROM keys WHERE tenant = ?1 AND digest = ?2 AND secret_tag = ?3 LIMIT 1";
        self.first(PAIR, params![tenant.as_str(), digest.to_string(), tag])
    }

    /// Whether a tenant's next pair may be imported.
    pub(crate) fn is_replaced(&self, tenant: &Tenant, digest: Digest) -> Result<bool> {
        const BEGUN: &str = "SELECT 1 FROM replacements WHERE tenant = ?1 AND digest = ?2";
        Ok(self.first::<i64>(BEGUN, params![tenant.as_str(), digest.to_string()])?.is_some())
    }

    /// Notes that a tenant's next pair may be imported, or not any more.
    pub(crate) fn replace(&self, tenant: &Tenant, digest: Digest, begun: bool) -> Result<()> {
        let change = if begun {
            "INSERT OR REPLACE INTO replacements VALUES (?1, ?2)"
        } else {
            "DELETE FROM replacements WHERE tenant = ?1 AND digest = ?2"
        };
        self.change(|made| made.execute(change, params![tenant.as_str(), digest.to_string()]).map(drop))
    }

    /// The row of a key whose segment is known to be the one of `entry`: the key is settled.
    pub(crate) fn put(&self, entry: &Entry) -> Result<()> {
        let set = entry.shape.set();
        let moduli: Vec<u8> = set.moduli().iter().flat_map(|modulus| modulus.to_le_bytes()).collect();
        self.change(|made| {
            made.execute(
                "INSERT OR REPLACE INTO keys VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
                params![
                    entry.name.tenant.as_str(),
                    entry.name.digest.to_string(),
                    entry.name.key.to_string(),
                    set.ring_dim() as i64,
                    set.num_q() as i64,
                    set.digits() as i64,
                    moduli,
                    entry.secret_tag,
                    entry.header_checksum.cast_signed(),
                    entry.name.pair,
                    entry.layout.limbs as i64,
                    entry.layout.seeded,
                ],
            )?;
            settle(made, &entry.name)
        })
    }

    /// Forgets what a tenant has begun.
    pub(crate) fn forget_replacements(&self, tenant: &Tenant) -> Result<()> {
        self.change(|made| made.execute("DELETE FROM replacements WHERE tenant = ?1", [tenant.as_str()]).map(drop))
    }

    /// Forgets a key.
    pub(crate) fn remove(&self, name: &KeyName) -> Result<()> {
        self.change(|made| {
            unlist(made, name)?;
            settle(made, name)
        })
    }

    /// Notes that the segment of a key is about to be another one than its row says.
    pub(crate) fn replacing(&self, name: &KeyName) -> Result<()> {
        self.change(|made| unsettle(made, name, false))
    }

    /// Lists a key no more, and notes that its segment is gone, unless somebody has removed the row meanwhile.
    pub(crate) fn lose(&self, name: &KeyName) -> Result<()> {
        self.change(|made| if unlist(made, name)? == 0 { Ok(()) } else { unsettle(made, name, true) })
    }

    /// Row and segment of a key agree again in their present state.
    pub(crate) fn settle(&self, name: &KeyName) -> Result<()> {
        self.change(|made| settle(made, name))
    }

    /// The lost keys, or else the keys whose replacement was cut off.
    pub(crate) fn unsettled(&self, lost: bool) -> Result<Vec<KeyName>> {
        let connection = self.connection()?;
        let mut statement =
            connection.prepare("SELECT path FROM unsettled WHERE lost = ?1 ORDER BY path").map_err(self.failed())?;
        let paths: Vec<String> =
            statement.query_map([lost], |row| row.get(0)).and_then(|rows| rows.collect()).map_err(self.failed())?;
        Ok(paths.iter().filter_map(|path| KeyName::from_path(path)).collect())
    }

    /// All of `change`, or nothing.
    fn change(&self, change: impl FnOnce(&Connection) -> rusqlite::Result<()>) -> Result<()> {
        let mut connection = self.connection()?;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate);
        let done = transaction.and_then(|made| {
            change(&made)?;
            made.commit()
        });
        done.map_err(self.failed())
    }

    /// Removes the rows that `Index::all` leaves out.
    pub(crate) fn remove_unreadable(&self) -> Result<usize> {
        let connection = self.connection()?;
        let mut statement = connection.prepare("SELECT * FROM keys").map_err(self.failed())?;
        let unreadable = |row: &Row<'_>| -> rusqlite::Result<Option<(String, String, String, i64)>> {
            Ok(if entry(row).is_ok() { None } else { Some((row.get(0)?, row.get(1)?, row.get(2)?, row.get(9)?)) })
        };
        let names: Vec<(String, String, String, i64)> = statement
            .query_map([], unreadable)
            .and_then(|rows| rows.filter_map(Result::transpose).collect())
            .map_err(self.failed())?;
        for (tenant, digest, key, pair) in &names {
            connection
                .execute(
                    "DELETE FROM keys WHERE tenant = ?1 AND digest = ?2 AND key = ?3 AND pair = ?4",
                    params![tenant, digest, key, pair],
                )
                .map_err(self.failed())?;
        }
        Ok(names.len())
    }
}

fn unlist(connection: &Connection, name: &KeyName) -> rusqlite::Result<usize> {
    connection.execute(
        "DELETE FROM keys WHERE tenant = ?1 AND digest = ?2 AND key = ?3 AND pair = ?4",
        params![name.tenant.as_str(), name.digest.to_string(), name.key.to_string(), name.pair],
    )
}

fn unsettle(connection: &Connection, name: &KeyName, lost: bool) -> rusqlite::Result<()> {
    connection.execute("INSERT OR REPLACE INTO unsettled VALUES (?1, ?2)", params![name.path(), lost]).map(drop)
}

fn settle(connection: &Connection, name: &KeyName) -> rusqlite::Result<()> {
    connection.execute("DELETE FROM unsettled WHERE path = ?1", [name.path()]).map(drop)
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let mut connection = Connection::open(path)?;
    connection.busy_timeout(BUSY)?;
    let made = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let pragma = |name: &str| made.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let tables: i64 = made.query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get(0))?;
    if tables == 0 {
        made.execute_batch(TABLE)?;
        made.pragma_update(None, "application_id", APPLICATION_ID)?;
        made.pragma_update(None, "user_version", VERSION)?;
    } else if (pragma("application_id")?, pragma("user_version")?) == (APPLICATION_ID, BEFORE_FORMS) {
        made.execute_batch("DROP INDEX IF EXISTS keys_of_secret; ALTER TABLE keys RENAME TO keys_1")?;
        made.execute_batch(TABLE)?;
        made.execute_batch(MIGRATION)?;
        made.pragma_update(None, "user_version", VERSION)?;
    } else if (pragma("application_id")?, pragma("user_version")?) != (APPLICATION_ID, VERSION) {
        return Err(rusqlite::Error::InvalidQuery);
    }
    // A view may have rows without an end, a trigger may refuse every import.
    const FOREIGN: &str = "SELECT count(*) FROM sqlite_master WHERE type NOT IN ('table', 'index')";
    if made.query_row(FOREIGN, [], |row| row.get::<_, i64>(0))? != 0 {
        return Err(rusqlite::Error::InvalidQuery);
    }
    made.execute_batch(&[UNSETTLED, REPLACEMENTS].concat())?;
    made.query_row("SELECT count(*) FROM keys", [], |row| row.get::<_, i64>(0))?;
    made.commit()?;
    Ok(connection)
}

/// As `connect`, without any write; missing tables are made in memory. `None`: an index of the first version.
fn connect_reading(path: &Path) -> rusqlite::Result<Option<Connection>> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    connection.busy_timeout(BUSY)?;
    connection.pragma_update(None, "temp_store", "memory")?;
    let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    match (pragma("application_id")?, pragma("user_version")?) {
        (APPLICATION_ID, BEFORE_FORMS) => return Ok(None),
        (APPLICATION_ID, VERSION) => {}
        _ => return Err(rusqlite::Error::InvalidQuery),
    }
    connection.query_row("SELECT count(*) FROM keys", [], |row| row.get::<_, i64>(0))?;
    for (table, made) in [("unsettled", UNSETTLED), ("replacements", REPLACEMENTS)] {
        let known = "SELECT count(*) FROM sqlite_master WHERE name = ?1";
        if connection.query_row(known, [table], |row| row.get::<_, i64>(0))? == 0 {
            connection.execute_batch(&made.replace("CREATE TABLE", "CREATE TEMP TABLE"))?;
        }
    }
    Ok(Some(connection))
}

fn refuse_link(path: &Path) -> Result<()> {
    if path.is_symlink() {
        let link = std::io::Error::other("it is a link, and no link in a store is followed: put the file there");
        return Err(Error::io(path, "open", link));
    }
    Ok(())
}

fn is_unusable(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(code, Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::PermissionDenied))
}

/// Whether the file itself is at fault, not the disk or its permissions.
pub(crate) fn is_damage(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(code, Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt))
        || matches!(error, rusqlite::Error::InvalidQuery)
        || matches!(error, rusqlite::Error::SqlInputError { .. } | rusqlite::Error::InvalidColumnType(..))
        || matches!(error, rusqlite::Error::FromSqlConversionFailure(..) | rusqlite::Error::Utf8Error(..))
        || (code == Some(ErrorCode::Unknown) && error.to_string().contains("no such table"))
}

fn entry(row: &Row<'_>) -> Result<Entry> {
    let unreadable = |_| Error::of_source("a row of the index is unreadable");
    let text = |at: usize| row.get::<_, String>(at).map_err(unreadable);
    let number = |at: usize| row.get::<_, i64>(at).map_err(unreadable);
    let count = |at: usize| number(at).map(|value| usize::try_from(value).unwrap_or(usize::MAX));
    let moduli: Vec<u8> = row.get(6).map_err(unreadable)?;
    let moduli: Vec<u64> = moduli.as_chunks::<WORD_BYTES>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    let num_q = count(4)?.min(moduli.len());
    let key = text(2)?.parse::<KeyId>()?;
    let shape = Shape::new(count(3)?, &moduli[..num_q], &moduli[num_q..], count(5)?)?.for_key(key)?;
    let layout = Layout { limbs: count(10)?, seeded: number(11)? != 0 };
    shape.check_limbs(layout.limbs)?;
    let pair = u32::try_from(number(9)?).unwrap_or(0);
    if pair < KeyName::FIRST_PAIR {
        return Err(Error::of_source("a row of the index has a pair that no key has"));
    }
    let name = KeyName { pair, ..KeyName::new(Tenant::new(&text(0)?)?, text(1)?.parse()?, key) };
    if shape.digest() != name.digest {
        return Err(Error::of_source("a row of the index has another digest than its moduli"));
    }
    Ok(Entry { name, shape, layout, secret_tag: text(7)?, header_checksum: number(8)?.cast_unsigned() })
}
