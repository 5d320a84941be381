//! Changing and forgetting memories, each in one transaction of the caller's.

use provost_core::MemoryId;
use provost_failpoint::failpoint;
use provost_store::Tx;
use provost_store::table::memory::entry::{self, IndexCount, MemoryKey, MemoryRow, SourceRow};
use provost_store::table::memory::{forgotten, owner as owners, vector as vectors, word};

use super::read::{find, id_bytes};
use super::{index, job};
use crate::MemoryError;
use crate::in_memory::{accept, check_entry, revise};
use crate::memory::{Memory, Owner, Source};
use crate::rank;
use crate::store::{Batch, Change, Entry, Forget, Update, Vector};

/// Forgotten memories that are remembered as such, for those who keep an index; beyond it they read everything again.
const GONE_MAX: u64 = 10_000;

/// The owner a transaction writes for.
struct Writer<'a, 'tx> {
    tx: &'a mut Tx<'tx>,
    owner: &'a Owner,
    no: i64,
    /// The number of this transaction among the owner's.
    change: i64,
    space: Option<String>,
}

pub(super) fn apply(tx: &mut Tx<'_>, owner: &Owner, batch: &Batch) -> Result<(), MemoryError> {
    if let Some(key) = batch.done {
        job::finish(tx, owner, key)?;
    }
    failpoint!("memory.apply.middle");
    if batch.changes.is_empty() {
        return Ok(());
    }
    let no = owners::number_or_new(tx, owner.as_str())?;
    let stored = vectors::space(tx)?;
    let change = owners::next_change(tx, no)?;
    let mut writer = Writer { tx, owner, no, change, space: stored.clone() };
    for change in &batch.changes {
        writer.change(change)?;
    }
    if let Some(space) = writer.space.as_ref().filter(|_| writer.space != stored) {
        vectors::set_space(writer.tx, space)?;
    }
    Ok(())
}

impl Writer<'_, '_> {
    fn change(&mut self, change: &Change) -> Result<(), MemoryError> {
        match change {
            Change::Add(entry) => self.add(entry),
            Change::Update(update) => self.update(update),
            Change::Supersede { old, new } => {
                let (seq, memory) = self.current(*old)?;
                self.unlist(seq, &memory.text)?;
                entry::supersede(self.tx, seq, &id_bytes(new.memory.id), self.change)?;
                self.add(new)
            }
        }
    }

    fn add(&mut self, entry: &Entry) -> Result<(), MemoryError> {
        let Entry { memory, vector } = entry;
        check_entry(self.owner, memory)?;
        let words = rank::words(&memory.text);
        let count = self.count(words.count);
        // The database gives the place.
        let row = row(0, memory)?;
        let seq =
            entry::insert(self.tx, &row, count).map_err(|error| match error.is_duplicate() {
                true => MemoryError::Invalid(format!("memory {} exists already", memory.id)),
                false => error.into(),
            })?;
        self.put_vector(seq, vector.as_ref())?;
        self.put_sources(seq, &memory.sources)?;
        if memory.superseded_by.is_none() {
            self.list(seq, &words.distinct)?;
        }
        Ok(())
    }

    fn update(&mut self, update: &Update) -> Result<(), MemoryError> {
        let (seq, mut memory) = self.current(update.id)?;
        self.unlist(seq, &memory.text)?;
        revise(&mut memory, update)?;
        let words = rank::words(&memory.text);
        let count = self.count(words.count);
        entry::update(self.tx, &row(seq, &memory)?, count)?;
        self.put_vector(seq, update.vector.as_ref())?;
        self.put_sources(seq, &memory.sources)?;
        self.list(seq, &words.distinct)
    }

    fn count(&self, words: u16) -> IndexCount {
        IndexCount { owner: self.no, change: self.change, words: words.into() }
    }

    fn current(&mut self, id: MemoryId) -> Result<(i64, Memory), MemoryError> {
        match find(self.tx, self.owner, self.no, id)? {
            None => Err(MemoryError::NotFound(id)),
            Some((_, memory)) if memory.superseded_by.is_some() => Err(MemoryError::Superseded(id)),
            Some(found) => Ok(found),
        }
    }

    fn put_vector(&mut self, seq: i64, vector: Option<&Vector>) -> Result<(), MemoryError> {
        match accept(vector, &mut self.space)? {
            Some(vector) => vectors::put(self.tx, seq, &index::to_bytes(&vector))?,
            None => vectors::delete(self.tx, seq)?,
        }
        Ok(())
    }

    fn put_sources(&mut self, seq: i64, sources: &[Source]) -> Result<(), MemoryError> {
        for Source { session, message } in sources {
            let source = SourceRow { session: session.clone(), message: message.clone() };
            entry::add_source(self.tx, seq, &source)?;
        }
        Ok(())
    }

    /// Makes a memory findable by its words.
    fn list(&mut self, seq: i64, words: &[u64]) -> Result<(), MemoryError> {
        Ok(word::add(self.tx, seq, &index::tokens(self.no, words))?)
    }

    /// Makes a memory not findable by its words any more.
    fn unlist(&mut self, seq: i64, text: &str) -> Result<(), MemoryError> {
        let words = index::tokens(self.no, &rank::words(text).distinct);
        Ok(word::remove(self.tx, seq, &words)?)
    }

    /// Removes a memory and remembers that it is gone.
    fn remove(&mut self, row: &MemoryRow) -> Result<(), MemoryError> {
        if row.superseded_by.is_none() {
            self.unlist(row.seq, &row.text)?;
        }
        vectors::delete(self.tx, row.seq)?;
        entry::delete(self.tx, row.seq)?;
        Ok(forgotten::insert(self.tx, self.no, self.change, row.seq)?)
    }

    /// Keeps the list of the gone short: who has not read them starts over.
    fn tidy(&mut self) -> Result<(), MemoryError> {
        if forgotten::count(self.tx, self.no)? > GONE_MAX {
            forgotten::clear(self.tx, self.no)?;
            owners::start_epoch(self.tx, self.no)?;
        }
        Ok(())
    }
}

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

pub(super) fn forget(tx: &mut Tx<'_>, owner: &Owner, what: &Forget) -> Result<u64, MemoryError> {
    let Some(no) = owners::number(tx, owner.as_str())? else {
        return Ok(0);
    };
    job::forget(tx, no, what)?;
    let mut going = matching(tx, no, what)?;
    if going.is_empty() {
        return Ok(0);
    }
    let change = owners::next_change(tx, no)?;
    let mut writer = Writer { tx, owner, no, change, space: None };
    let mut gone = 0;
    while let Some(MemoryKey { seq, id }) = going.pop() {
        let history = entry::keys_of_successor(writer.tx, no, &id)?;
        if let Some(row) = entry::at(writer.tx, no, seq)? {
            writer.remove(&row)?;
            gone += 1;
            going.extend(history);
        }
    }
    writer.tidy()?;
    Ok(gone)
}

fn matching(tx: &mut Tx<'_>, no: i64, what: &Forget) -> Result<Vec<MemoryKey>, MemoryError> {
    Ok(match what {
        Forget::Memory(id) => entry::keys_of_id(tx, no, &id_bytes(*id))?,
        Forget::Session(session) => entry::keys_of_source(tx, no, session, None)?,
        Forget::Message(source) => {
            entry::keys_of_source(tx, no, &source.session, Some(&source.message))?
        }
        Forget::Everything => entry::keys_of_owner(tx, no)?,
    })
}
