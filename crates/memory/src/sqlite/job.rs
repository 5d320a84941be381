//! Jobs and cursors in the file.

use std::time::Duration;

use provost_core::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::read::owner_no;
use super::write::owner_no_or_new;
use crate::MemoryError;
use crate::job::{
    Claim, Conversation, Cursor, Job, JobInfo, JobKey, PROBLEM_BYTES_MAX, Postponed, Said, fresh,
};
use crate::memory::Owner;
use crate::store::Forget;

pub(super) fn enqueue(
    db: &Connection,
    owner: &Owner,
    conversation: &Conversation,
    now: Timestamp,
) -> Result<Option<u64>, MemoryError> {
    conversation.check()?;
    let cursor = match owner_no(db, owner)? {
        Some(no) => cursor(db, no, &conversation.session)?,
        None => Cursor::default(),
    };
    let Some((messages, end)) = fresh(conversation, &cursor) else {
        return Ok(None);
    };
    let no = owner_no_or_new(db, owner)?;
    let sql = "INSERT INTO job (owner, session, messages, end_at, end_digest, due, created_at)
               VALUES (?, ?, ?, ?, ?, ?, ?)";
    db.prepare_cached(sql)?.execute(params![
        no,
        conversation.session,
        to_text(&messages)?,
        i64::try_from(end.end).unwrap_or(i64::MAX),
        end.digest,
        now.as_millis(),
        now.as_millis(),
    ])?;
    Ok(u64::try_from(db.last_insert_rowid()).ok())
}

/// How far a session was read or queued.
fn cursor(db: &Connection, no: i64, session: &str) -> Result<Cursor, MemoryError> {
    let read = |row: &Row<'_>| {
        let end: i64 = row.get(0)?;
        Ok(Cursor { end: u64::try_from(end).unwrap_or(0), digest: row.get(1)? })
    };
    let queued =
        "SELECT end_at, end_digest FROM job WHERE owner = ? AND session = ? AND NOT given_up
                  ORDER BY no DESC LIMIT 1";
    let stored = "SELECT end_at, digest FROM cursor WHERE owner = ? AND session = ?";
    for sql in [queued, stored] {
        let found = db.prepare_cached(sql)?.query_row(params![no, session], read).optional()?;
        if let Some(cursor) = found {
            return Ok(cursor);
        }
    }
    Ok(Cursor::default())
}

pub(super) fn claim(
    db: &Connection,
    now: Timestamp,
    lease: Duration,
) -> Result<Claim, MemoryError> {
    let count = "SELECT count(*) FROM job WHERE NOT given_up";
    let pending: i64 = db.prepare_cached(count)?.query_row([], |row| row.get(0))?;
    let mut claim = Claim { pending: u64::try_from(pending).unwrap_or(0), ..Claim::default() };
    if pending == 0 {
        return Ok(claim);
    }
    // Only the oldest job of an owner may be taken.
    let oldest = "SELECT job.no, job.due FROM job WHERE NOT given_up AND NOT EXISTS (
                      SELECT 1 FROM job earlier
                      WHERE earlier.owner = job.owner AND earlier.no < job.no AND NOT earlier.given_up)
                  ORDER BY job.due > ?1, CASE WHEN job.due > ?1 THEN job.due ELSE job.no END LIMIT 1";
    let first: Option<(i64, i64)> = db
        .prepare_cached(oldest)?
        .query_row([now.as_millis()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    match first {
        Some((no, due)) if due <= now.as_millis() => claim.job = Some(take(db, no, now, lease)?),
        Some((_, due)) => claim.next_due = Some(Timestamp::from_millis(due)),
        None => {}
    }
    Ok(claim)
}

fn take(db: &Connection, no: i64, now: Timestamp, lease: Duration) -> Result<Job, MemoryError> {
    let sql = "UPDATE job SET attempt = attempt + 1, leased = 1, due = ? WHERE no = ?
               RETURNING attempt, session, messages, failures,
                         (SELECT name FROM owner WHERE owner.no = job.owner)";
    let mut statement = db.prepare_cached(sql)?;
    let mut rows = statement.query(params![now.after(lease).as_millis(), no])?;
    let Some(row) = rows.next()? else {
        return Err(MemoryError::Bug(format!("job {no} went away in a transaction")));
    };
    let messages: String = row.get(2)?;
    let name: String = row.get(4)?;
    let job = u64::try_from(no).unwrap_or(0);
    let job = Job {
        key: JobKey { job, attempt: row.get(0)? },
        owner: Owner::new(name)?,
        session: row.get(1)?,
        messages: from_text(&messages)?,
        failures: row.get(3)?,
    };
    // The statement is done only when it was read to its end.
    while rows.next()?.is_some() {}
    Ok(job)
}

/// Ends a job, if it is still the caller's: its session counts as read up to the job's end.
pub(super) fn finish(db: &Connection, owner: &Owner, key: JobKey) -> Result<(), MemoryError> {
    let sql = "DELETE FROM job WHERE no = ? AND attempt = ? AND leased
                   AND owner = (SELECT no FROM owner WHERE name = ?)
               RETURNING owner, session, end_at, end_digest";
    let number = i64::try_from(key.job).unwrap_or(i64::MAX);
    let end = db
        .prepare_cached(sql)?
        .query_row(params![number, key.attempt, owner.as_str()], SessionEnd::read)
        .optional()?;
    let Some(end) = end else {
        return Err(MemoryError::JobGone(key.job));
    };
    put_cursor(db, &end)
}

/// How far a session was read.
struct SessionEnd {
    owner: i64,
    session: String,
    end_at: i64,
    digest: String,
}

impl SessionEnd {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let (owner, session) = (row.get(0)?, row.get(1)?);
        Ok(Self { owner, session, end_at: row.get(2)?, digest: row.get(3)? })
    }
}

