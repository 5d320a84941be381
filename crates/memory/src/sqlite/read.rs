//! Reads of memories. Each read is limited to one owner.

use provost_core::{MemoryId, TypedId};
use provost_store::Tx;
use provost_store::table::memory::entry::{self, MemoryRow, MemoryRowFilter};
use provost_store::table::memory::owner as owners;
use uuid::Uuid;

use crate::MemoryError;
use crate::memory::{Memory, MemoryCategory, MemorySource, Owner};
use crate::store::{ListRequest, MemoryFilter, MemoryPage, PAGE_MAX};

/// Returns the stored form of an id.
pub(super) fn id_bytes(id: MemoryId) -> [u8; 16] {
    id.uuid().into_bytes()
}

/// Decodes a stored id.
fn id_of(bytes: &[u8]) -> Result<MemoryId, MemoryError> {
    let uuid = Uuid::from_slice(bytes);
    uuid.map(MemoryId::from_uuid)
        .map_err(|error| MemoryError::CorruptFile(format!("a memory id: {error}")))
}

/// Returns the part of a filter that the database checks. [`MemoryFilter::matches`] checks the metadata.
pub(super) fn row_filter(filter: &MemoryFilter) -> MemoryRowFilter<'static> {
    MemoryRowFilter {
        category: filter.category.map(|category| category.as_str()),
        since: filter.since,
        include_superseded: false,
    }
}

/// Returns a memory, current or superseded. `None` if the owner has none with this id.
pub(super) fn get(
    tx: &mut Tx<'_>,
    owner: &Owner,
    id: MemoryId,
) -> Result<Option<Memory>, MemoryError> {
    let Some(no) = owners::number(tx, owner.as_str())? else {
        return Ok(None);
    };
    Ok(find(tx, owner, no, id)?.map(|(_, memory)| memory))
}

/// Returns a memory and its row number. `None` if the owner has none with this id.
pub(super) fn find(
    tx: &mut Tx<'_>,
    owner: &Owner,
    no: i64,
    id: MemoryId,
) -> Result<Option<(i64, Memory)>, MemoryError> {
    let Some(row) = entry::find(tx, no, &id_bytes(id))? else {
        return Ok(None);
    };
    Ok(Some((row.seq, memory(tx, owner, row)?)))
}

/// Returns the memory with a row number. `None` if it does not belong to the owner.
pub(super) fn at(
    tx: &mut Tx<'_>,
    owner: &Owner,
    no: i64,
    seq: i64,
) -> Result<Option<Memory>, MemoryError> {
    let row = entry::at(tx, no, seq)?;
    row.map(|row| memory(tx, owner, row)).transpose()
}

/// Returns a page of memories, newest first.
pub(super) fn list(
    tx: &mut Tx<'_>,
    owner: &Owner,
    request: &ListRequest,
) -> Result<MemoryPage, MemoryError> {
    let Some(no) = owners::number(tx, owner.as_str())? else {
        return Ok(MemoryPage::default());
    };
    let limit = request.limit.clamp(1, PAGE_MAX);
    let filter = MemoryRowFilter {
        include_superseded: request.include_superseded,
        ..row_filter(&request.filter)
    };
    let mut memories = Vec::new();
    let mut after = request.after.map(|id| id_bytes(id).to_vec());
    let mut has_rows = true;
    // One additional memory shows that another page exists. The metadata filter may reject rows of a batch.
    while has_rows && memories.len() <= limit {
        let rows = entry::newest(tx, no, &filter, after.as_deref(), limit + 1)?;
        has_rows = rows.len() > limit;
        after = rows.last().map(|last| last.id.clone());
        for row in rows {
            let memory = memory(tx, owner, row)?;
            if request.filter.matches(&memory) {
                memories.push(memory);
            }
        }
    }
    let has_more = memories.len() > limit;
    memories.truncate(limit);
    let next = memories.last().filter(|_| has_more).map(|last| last.id);
    Ok(MemoryPage { memories, next })
}

/// Returns the number of the owner's current memories.
pub(super) fn count(tx: &mut Tx<'_>, owner: &Owner) -> Result<u64, MemoryError> {
    let no = owners::number(tx, owner.as_str())?;
    no.map_or(Ok(0), |no| Ok(entry::count(tx, no)?))
}

/// Decodes a row and reads the sources of its memory.
fn memory(tx: &mut Tx<'_>, owner: &Owner, row: MemoryRow) -> Result<Memory, MemoryError> {
    let metadata = serde_json::from_str(&row.metadata)
        .map_err(|error| MemoryError::CorruptFile(format!("the metadata of a memory: {error}")))?;
    let sources = entry::sources(tx, row.seq)?.into_iter();
    Ok(Memory {
        id: id_of(&row.id)?,
        owner: owner.clone(),
        text: row.text,
        category: row.category.and_then(|name| MemoryCategory::from_name(&name)),
        metadata,
        sources: sources
            .map(|source| MemorySource { session: source.session, message: source.message })
            .collect(),
        created_at: row.created_at,
        updated_at: row.updated_at,
        valid_from: row.valid_from,
        superseded_by: row.superseded_by.map(|id| id_of(&id)).transpose()?,
    })
}
