//! Reading memories, always within one owner.

use provost_core::{MemoryId, TypedId};
use provost_store::Tx;
use provost_store::table::memory::entry::{self, MemoryFilter, MemoryRow};
use provost_store::table::memory::owner as owners;
use uuid::Uuid;

use crate::MemoryError;
use crate::memory::{Category, Memory, Owner, Source};
use crate::store::{Filter, Listing, PAGE_MAX, Page};

/// An id as it is stored.
pub(super) fn id_bytes(id: MemoryId) -> [u8; 16] {
    id.uuid().into_bytes()
}

fn id_of(bytes: &[u8]) -> Result<MemoryId, MemoryError> {
    let uuid = Uuid::from_slice(bytes);
    uuid.map(MemoryId::from_uuid)
        .map_err(|error| MemoryError::File(format!("a memory id: {error}")))
}

/// The part of a filter that the database checks; values of the metadata are left to [`Filter::passes`].
pub(super) fn row_filter(filter: &Filter) -> MemoryFilter<'static> {
    MemoryFilter {
        category: filter.category.map(|category| category.as_str()),
        since: filter.since,
        history: false,
    }
}

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

/// A memory and its place in the file.
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

/// The memory at a place in the file, if it is the owner's.
pub(super) fn at(
    tx: &mut Tx<'_>,
    owner: &Owner,
    no: i64,
    seq: i64,
) -> Result<Option<Memory>, MemoryError> {
    let row = entry::at(tx, no, seq)?;
    row.map(|row| memory(tx, owner, row)).transpose()
}

pub(super) fn list(tx: &mut Tx<'_>, owner: &Owner, page: &Page) -> Result<Listing, MemoryError> {
    let Some(no) = owners::number(tx, owner.as_str())? else {
        return Ok(Listing::default());
    };
    let limit = page.limit.clamp(1, PAGE_MAX);
    let filter = MemoryFilter { history: page.history, ..row_filter(&page.filter) };
    let mut memories = Vec::new();
    let mut after = page.after.map(|id| id_bytes(id).to_vec());
    let mut has_rows = true;
    // One more than wanted tells whether there are more. The metadata may leave out some of the rows.
    while has_rows && memories.len() <= limit {
        let rows = entry::newest(tx, no, &filter, after.as_deref(), limit + 1)?;
        has_rows = rows.len() > limit;
        after = rows.last().map(|last| last.id.clone());
        for row in rows {
            let memory = memory(tx, owner, row)?;
            if page.filter.passes(&memory) {
                memories.push(memory);
            }
        }
    }
    let more = memories.len() > limit;
    memories.truncate(limit);
    let next = memories.last().filter(|_| more).map(|last| last.id);
    Ok(Listing { memories, next })
}

pub(super) fn count(tx: &mut Tx<'_>, owner: &Owner) -> Result<u64, MemoryError> {
    let no = owners::number(tx, owner.as_str())?;
    no.map_or(Ok(0), |no| Ok(entry::count(tx, no)?))
}

fn memory(tx: &mut Tx<'_>, owner: &Owner, row: MemoryRow) -> Result<Memory, MemoryError> {
    let metadata = serde_json::from_str(&row.metadata)
        .map_err(|error| MemoryError::File(format!("the metadata of a memory: {error}")))?;
    let sources = entry::sources(tx, row.seq)?.into_iter();
    Ok(Memory {
        id: id_of(&row.id)?,
        owner: owner.clone(),
        text: row.text,
        category: row.category.and_then(|name| Category::named(&name)),
        metadata,
        sources: sources
            .map(|source| Source { session: source.session, message: source.message })
            .collect(),
        created_at: row.created_at,
        updated_at: row.updated_at,
        valid_from: row.valid_from,
        superseded_by: row.superseded_by.map(|id| id_of(&id)).transpose()?,
    })
}