fn put_cursor(db: &Connection, end: &SessionEnd) -> Result<(), MemoryError> {
    let sql = "INSERT OR REPLACE INTO cursor (owner, session, end_at, digest) VALUES (?, ?, ?, ?)";
    db.prepare_cached(sql)?.execute(params![end.owner, end.session, end.end_at, end.digest])?;
    Ok(())
}

pub(super) fn postpone(
    db: &Connection,
    key: JobKey,
    postponed: &Postponed,
) -> Result<bool, MemoryError> {
    let problem = &postponed.problem;
    let problem = &problem[..problem.floor_char_boundary(PROBLEM_BYTES_MAX)];
    let sql =
        "UPDATE job SET leased = 0, failures = failures + 1, due = ?, given_up = ?, problem = ?
               WHERE no = ? AND attempt = ? AND leased
               RETURNING owner, session, end_at, end_digest";
    let number = i64::try_from(key.job).unwrap_or(i64::MAX);
    let due = postponed.until.unwrap_or_default().as_millis();
    let cells = params![due, postponed.until.is_none(), problem, number, key.attempt];
    let end = db.prepare_cached(sql)?.query_row(cells, SessionEnd::read).optional()?;
    // Later messages must not wait for a job that was given up, and it must not come back with them.
    if let Some(end) = end.as_ref().filter(|_| postponed.until.is_none()) {
        put_cursor(db, end)?;
    }
    Ok(end.is_some())
}

pub(super) fn hurry(db: &Connection, now: Timestamp) -> Result<(), MemoryError> {
    let sql = "UPDATE job SET due = min(due, ?) WHERE NOT leased AND NOT given_up";
    db.prepare_cached(sql)?.execute([now.as_millis()])?;
    Ok(())
}

pub(super) fn infos(db: &Connection, owner: &Owner) -> Result<Vec<JobInfo>, MemoryError> {
    let Some(no) = owner_no(db, owner)? else {
        return Ok(Vec::new());
    };
    let sql = "SELECT no, session, created_at, failures, problem, given_up FROM job
               WHERE owner = ? ORDER BY no";
    let mut statement = db.prepare_cached(sql)?;
    let rows = statement.query_map([no], |row| {
        let job: i64 = row.get(0)?;
        Ok(JobInfo {
            job: u64::try_from(job).unwrap_or(0),
            session: row.get(1)?,
            created_at: Timestamp::from_millis(row.get(2)?),
            failures: row.get(3)?,
            problem: row.get(4)?,
            given_up: row.get(5)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Calls off what would bring back what is forgotten. How far sessions were read stays.
pub(super) fn forget(db: &Connection, no: i64, what: &Forget) -> Result<(), MemoryError> {
    let (jobs, session) = match what {
        Forget::Memory(_) => return Ok(()),
        Forget::Everything => ("owner = ?1 AND ?2 IS NULL", None),
        Forget::Session(session) => ("owner = ?1 AND session = ?2", Some(session)),
        Forget::Message(source) => {
            cut_message(db, no, &source.session, &source.message)?;
            ("owner = ?1 AND session = ?2 AND messages = '[]'", Some(&source.session))
        }
    };
    let keep = format!(
        "INSERT OR REPLACE INTO cursor (owner, session, end_at, digest)
         SELECT owner, session, end_at, end_digest FROM job WHERE {jobs} AND NOT given_up ORDER BY no"
    );
    db.execute(&keep, params![no, session])?;
    db.execute(&format!("DELETE FROM job WHERE {jobs}"), params![no, session])?;
    Ok(())
}

/// Takes a message out of the jobs that have it. Whoever is at one of them has seen it: the attempt must fail.
fn cut_message(db: &Connection, no: i64, session: &str, message: &str) -> Result<(), MemoryError> {
    let mut statement =
        db.prepare_cached("SELECT no, messages FROM job WHERE owner = ? AND session = ?")?;
    let jobs: Vec<(i64, String)> = statement
        .query_map(params![no, session], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    for (job, text) in jobs {
        let mut messages = from_text(&text)?;
        let before = messages.len();
        messages.retain(|said| said.digest != message);
        if messages.len() < before {
            let sql =
                "UPDATE job SET messages = ?, attempt = attempt + 1, leased = 0, due = created_at
                       WHERE no = ?";
            db.prepare_cached(sql)?.execute(params![to_text(&messages)?, job])?;
        }
    }
    Ok(())
}

fn to_text(messages: &[Said]) -> Result<String, MemoryError> {
    serde_json::to_string(messages).map_err(|error| MemoryError::Bug(error.to_string()))
}

fn from_text(text: &str) -> Result<Vec<Said>, MemoryError> {
    serde_json::from_str(text)
        .map_err(|error| MemoryError::File(format!("the messages of a job: {error}")))
}
