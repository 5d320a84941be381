//! Jobs that extract memories from conversations, and the progress in each conversation.

use provost_core::Timestamp;

use crate::{FromRow, Row, StoreError, ToColumn, Tx, params};

/// Position up to which a conversation was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CursorRow {
    /// Number of messages.
    pub end_at: u64,
    /// Digest of the last message.
    pub digest: String,
}

impl FromRow for CursorRow {
    fn from_row(row: &mut Row<'_>) -> Result<Self, StoreError> {
        Ok(Self { end_at: row.take()?, digest: row.take()? })
    }
}

/// A job to insert.
#[derive(Debug, Clone)]
pub struct NewJob<'a> {
    /// Number of the owner.
    pub owner: i64,
    /// Id of the session, or of the run.
    pub session: &'a str,
    /// The messages, as JSON.
    pub messages: &'a str,
    /// Position in the conversation when the job is done.
    pub end: CursorRow,
    /// Time of creation, which is also the due time.
    pub now: Timestamp,
}

/// The next job and its due time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DueJob {
    /// Number of the job.
    pub no: i64,
    /// Time at which the job is due.
    pub due: Timestamp,
}

impl FromRow for DueJob {
    fn from_row(row: &mut Row<'_>) -> Result<Self, StoreError> {
        Ok(Self { no: row.take()?, due: row.take()? })
    }
}

/// A claimed job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedJob {
    /// Number of this attempt.
    pub attempt: u64,
    /// Id of the session, or of the run.
    pub session: String,
    /// The messages, as JSON.
    pub messages: String,
    /// Number of failed attempts.
    pub failures: u64,
    /// Name of the owner.
    pub owner: String,
}

impl FromRow for ClaimedJob {
    fn from_row(row: &mut Row<'_>) -> Result<Self, StoreError> {
        Ok(Self {
            attempt: row.take()?,
            session: row.take()?,
            messages: row.take()?,
            failures: row.take()?,
            owner: row.take()?,
        })
    }
}

/// Position in a conversation after a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobEnd {
    /// Number of the owner.
    pub owner: i64,
    /// Id of the session, or of the run.
    pub session: String,
    /// The position.
    pub cursor: CursorRow,
}

impl FromRow for JobEnd {
    fn from_row(row: &mut Row<'_>) -> Result<Self, StoreError> {
        let (owner, session) = (row.take()?, row.take()?);
        Ok(Self { owner, session, cursor: CursorRow::from_row(row)? })
    }
}

/// A job as listed for users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobSummary {
    /// Number of the job.
    pub no: u64,
    /// Id of the session, or of the run.
    pub session: String,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Number of failed attempts.
    pub failures: u64,
    /// Error of the last attempt.
    pub problem: Option<String>,
    /// True if the job is not tried again.
    pub given_up: bool,
}

impl FromRow for JobSummary {
    fn from_row(row: &mut Row<'_>) -> Result<Self, StoreError> {
        Ok(Self {
            no: row.take()?,
            session: row.take()?,
            created_at: row.take()?,
            failures: row.take()?,
            problem: row.take()?,
            given_up: row.take()?,
        })
    }
}

/// Identifies an attempt of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobAttempt {
    /// Number of the job.
    pub no: u64,
    /// Number of the attempt.
    pub attempt: u64,
}

/// Failure of an attempt.
#[derive(Debug, Clone, Copy)]
pub struct FailedJob<'a> {
    /// Time of the next attempt; `None` to give up.
    pub due: Option<Timestamp>,
    /// The error.
    pub problem: &'a str,
}

/// The messages of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobMessages {
    /// Number of the job.
    pub no: i64,
    /// The messages, as JSON.
    pub messages: String,
}

impl FromRow for JobMessages {
    fn from_row(row: &mut Row<'_>) -> Result<Self, StoreError> {
        Ok(Self { no: row.take()?, messages: row.take()? })
    }
}

/// Inserts a job and returns its number.
pub fn insert(tx: &mut Tx<'_>, new: &NewJob<'_>) -> Result<u64, StoreError> {
    tx.fetch_one(
        "INSERT INTO job (owner, session, messages, end_at, end_digest, due, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6) RETURNING no",
        params![new.owner, new.session, new.messages, new.end.end_at, new.end.digest, new.now],
    )
}

/// Returns the position in a conversation after all its queued jobs. `None` if no job is queued.
pub fn queued_cursor(
    tx: &mut Tx<'_>,
    owner: i64,
    session: &str,
) -> Result<Option<CursorRow>, StoreError> {
    tx.fetch_optional(
        "SELECT end_at, end_digest FROM job WHERE owner = ?1 AND session = ?2 AND NOT given_up
         ORDER BY no DESC LIMIT 1",
        params![owner, session],
    )
}

/// Returns the position in a conversation after its finished jobs. `None` if no job has finished.
pub fn cursor(tx: &mut Tx<'_>, owner: i64, session: &str) -> Result<Option<CursorRow>, StoreError> {
    let sql = "SELECT end_at, digest FROM cursor WHERE owner = ?1 AND session = ?2";
    tx.fetch_optional(sql, params![owner, session])
}

/// Inserts or replaces the position in a conversation.
pub fn put_cursor(tx: &mut Tx<'_>, end: &JobEnd) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO cursor (owner, session, end_at, digest) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (owner, session) DO UPDATE SET end_at = excluded.end_at, digest = excluded.digest",
        params![end.owner, end.session, end.cursor.end_at, end.cursor.digest],
    )
    .map(drop)
}

