//! How large the database is, and making it smaller.

use std::path::PathBuf;

use super::copy;
use crate::sqlite::{self, Role, Sqlite};
use crate::table::state::meta;
use crate::transaction::tx::Attempt;
use crate::{Store, StoreError, StoreOptions, Tx, params};

/// How large the database is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseSize {
    /// The database file.
    pub path: PathBuf,
    /// The version of its schema.
    pub schema_version: u64,
    /// How often it was restored.
    pub generation: u64,
    /// Bytes of the database file.
    pub bytes: u64,
    /// Bytes of it that nothing uses: [`Store::vacuum`] gives them back.
    pub free_bytes: u64,
    /// Bytes of the log beside it.
    pub log_bytes: u64,
    /// Bytes of one page.
    pub page_bytes: u64,
    /// Pages of the database file.
    pub pages: u64,
    /// The tables, by name.
    pub tables: Vec<TableSize>,
}

/// How large a table is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableSize {
    /// Its name.
    pub name: String,
    /// Its rows.
    pub rows: u64,
}

impl Store {
    /// How large the database is. Counts every row, so it takes its time on a large one.
    pub async fn size(&self) -> Result<DatabaseSize, StoreError> {
        self.blocking(size).await
    }

    /// Writes the database anew without what nothing uses. Writers wait meanwhile, and may meet [`StoreError::Busy`]:
    /// it is for quiet times.
    pub async fn vacuum(&self) -> Result<(), StoreError> {
        self.blocking(|options| sqlite::connect(options, Role::Writer)?.batch("VACUUM")).await
    }
}

fn size(options: &StoreOptions) -> Result<DatabaseSize, StoreError> {
    let mut db = sqlite::connect(options, Role::Reader)?;
    let number = |db: &mut Sqlite, pragma: &str| {
        db.number(pragma).map(|number| u64::try_from(number).unwrap_or(0))
    };
    let pages = number(&mut db, "PRAGMA page_count")?;
    let page_bytes = number(&mut db, "PRAGMA page_size")?;
    let free_pages = number(&mut db, "PRAGMA freelist_count")?;
    let schema_version = number(&mut db, "PRAGMA user_version")?;
    let mut attempt = Attempt::new(&options.env);
    let mut tx = Tx::new(&mut db, &mut attempt);
    let log = std::fs::metadata(copy::beside(&options.path, "-wal"));
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

fn tables(tx: &mut Tx<'_>) -> Result<Vec<TableSize>, StoreError> {
    let names: Vec<String> = tx.all(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name",
        params![],
    )?;
    let count = |name: String| {
        // The names come from the schema itself.
        let rows = tx.one(&format!("SELECT count(*) FROM \"{name}\""), params![])?;
        Ok(TableSize { name, rows })
    };
    names.into_iter().map(count).collect()
}
