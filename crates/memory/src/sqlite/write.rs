//! Changes and deletions of memories, inside a transaction of the caller.

use provost_core::MemoryId;
use provost_failpoint::failpoint;
use provost_store::Tx;
use provost_store::table::memory::entry::{self, IndexEntry, MemoryKey, MemoryRow, SourceRow};
use provost_store::table::memory::{forgotten, owner as owners, vector as vectors, word};

use super::read::{find, id_bytes};
use super::{index, job};
use crate::MemoryError;
use crate::in_memory::{apply_update, check_record, normalise};
use crate::memory::{Memory, MemorySource, Owner};
use crate::rank;
use crate::store::{ChangeSet, DeleteScope, Embedding, MemoryChange, MemoryRecord, RecordUpdate};

/// Maximum number of recorded deletions per owner. Vector indexes read these records to follow deletions. Beyond the
/// maximum, the records are cleared and every index of the owner is rebuilt.
const DELETION_RECORDS_MAX: u64 = 10_000;

/// Applies changes of one owner's memories in a transaction.
struct OwnerWriter<'a, 'tx> {
    tx: &'a mut Tx<'tx>,
    owner: &'a Owner,
    /// Number of the owner.
    no: i64,
    /// Number of this transaction in the owner's change sequence.
    change_no: i64,
    space: Option<String>,
}

/// Applies all changes of a set and finishes its job. Fails if a memory does not exist or is superseded, or if the
/// claim was lost; the caller rolls back.
pub(super) fn apply_changes(
    tx: &mut Tx<'_>,
    owner: &Owner,
    changes: &ChangeSet,
) -> Result<(), MemoryError> {
    if let Some(claim) = changes.finished_job {
        job::finish(tx, owner, claim)?;
    }
    failpoint!("memory.apply.middle");
    if changes.changes.is_empty() {
        return Ok(());
    }
    let no = owners::number_or_new(tx, owner.as_str())?;
    let stored = vectors::space(tx)?;
    let change_no = owners::next_change(tx, no)?;
    let mut writer = OwnerWriter { tx, owner, no, change_no, space: stored.clone() };
    for change in &changes.changes {
        writer.apply_change(change)?;
    }
    if let Some(space) = writer.space.as_ref().filter(|_| writer.space != stored) {
        vectors::set_space(writer.tx, space)?;
    }
    Ok(())
}

impl OwnerWriter<'_, '_> {
    /// Stores one change.
    fn apply_change(&mut self, change: &MemoryChange) -> Result<(), MemoryError> {
        match change {
            MemoryChange::Add(record) => self.add(record),
            MemoryChange::Update(update) => self.update(update),
            MemoryChange::Supersede { old, new } => {
                let (seq, memory) = self.current(*old)?;
                self.remove_from_index(seq, &memory.text)?;
                entry::supersede(self.tx, seq, &id_bytes(new.memory.id), self.change_no)?;
                self.add(new)
            }
        }
    }

    /// Inserts a memory with its embedding, sources and words. Fails if its id exists.
    fn add(&mut self, record: &MemoryRecord) -> Result<(), MemoryError> {
        let MemoryRecord { memory, vector } = record;
        check_record(self.owner, memory)?;
        let words = rank::words(&memory.text);
        let index = self.index_entry(words.count);
        // The database assigns the row number.
        let row = row(0, memory)?;
        let seq =
            entry::insert(self.tx, &row, index).map_err(|error| match error.is_duplicate() {
                true => MemoryError::Invalid(format!("memory {} exists already", memory.id)),
                false => error.into(),
            })?;
        self.put_vector(seq, vector.as_ref())?;
        self.add_sources(seq, &memory.sources)?;
        if memory.superseded_by.is_none() {
            self.add_to_index(seq, &words.distinct)?;
        }
        Ok(())
    }

    /// Replaces the text of a memory and its derived rows. Metadata and sources are only added.
    fn update(&mut self, update: &RecordUpdate) -> Result<(), MemoryError> {
        let (seq, mut memory) = self.current(update.id)?;
        self.remove_from_index(seq, &memory.text)?;
        apply_update(&mut memory, update)?;
        let words = rank::words(&memory.text);
        let index = self.index_entry(words.count);
        entry::update(self.tx, &row(seq, &memory)?, index)?;
        self.put_vector(seq, update.vector.as_ref())?;
        self.add_sources(seq, &memory.sources)?;
        self.add_to_index(seq, &words.distinct)
    }

    /// Returns the columns that the vector indexes read.
    fn index_entry(&self, word_count: u16) -> IndexEntry {
        IndexEntry { owner: self.no, change: self.change_no, words: word_count.into() }
    }

    /// Returns a memory that is not superseded, with its row number. Fails if it does not exist or is superseded.
    fn current(&mut self, id: MemoryId) -> Result<(i64, Memory), MemoryError> {
        match find(self.tx, self.owner, self.no, id)? {
            None => Err(MemoryError::NotFound(id)),
            Some((_, memory)) if memory.superseded_by.is_some() => Err(MemoryError::Superseded(id)),
            Some(found) => Ok(found),
        }
    }

