//! Extraction jobs and read cursors of the SQLite store.

use std::time::Duration;

use provost_core::Timestamp;
use provost_core::text::first_bytes;
use provost_store::Tx;
use provost_store::table::memory::job::{
    self, CursorRow, FailedJob, JobAttempt, JobMessages, JobSelector, NewJob,
};
use provost_store::table::memory::owner as owners;

use crate::MemoryError;
use crate::job::{
    ClaimResult, Conversation, ConversationMessage, ERROR_BYTES_MAX, ExtractionJob, JobClaim,
    JobRetry, JobStatus, ReadCursor, new_messages_since,
};
use crate::memory::Owner;
use crate::store::DeleteScope;

/// Stores a job for the messages that were neither extracted nor queued before, and returns its number. `None` if
/// there is no new message of the user.
pub(super) fn enqueue(
    tx: &mut Tx<'_>,
    owner: &Owner,
    conversation: &Conversation,
    now: Timestamp,
) -> Result<Option<u64>, MemoryError> {
    conversation.check()?;
    let session = &conversation.session;
    let cursor = match owners::number(tx, owner.as_str())? {
        Some(no) => read_cursor(tx, no, session)?,
        None => ReadCursor::default(),
    };
    let Some((messages, end)) = new_messages_since(conversation, &cursor) else {
        return Ok(None);
    };
    let owner = owners::number_or_new(tx, owner.as_str())?;
    let end = CursorRow { end_at: end.end, digest: end.digest };
    let messages = to_text(&messages)?;
    let new = NewJob { owner, session, messages: &messages, end, now };
    Ok(Some(job::insert(tx, &new)?))
}

/// Returns the position up to which a session was read or queued. The start if neither happened.
fn read_cursor(tx: &mut Tx<'_>, no: i64, session: &str) -> Result<ReadCursor, MemoryError> {
    let found = match job::queued_cursor(tx, no, session)? {
        Some(queued) => Some(queued),
        None => job::cursor(tx, no, session)?,
    };
    Ok(found.map(|row| ReadCursor { end: row.end_at, digest: row.digest }).unwrap_or_default())
}

/// Claims the oldest due job until the lease ends. The result has no job if none is due, and then the time of the next
/// one.
pub(super) fn claim(
    tx: &mut Tx<'_>,
    now: Timestamp,
    lease: Duration,
) -> Result<ClaimResult, MemoryError> {
    let pending = job::count_pending(tx)?;
    let mut claim = ClaimResult { pending, ..ClaimResult::default() };
    if pending == 0 {
        return Ok(claim);
    }
    match job::next(tx, now)? {
        Some(next) if next.due <= now => {
            claim.job = Some(claim_job(tx, next.no, now.after(lease))?)
        }
        Some(next) => claim.next_due = Some(next.due),
        None => {}
    }
    Ok(claim)
}

/// Claims a job until a point in time and reads it.
fn claim_job(tx: &mut Tx<'_>, no: i64, until: Timestamp) -> Result<ExtractionJob, MemoryError> {
    let claimed = job::claim(tx, no, until)?;
    let job = u64::try_from(no).unwrap_or(0);
    Ok(ExtractionJob {
        claim: JobClaim { job, attempt: to_u32(claimed.attempt) },
        owner: Owner::new(claimed.owner)?,
        session: claimed.session,
        messages: from_text(&claimed.messages)?,
        failures: to_u32(claimed.failures),
    })
}

/// Converts a claim into the key of its attempt.
fn attempt_of(claim: JobClaim) -> JobAttempt {
    JobAttempt { no: claim.job, attempt: claim.attempt.into() }
}

/// Converts a count. A larger one becomes the maximum.
fn to_u32(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Deletes a completed job and records that its session was read up to the job's end. Returns an error if the claim
/// was lost.
pub(super) fn finish(tx: &mut Tx<'_>, owner: &Owner, claim: JobClaim) -> Result<(), MemoryError> {
    match job::finish(tx, owner.as_str(), attempt_of(claim))? {
        Some(end) => Ok(job::put_cursor(tx, &end)?),
        None => Err(MemoryError::ClaimLost(claim.job)),
    }
}

/// Releases a failed job until its next attempt, or gives it up. Returns false if the claim was lost.
pub(super) fn schedule_retry(
    tx: &mut Tx<'_>,
    claim: JobClaim,
    retry: &JobRetry,
) -> Result<bool, MemoryError> {
    let problem = first_bytes(&retry.error, ERROR_BYTES_MAX);
    let failed = FailedJob { due: retry.retry_at, problem };
    let end = job::schedule_retry(tx, attempt_of(claim), failed)?;
    // The session continues without the messages of a job that was given up.
    if let Some(end) = end.as_ref().filter(|_| retry.retry_at.is_none()) {
        job::put_cursor(tx, end)?;
    }
    Ok(end.is_some())
}

/// Makes all jobs due now that wait for a retry.
pub(super) fn make_due(tx: &mut Tx<'_>, now: Timestamp) -> Result<(), MemoryError> {
    Ok(job::make_due(tx, now)?)
}

/// Returns the jobs of an owner, oldest first.
pub(super) fn statuses(tx: &mut Tx<'_>, owner: &Owner) -> Result<Vec<JobStatus>, MemoryError> {
    let Some(no) = owners::number(tx, owner.as_str())? else {
        return Ok(Vec::new());
    };
    let status = |row: job::JobSummary| JobStatus {
        job: row.no,
        session: row.session,
        created_at: row.created_at,
        failures: to_u32(row.failures),
        last_error: row.problem,
        is_given_up: row.given_up,
    };
    Ok(job::of_owner(tx, no)?.into_iter().map(status).collect())
}

/// Deletes the jobs and messages that would restore deleted memories. The read positions of the sessions remain.
pub(super) fn delete(tx: &mut Tx<'_>, no: i64, scope: &DeleteScope) -> Result<(), MemoryError> {
    let selected = match scope {
        DeleteScope::Memory(_) => return Ok(()),
        DeleteScope::Everything => JobSelector::Owner,
        DeleteScope::Session(session) => JobSelector::Session(session),
        DeleteScope::Message(source) => {
            remove_message(tx, no, &source.session, &source.message)?;
            JobSelector::EmptySession(&source.session)
        }
    };
    Ok(job::delete(tx, no, selected)?)
}

/// Removes a message from the jobs that contain it.
fn remove_message(
    tx: &mut Tx<'_>,
    no: i64,
    session: &str,
    message: &str,
) -> Result<(), MemoryError> {
    for JobMessages { no, messages: text } in job::messages_of(tx, no, session)? {
        let mut messages = from_text(&text)?;
        let before = messages.len();
        messages.retain(|queued| queued.digest != message);
        if messages.len() < before {
            job::set_messages(tx, &JobMessages { no, messages: to_text(&messages)? })?;
        }
    }
    Ok(())
}

/// Encodes messages as JSON.
fn to_text(messages: &[ConversationMessage]) -> Result<String, MemoryError> {
    serde_json::to_string(messages).map_err(|error| MemoryError::Bug(error.to_string()))
}

/// Decodes the messages of a job.
fn from_text(text: &str) -> Result<Vec<ConversationMessage>, MemoryError> {
    serde_json::from_str(text)
        .map_err(|error| MemoryError::CorruptFile(format!("the messages of a job: {error}")))
}
