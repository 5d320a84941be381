//! Changing and forgetting memories, each in one transaction of the caller's.

use provost_core::MemoryId;
use provost_failpoint::failpoint;
use rusqlite::{Connection, ErrorCode, OptionalExtension, params};

use super::read::{find, id_bytes, owner_no};
use super::{index, job};
use crate::MemoryError;
use crate::in_memory::{accept, check_entry, revise};
use crate::memory::{Memory, Owner, Source};
use crate::rank;
use crate::store::{Batch, Change, Entry, Forget, Update, Vector};

/// Forgotten memories that are remembered as such, for those who keep an index; beyond it they read everything again.
const GONE_MAX: i64 = 10_000;

/// The owner a transaction writes for.
struct Writer<'a> {
    db: &'a Connection,
    owner: &'a Owner,
    no: i64,
    /// The number of this transaction among the owner's.
    change: i64,
    space: Option<String>,
}

pub(super) fn apply(db: &Connection, owner: &Owner, batch: Batch) -> Result<(), MemoryError> {
    if let Some(key) = batch.done {
        job::finish(db, owner, key)?;
    }
    failpoint!("memory.apply.middle");
    if batch.changes.is_empty() {
        return Ok(());
    }
    let no = owner_no_or_new(db, owner)?;
    let stored = space(db)?;
    let mut writer = Writer { db, owner, no, change: next_change(db, no)?, space: stored.clone() };
    for change in batch.changes {
        writer.change(change)?;
    }
    if writer.space != stored {
        let sql = "INSERT INTO meta (key, value) VALUES ('space', ?)";
        db.execute(sql, [&writer.space])?;
    }
    Ok(())
}

/// The owner's number, a new one if it has none.
pub(super) fn owner_no_or_new(db: &Connection, owner: &Owner) -> Result<i64, MemoryError> {
    if let Some(no) = owner_no(db, owner)? {
        return Ok(no);
    }
    db.prepare_cached("INSERT INTO owner (name) VALUES (?)")?.execute([owner.as_str()])?;
    Ok(db.last_insert_rowid())
}

/// Whose vectors are in the file.
pub(super) fn space(db: &Connection) -> Result<Option<String>, MemoryError> {
    let mut statement = db.prepare_cached("SELECT value FROM meta WHERE key = 'space'")?;
    Ok(statement.query_row([], |row| row.get(0)).optional()?)
}

fn next_change(db: &Connection, no: i64) -> Result<i64, MemoryError> {
    let sql = "UPDATE owner SET change = change + 1 WHERE no = ? RETURNING change";
    Ok(db.prepare_cached(sql)?.query_row([no], |row| row.get(0))?)
}