    /// Stores the embedding of a memory scaled to length 1. Deletes the stored one if there is no embedding or it has
    /// no direction.
    fn put_vector(&mut self, seq: i64, vector: Option<&Embedding>) -> Result<(), MemoryError> {
        match normalise(vector, &mut self.space)? {
            Some(vector) => vectors::put(self.tx, seq, &index::to_bytes(&vector))?,
            None => vectors::delete(self.tx, seq)?,
        }
        Ok(())
    }

    /// Adds the sources that the memory does not have yet.
    fn add_sources(&mut self, seq: i64, sources: &[MemorySource]) -> Result<(), MemoryError> {
        for MemorySource { session, message } in sources {
            let source = SourceRow { session: session.clone(), message: message.clone() };
            entry::add_source(self.tx, seq, &source)?;
        }
        Ok(())
    }

    /// Adds the words of a memory to the full-text index.
    fn add_to_index(&mut self, seq: i64, words: &[u64]) -> Result<(), MemoryError> {
        Ok(word::add(self.tx, seq, &index::tokens(self.no, words))?)
    }

    /// Removes the words of a memory from the full-text index.
    fn remove_from_index(&mut self, seq: i64, text: &str) -> Result<(), MemoryError> {
        let words = index::tokens(self.no, &rank::words(text).distinct);
        Ok(word::remove(self.tx, seq, &words)?)
    }

    /// Deletes a memory and records the deletion for the vector indexes.
    fn delete_row(&mut self, row: &MemoryRow) -> Result<(), MemoryError> {
        if row.superseded_by.is_none() {
            self.remove_from_index(row.seq, &row.text)?;
        }
        vectors::delete(self.tx, row.seq)?;
        entry::delete(self.tx, row.seq)?;
        Ok(forgotten::insert(self.tx, self.no, self.change_no, row.seq)?)
    }

    /// If there are too many deletion records, clears them and starts a new epoch. All indexes of the owner are then
    /// rebuilt.
    fn prune_deletion_records(&mut self) -> Result<(), MemoryError> {
        if forgotten::count(self.tx, self.no)? > DELETION_RECORDS_MAX {
            forgotten::clear(self.tx, self.no)?;
            owners::start_epoch(self.tx, self.no)?;
        }
        Ok(())
    }
}

/// Encodes a memory as a row.
fn row(seq: i64, memory: &Memory) -> Result<MemoryRow, MemoryError> {
    let metadata = serde_json::to_string(&memory.metadata)
        .map_err(|error| MemoryError::Invalid(format!("the metadata has no JSON form: {error}")))?;
    Ok(MemoryRow {
        seq,
        id: id_bytes(memory.id).to_vec(),
        text: memory.text.clone(),
        category: memory.category.map(|category| category.as_str().to_owned()),
        metadata,
        created_at: memory.created_at,
        updated_at: memory.updated_at,
        valid_from: memory.valid_from,
        superseded_by: memory.superseded_by.map(|id| id_bytes(id).to_vec()),
    })
}

/// Deletes the memories of a scope, the memories that they superseded, and the jobs and queued messages that would
/// restore them. Returns the number of deleted memories.
pub(super) fn delete(
    tx: &mut Tx<'_>,
    owner: &Owner,
    scope: &DeleteScope,
) -> Result<u64, MemoryError> {
    let Some(no) = owners::number(tx, owner.as_str())? else {
        return Ok(0);
    };
    job::delete(tx, no, scope)?;
    let mut to_delete = matching_keys(tx, no, scope)?;
    if to_delete.is_empty() {
        return Ok(0);
    }
    let change_no = owners::next_change(tx, no)?;
    let mut writer = OwnerWriter { tx, owner, no, change_no, space: None };
    let mut deleted = 0;
    while let Some(MemoryKey { seq, id }) = to_delete.pop() {
        let history = entry::keys_of_successor(writer.tx, no, &id)?;
        if let Some(row) = entry::at(writer.tx, no, seq)? {
            writer.delete_row(&row)?;
            deleted += 1;
            to_delete.extend(history);
        }
    }
    writer.prune_deletion_records()?;
    Ok(deleted)
}

/// Returns the keys of the memories in a scope.
fn matching_keys(
    tx: &mut Tx<'_>,
    no: i64,
    scope: &DeleteScope,
) -> Result<Vec<MemoryKey>, MemoryError> {
    Ok(match scope {
        DeleteScope::Memory(id) => entry::keys_of_id(tx, no, &id_bytes(*id))?,
        DeleteScope::Session(session) => entry::keys_of_source(tx, no, session, None)?,
        DeleteScope::Message(source) => {
            entry::keys_of_source(tx, no, &source.session, Some(&source.message))?
        }
        DeleteScope::Everything => entry::keys_of_owner(tx, no)?,
    })
}
