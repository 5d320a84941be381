//! Measures and compacts a database.

use std::path::PathBuf;

use super::copy;
use crate::sqlite::{self, ConnectionRole, Sqlite};
use crate::table::state::meta;
use crate::transaction::tx::TxAttempt;
use crate::{Store, StoreError, StoreOptions, Tx, params};

/// Size and versions of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseSize {
    /// Path of the database file.
    pub path: PathBuf,
    /// Schema version.
    pub schema_version: u64,
    /// Number of restores.
    pub generation: u64,
    /// Size of the database file in bytes.
    pub bytes: u64,
    /// Unused bytes in the database file. [`Store::vacuum`] frees them.
    pub free_bytes: u64,
    /// Size of the write-ahead log in bytes.
    pub log_bytes: u64,
    /// Size of a page in bytes.
    pub page_bytes: u64,
    /// Number of pages in the database file.
    pub pages: u64,
    /// The tables, sorted by name.
    pub tables: Vec<TableSize>,
}

/// Size of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableSize {
    /// Name of the table.
    pub name: String,
    /// Number of rows.
    pub rows: u64,
}

impl Store {
    /// Measures the database. Counts every row, so it is slow for a large database.
    pub async fn size(&self) -> Result<DatabaseSize, StoreError> {
        self.blocking(size).await
    }

    /// Rewrites the database file without unused space. Writers wait meanwhile and may get [`StoreError::Busy`], so
    /// run it when the load is low.
    pub async fn vacuum(&self) -> Result<(), StoreError> {
        self.blocking(|options| sqlite::connect(options, ConnectionRole::Writer)?.batch("VACUUM"))
            .await
    }
}

/// Measures the database on a connection of its own. Counts every row.
fn size(options: &StoreOptions) -> Result<DatabaseSize, StoreError> {
    let mut db = sqlite::connect(options, ConnectionRole::Reader)?;
    let number = |db: &mut Sqlite, pragma: &str| {
        db.number(pragma).map(|number| u64::try_from(number).unwrap_or(0))
    };
    let pages = number(&mut db, "PRAGMA page_count")?;
    let page_bytes = number(&mut db, "PRAGMA page_size")?;
    let free_pages = number(&mut db, "PRAGMA freelist_count")?;
    let schema_version = number(&mut db, "PRAGMA user_version")?;
    let mut attempt = TxAttempt::new(&options.env);
    let mut tx = Tx::new(&mut db, &mut attempt);
    let log = std::fs::metadata(copy::with_suffix(&options.path, "-wal"));
    Ok(DatabaseSize {
        path: options.path.clone(),
        schema_version,
        generation: meta::generation(&mut tx)?,
        bytes: pages * page_bytes,
        free_bytes: free_pages * page_bytes,
        log_bytes: log.map_or(0, |file| file.len()),
        page_bytes,
        pages,
        tables: tables(&mut tx)?,
    })
}

/// Counts the rows of every table, sorted by name.
fn tables(tx: &mut Tx<'_>) -> Result<Vec<TableSize>, StoreError> {
    let names: Vec<String> = tx.fetch_all(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name",
        params![],
    )?;
    let count = |name: String| {
        // The names come from the schema itself, so they need no escaping.
        let rows = tx.fetch_one(&format!("SELECT count(*) FROM \"{name}\""), params![])?;
        Ok(TableSize { name, rows })
    };
    names.into_iter().map(count).collect()
}
