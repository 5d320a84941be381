//! Reading memories, always within one owner.

use provost_core::{MemoryId, Timestamp, TypedId};
use rusqlite::types::Value as Cell;
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};
use uuid::Uuid;

use crate::MemoryError;
use crate::memory::{Category, Memory, Owner, Source};
use crate::store::{Filter, Listing, PAGE_MAX, Page};

const COLUMNS: &str =
    "seq, id, text, category, metadata, created_at, updated_at, valid_from, superseded_by";

/// The owner's number, if it has anything here.
pub(super) fn owner_no(db: &Connection, owner: &Owner) -> Result<Option<i64>, MemoryError> {
    let mut statement = db.prepare_cached("SELECT no FROM owner WHERE name = ?")?;
    Ok(statement.query_row([owner.as_str()], |row| row.get(0)).optional()?)
}

/// An id as it is stored.
pub(super) fn id_bytes(id: MemoryId) -> [u8; 16] {
    id.uuid().into_bytes()
}

fn id_of(bytes: &[u8]) -> Result<MemoryId, MemoryError> {
    let uuid = Uuid::from_slice(bytes);
    uuid.map(MemoryId::from_uuid)
        .map_err(|error| MemoryError::File(format!("a memory id: {error}")))
}

pub(super) fn get(
    db: &Connection,
    owner: &Owner,
    id: MemoryId,
) -> Result<Option<Memory>, MemoryError> {
    let Some(no) = owner_no(db, owner)? else {
        return Ok(None);
    };
    Ok(find(db, owner, no, id)?.map(|(_, memory)| memory))
}

/// A memory and its place in the file.
pub(super) fn find(
    db: &Connection,
    owner: &Owner,
    no: i64,
    id: MemoryId,
) -> Result<Option<(i64, Memory)>, MemoryError> {
    let sql = format!("SELECT {COLUMNS} FROM memory WHERE owner = ? AND id = ?");
    let mut statement = db.prepare_cached(&sql)?;
    let mut rows = statement.query(params![no, id_bytes(id)])?;
    rows.next()?.map(|row| memory(db, owner, row)).transpose()
}

/// The memory at a place in the file, if it is the owner's.
pub(super) fn at(
    db: &Connection,
    owner: &Owner,
    no: i64,
    seq: i64,
) -> Result<Option<Memory>, MemoryError> {
    let sql = format!("SELECT {COLUMNS} FROM memory WHERE owner = ? AND seq = ?");
    let mut statement = db.prepare_cached(&sql)?;
    let mut rows = statement.query([no, seq])?;
    let found = rows.next()?.map(|row| memory(db, owner, row)).transpose()?;
    Ok(found.map(|(_, memory)| memory))
}

pub(super) fn list(db: &Connection, owner: &Owner, page: &Page) -> Result<Listing, MemoryError> {
    let Some(no) = owner_no(db, owner)? else {
        return Ok(Listing::default());
    };
    let limit = page.limit.clamp(1, PAGE_MAX);
    let mut sql = format!("SELECT {COLUMNS} FROM memory WHERE owner = ?");
    let mut cells = vec![Cell::Integer(no)];
    if !page.history {
        sql.push_str(" AND superseded_by IS NULL");
    }
    if let Some(after) = page.after {
        sql.push_str(" AND id < ?");
        cells.push(Cell::Blob(id_bytes(after).to_vec()));
    }
    narrow(&page.filter, &mut sql, &mut cells);
    sql.push_str(" ORDER BY id DESC");
    let mut statement = db.prepare_cached(&sql)?;
    let mut rows = statement.query(params_from_iter(cells))?;
    let mut memories = Vec::new();
    let mut more = false;
    while let Some(row) = rows.next()? {
        let (_, memory) = memory(db, owner, row)?;
        if !page.filter.passes(&memory) {
            continue;
        }
        more = memories.len() == limit;
        if more {
            break;
        }
        memories.push(memory);
    }
    let next = memories.last().filter(|_| more).map(|last| last.id);
    Ok(Listing { memories, next })
}

/// Narrows a query to what a filter may let through; values of the metadata are left to [`Filter::passes`].
pub(super) fn narrow(filter: &Filter, sql: &mut String, cells: &mut Vec<Cell>) {
    if let Some(category) = filter.category {
        sql.push_str(" AND category = ?");
        cells.push(Cell::Text(category.as_str().to_owned()));
    }
    if let Some(since) = filter.since {
        sql.push_str(" AND valid_from >= ?");
        cells.push(Cell::Integer(since.as_millis()));
    }
}

pub(super) fn count(db: &Connection, owner: &Owner) -> Result<u64, MemoryError> {
    let Some(no) = owner_no(db, owner)? else {
        return Ok(0);
    };
    let sql = "SELECT count(*) FROM memory WHERE owner = ? AND superseded_by IS NULL";
    let count: i64 = db.prepare_cached(sql)?.query_row([no], |row| row.get(0))?;
    Ok(u64::try_from(count).unwrap_or(0))
}

fn memory(db: &Connection, owner: &Owner, row: &Row<'_>) -> Result<(i64, Memory), MemoryError> {
    let seq: i64 = row.get(0)?;
    let id: Vec<u8> = row.get(1)?;
    let category: Option<String> = row.get(3)?;
    let metadata: String = row.get(4)?;
    let superseded_by: Option<Vec<u8>> = row.get(8)?;
    let moment = |at: usize| row.get(at).map(Timestamp::from_millis);
    let metadata = serde_json::from_str(&metadata)
        .map_err(|error| MemoryError::File(format!("the metadata of a memory: {error}")))?;
    let memory = Memory {
        id: id_of(&id)?,
        owner: owner.clone(),
        text: row.get(2)?,
        category: category.and_then(|name| Category::named(&name)),
        metadata,
        sources: sources(db, seq)?,
        created_at: moment(5)?,
        updated_at: moment(6)?,
        valid_from: moment(7)?,
        superseded_by: superseded_by.map(|id| id_of(&id)).transpose()?,
    };
    Ok((seq, memory))
}

fn sources(db: &Connection, seq: i64) -> Result<Vec<Source>, MemoryError> {
    let mut statement =
        db.prepare_cached("SELECT session, message FROM source WHERE seq = ? ORDER BY 1, 2")?;
    let rows = statement
        .query_map([seq], |row| Ok(Source { session: row.get(0)?, message: row.get(1)? }))?;
    Ok(rows.collect::<Result<_, _>>()?)
}