/// Returns the number of jobs that are not given up.
pub fn count_pending(tx: &mut Tx<'_>) -> Result<u64, StoreError> {
    tx.fetch_one("SELECT count(*) FROM job WHERE NOT given_up", params![])
}

/// Returns the next job to claim, which may not be due yet. Only the oldest job of each owner is eligible. `None` if
/// there is none.
pub fn next(tx: &mut Tx<'_>, now: Timestamp) -> Result<Option<DueJob>, StoreError> {
    tx.fetch_optional(
        "SELECT job.no, job.due FROM job WHERE NOT given_up AND NOT EXISTS (
             SELECT 1 FROM job earlier
             WHERE earlier.owner = job.owner AND earlier.no < job.no AND NOT earlier.given_up)
         ORDER BY job.due > ?1, CASE WHEN job.due > ?1 THEN job.due ELSE job.no END LIMIT 1",
        params![now],
    )
}

/// Claims a job until a point in time.
pub fn claim(tx: &mut Tx<'_>, no: i64, until: Timestamp) -> Result<ClaimedJob, StoreError> {
    tx.fetch_one(
        "UPDATE job SET attempt = attempt + 1, leased = 1, due = ?2 WHERE no = ?1
         RETURNING attempt, session, messages, failures, (SELECT name FROM owner WHERE owner.no = job.owner)",
        params![no, until],
    )
}

/// Deletes a job that this attempt has claimed. `None` if the claim was lost.
pub fn finish(
    tx: &mut Tx<'_>,
    owner: &str,
    attempt: JobAttempt,
) -> Result<Option<JobEnd>, StoreError> {
    tx.fetch_optional(
        "DELETE FROM job WHERE no = ?1 AND attempt = ?2 AND leased AND owner = (SELECT no FROM owner WHERE name = ?3)
         RETURNING owner, session, end_at, end_digest",
        params![attempt.no, attempt.attempt, owner],
    )
}

/// Records a failed attempt and releases its claim. Without a due time, gives the job up. `None` if the claim was
/// lost.
pub fn schedule_retry(
    tx: &mut Tx<'_>,
    attempt: JobAttempt,
    failed: FailedJob<'_>,
) -> Result<Option<JobEnd>, StoreError> {
    let due = failed.due.unwrap_or_default();
    tx.fetch_optional(
        "UPDATE job SET leased = 0, failures = failures + 1, due = ?3, given_up = ?4, problem = ?5
         WHERE no = ?1 AND attempt = ?2 AND leased
         RETURNING owner, session, end_at, end_digest",
        params![attempt.no, attempt.attempt, due, failed.due.is_none(), failed.problem],
    )
}

/// Makes all jobs that wait for another attempt due now.
pub fn make_due(tx: &mut Tx<'_>, now: Timestamp) -> Result<(), StoreError> {
    let sql = "UPDATE job SET due = min(due, ?1) WHERE NOT leased AND NOT given_up";
    tx.execute(sql, params![now]).map(drop)
}

/// Returns the jobs of an owner, oldest first.
pub fn of_owner(tx: &mut Tx<'_>, owner: i64) -> Result<Vec<JobSummary>, StoreError> {
    tx.fetch_all(
        "SELECT no, session, created_at, failures, problem, given_up FROM job WHERE owner = ?1 ORDER BY no",
        params![owner],
    )
}

/// Selects the jobs of an owner to cancel.
#[derive(Debug, Clone, Copy)]
pub enum JobSelector<'a> {
    /// All jobs.
    Owner,
    /// The jobs of a session.
    Session(&'a str),
    /// The jobs of a session that have no messages left.
    EmptySession(&'a str),
}

/// Deletes jobs. Their conversations count as read up to the end of the deleted jobs.
pub fn delete(tx: &mut Tx<'_>, owner: i64, selected: JobSelector<'_>) -> Result<(), StoreError> {
    let (condition, session) = match selected {
        JobSelector::Owner => ("owner = ?1", None),
        JobSelector::Session(session) => ("owner = ?1 AND session = ?2", Some(session)),
        JobSelector::EmptySession(session) => {
            ("owner = ?1 AND session = ?2 AND messages = '[]'", Some(session))
        }
    };
    let mut values = vec![owner.to_value()];
    values.extend(session.map(ToColumn::to_value));
    let ends = format!(
        "SELECT owner, session, end_at, end_digest FROM job WHERE {condition} AND NOT given_up ORDER BY no"
    );
    for end in tx.fetch_all::<JobEnd>(&ends, &values)? {
        put_cursor(tx, &end)?;
    }
    tx.execute(&format!("DELETE FROM job WHERE {condition}"), &values).map(drop)
}

/// Returns the messages of a session's jobs.
pub fn messages_of(
    tx: &mut Tx<'_>,
    owner: i64,
    session: &str,
) -> Result<Vec<JobMessages>, StoreError> {
    let sql = "SELECT no, messages FROM job WHERE owner = ?1 AND session = ?2";
    tx.fetch_all(sql, params![owner, session])
}

/// Replaces the messages of a job. An attempt in flight loses its claim, because it has read the old messages.
pub fn set_messages(tx: &mut Tx<'_>, job: &JobMessages) -> Result<(), StoreError> {
    let sql = "UPDATE job SET messages = ?2, attempt = attempt + 1, leased = 0, due = created_at WHERE no = ?1";
    tx.execute(sql, params![job.no, job.messages]).map(drop)
}