impl Writer<'_> {
    fn change(&mut self, change: Change) -> Result<(), MemoryError> {
        match change {
            Change::Add(entry) => self.add(*entry),
            Change::Update(update) => self.update(&update),
            Change::Supersede { old, new } => {
                let (seq, memory) = self.current(old)?;
                self.unlist(seq, &memory.text)?;
                let sql = "UPDATE memory SET superseded_by = ?, change = ? WHERE seq = ?";
                let cells = params![id_bytes(new.memory.id), self.change, seq];
                self.db.prepare_cached(sql)?.execute(cells)?;
                self.add(*new)
            }
        }
    }

    fn add(&mut self, entry: Entry) -> Result<(), MemoryError> {
        let Entry { memory, vector } = entry;
        check_entry(self.owner, &memory)?;
        let words = rank::words(&memory.text);
        let sql = "INSERT INTO memory (owner, id, text, category, metadata, created_at, updated_at, valid_from,
                                       superseded_by, words, change) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
        let inserted = self.db.prepare_cached(sql)?.execute(params![
            self.no,
            id_bytes(memory.id),
            memory.text,
            memory.category.map(|category| category.as_str()),
            metadata_text(&memory)?,
            memory.created_at.as_millis(),
            memory.updated_at.as_millis(),
            memory.valid_from.as_millis(),
            memory.superseded_by.map(id_bytes),
            words.count,
            self.change,
        ]);
        if let Err(error) = inserted {
            return Err(match error.sqlite_error_code() {
                Some(ErrorCode::ConstraintViolation) => {
                    MemoryError::Invalid(format!("memory {} exists already", memory.id))
                }
                _ => error.into(),
            });
        }
        let seq = self.db.last_insert_rowid();
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
        let sql = "UPDATE memory SET text = ?, category = ?, metadata = ?, updated_at = ?, words = ?, change = ?
                   WHERE seq = ?";
        self.db.prepare_cached(sql)?.execute(params![
            memory.text,
            memory.category.map(|category| category.as_str()),
            metadata_text(&memory)?,
            memory.updated_at.as_millis(),
            words.count,
            self.change,
            seq,
        ])?;
        self.put_vector(seq, update.vector.as_ref())?;
        self.put_sources(seq, &memory.sources)?;
        self.list(seq, &words.distinct)
    }

    fn current(&self, id: MemoryId) -> Result<(i64, Memory), MemoryError> {
        match find(self.db, self.owner, self.no, id)? {
            None => Err(MemoryError::NotFound(id)),
            Some((_, memory)) if memory.superseded_by.is_some() => Err(MemoryError::Superseded(id)),
            Some(found) => Ok(found),
        }
    }

    fn put_vector(&mut self, seq: i64, vector: Option<&Vector>) -> Result<(), MemoryError> {
        let sql = match accept(vector, &mut self.space)? {
            Some(vector) => {
                let sql = "INSERT OR REPLACE INTO vector (seq, numbers) VALUES (?, ?)";
                let bytes = index::to_bytes(&vector);
                self.db.prepare_cached(sql)?.execute(params![seq, bytes])?;
                return Ok(());
            }
            None => "DELETE FROM vector WHERE seq = ?",
        };
        self.db.prepare_cached(sql)?.execute([seq])?;
        Ok(())
    }

    fn put_sources(&self, seq: i64, sources: &[Source]) -> Result<(), MemoryError> {
        if sources.is_empty() {
            return Ok(());
        }
        let sql = "INSERT OR IGNORE INTO source (seq, session, message) VALUES (?, ?, ?)";
        let mut statement = self.db.prepare_cached(sql)?;
        for source in sources {
            statement.execute(params![seq, source.session, source.message])?;
        }
        Ok(())
    }

    /// Makes a memory findable by its words.
    fn list(&self, seq: i64, words: &[u64]) -> Result<(), MemoryError> {
        let sql = "INSERT INTO word (rowid, words) VALUES (?, ?)";
        self.db.prepare_cached(sql)?.execute(params![seq, index::tokens(self.no, words)])?;
        Ok(())
    }

    /// Makes a memory not findable by its words any more. FTS5 wants to be told what they were.
    fn unlist(&self, seq: i64, text: &str) -> Result<(), MemoryError> {
        let words = index::tokens(self.no, &rank::words(text).distinct);
        let sql = "INSERT INTO word (word, rowid, words) VALUES ('delete', ?, ?)";
        self.db.prepare_cached(sql)?.execute(params![seq, words])?;
        Ok(())
    }

    /// Removes a memory and remembers that it is gone.
    fn remove(&self, seq: i64) -> Result<(), MemoryError> {
        let sql = "SELECT text, superseded_by IS NULL FROM memory WHERE seq = ?";
        let found: (String, bool) =
            self.db.prepare_cached(sql)?.query_row([seq], |row| Ok((row.get(0)?, row.get(1)?)))?;
        if found.1 {
            self.unlist(seq, &found.0)?;
        }
        for sql in [
            "DELETE FROM vector WHERE seq = ?",
            "DELETE FROM source WHERE seq = ?",
            "DELETE FROM memory WHERE seq = ?",
        ] {
            self.db.prepare_cached(sql)?.execute([seq])?;
        }
        let sql = "INSERT INTO gone (owner, change, seq) VALUES (?, ?, ?)";
        self.db.prepare_cached(sql)?.execute([self.no, self.change, seq])?;
        Ok(())
    }

    /// Keeps the list of the gone short: who has not read them starts over.
    fn tidy(&self) -> Result<(), MemoryError> {
        let sql = "SELECT count(*) FROM gone WHERE owner = ?";
        let gone: i64 = self.db.prepare_cached(sql)?.query_row([self.no], |row| row.get(0))?;
        if gone > GONE_MAX {
            self.db.execute("DELETE FROM gone WHERE owner = ?", [self.no])?;
            let sql = "UPDATE owner SET epoch = change WHERE no = ?";
            self.db.execute(sql, [self.no])?;
        }
        Ok(())
    }
}

fn metadata_text(memory: &Memory) -> Result<String, MemoryError> {
    serde_json::to_string(&memory.metadata)
        .map_err(|error| MemoryError::Invalid(format!("the metadata has no JSON form: {error}")))
}

pub(super) fn forget(db: &Connection, owner: &Owner, what: &Forget) -> Result<u64, MemoryError> {
    let Some(no) = owner_no(db, owner)? else {
        return Ok(0);
    };
    job::forget(db, no, what)?;
    let mut going = matching(db, no, what)?;
    if going.is_empty() {
        return Ok(0);
    }
    let change = next_change(db, no)?;
    let writer = Writer { db, owner, no, change, space: None };
    let mut gone = 0;
    while let Some((seq, id)) = going.pop() {
        let sql = "SELECT seq, id FROM memory WHERE owner = ? AND superseded_by = ?";
        let history = places(db, sql, params![no, id])?;
        let sql = "SELECT 1 FROM memory WHERE seq = ?";
        if db.prepare_cached(sql)?.exists([seq])? {
            writer.remove(seq)?;
            gone += 1;
            going.extend(history);
        }
    }
    writer.tidy()?;
    Ok(gone)
}

/// A memory's place in the file and its id.
type Place = (i64, Vec<u8>);

fn matching(db: &Connection, no: i64, what: &Forget) -> Result<Vec<Place>, MemoryError> {
    let from_source =
        "SELECT DISTINCT memory.seq, id FROM source JOIN memory USING (seq) WHERE owner = ?";
    match what {
        Forget::Memory(id) => {
            let sql = "SELECT seq, id FROM memory WHERE owner = ? AND id = ?";
            places(db, sql, params![no, id_bytes(*id)])
        }
        Forget::Session(session) => {
            places(db, &format!("{from_source} AND session = ?"), params![no, session])
        }
        Forget::Message(source) => {
            let sql = format!("{from_source} AND session = ? AND message = ?");
            places(db, &sql, params![no, source.session, source.message])
        }
        Forget::Everything => places(db, "SELECT seq, id FROM memory WHERE owner = ?", params![no]),
    }
}

fn places(
    db: &Connection,
    sql: &str,
    cells: impl rusqlite::Params,
) -> Result<Vec<Place>, MemoryError> {
    let mut statement = db.prepare_cached(sql)?;
    let rows = statement.query_map(cells, |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}
