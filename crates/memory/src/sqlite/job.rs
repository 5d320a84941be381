//! Jobs and cursors in the file.

use std::time::Duration;

use provost_core::Timestamp;
use provost_core::text::first_bytes;
use provost_store::Tx;
use provost_store::table::memory::job::{
    self, CursorRow, FailedJob, JobAttempt, JobMessages, JobsOf, NewJob,
};
use provost_store::table::memory::owner as owners;

use crate::MemoryError;
use crate::job::{
    Claim, Conversation, Cursor, Job, JobInfo, JobKey, PROBLEM_BYTES_MAX, Postponed, Said, fresh,
};
use crate::memory::Owner;
use crate::store::Forget;

pub(super) fn enqueue(
    tx: &mut Tx<'_>,
    owner: &Owner,
    conversation: &Conversation,
    now: Timestamp,
) -> Result<Option<u64>, MemoryError> {
    conversation.check()?;
    let session = &conversation.session;
    let cursor = match owners::number(tx, owner.as_str())? {
        Some(no) => cursor(tx, no, session)?,
        None => Cursor::default(),
    };
    let Some((messages, end)) = fresh(conversation, &cursor) else {
        return Ok(None);
    };
    let owner = owners::number_or_new(tx, owner.as_str())?;
    let end = CursorRow { end_at: end.end, digest: end.digest };
    let messages = to_text(&messages)?;
    let new = NewJob { owner, session, messages: &messages, end, now };
    Ok(Some(job::insert(tx, &new)?))
}

/// How far a session was read or queued.
fn cursor(tx: &mut Tx<'_>, no: i64, session: &str) -> Result<Cursor, MemoryError> {
    let found = match job::queued_cursor(tx, no, session)? {
        Some(queued) => Some(queued),
        None => job::cursor(tx, no, session)?,
    };
    Ok(found.map(|row| Cursor { end: row.end_at, digest: row.digest }).unwrap_or_default())
}

pub(super) fn claim(
    tx: &mut Tx<'_>,
    now: Timestamp,
    lease: Duration,
) -> Result<Claim, MemoryError> {
    let pending = job::count_pending(tx)?;
    let mut claim = Claim { pending, ..Claim::default() };
    if pending == 0 {
        return Ok(claim);
    }
    match job::next(tx, now)? {
        Some(next) if next.due <= now => claim.job = Some(take(tx, next.no, now.after(lease))?),
        Some(next) => claim.next_due = Some(next.due),
        None => {}
    }
    Ok(claim)
}

fn take(tx: &mut Tx<'_>, no: i64, until: Timestamp) -> Result<Job, MemoryError> {
    let claimed = job::claim(tx, no, until)?;
    let job = u64::try_from(no).unwrap_or(0);
    Ok(Job {
        key: JobKey { job, attempt: to_u32(claimed.attempt) },
        owner: Owner::new(claimed.owner)?,
        session: claimed.session,
        messages: from_text(&claimed.messages)?,
        failures: to_u32(claimed.failures),
    })
}

fn attempt_of(key: JobKey) -> JobAttempt {
    JobAttempt { no: key.job, attempt: key.attempt.into() }
}

fn to_u32(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Ends a job, if it is still the caller's: its session counts as read up to the job's end.
pub(super) fn finish(tx: &mut Tx<'_>, owner: &Owner, key: JobKey) -> Result<(), MemoryError> {
    match job::finish(tx, owner.as_str(), attempt_of(key))? {
        Some(end) => Ok(job::put_cursor(tx, &end)?),
        None => Err(MemoryError::JobGone(key.job)),
    }
}

pub(super) fn postpone(
    tx: &mut Tx<'_>,
    key: JobKey,
    postponed: &Postponed,
) -> Result<bool, MemoryError> {
    let problem = first_bytes(&postponed.problem, PROBLEM_BYTES_MAX);
    let failed = FailedJob { due: postponed.until, problem };
    let end = job::postpone(tx, attempt_of(key), failed)?;
    // Later messages must not wait for a job that was given up, and it must not come back with them.
    if let Some(end) = end.as_ref().filter(|_| postponed.until.is_none()) {
        job::put_cursor(tx, end)?;
    }
    Ok(end.is_some())
}

pub(super) fn hurry(tx: &mut Tx<'_>, now: Timestamp) -> Result<(), MemoryError> {
    Ok(job::make_due(tx, now)?)
}

pub(super) fn infos(tx: &mut Tx<'_>, owner: &Owner) -> Result<Vec<JobInfo>, MemoryError> {
    let Some(no) = owners::number(tx, owner.as_str())? else {
        return Ok(Vec::new());
    };
    let info = |row: job::ListedJob| JobInfo {
        job: row.no,
        session: row.session,
        created_at: row.created_at,
        failures: to_u32(row.failures),
        problem: row.problem,
        given_up: row.given_up,
    };
    Ok(job::of_owner(tx, no)?.into_iter().map(info).collect())
}

/// Calls off what would bring back what is forgotten. How far sessions were read stays.
pub(super) fn forget(tx: &mut Tx<'_>, no: i64, what: &Forget) -> Result<(), MemoryError> {
    let which = match what {
        Forget::Memory(_) => return Ok(()),
        Forget::Everything => JobsOf::Owner,
        Forget::Session(session) => JobsOf::Session(session),
        Forget::Message(source) => {
            cut_message(tx, no, &source.session, &source.message)?;
            JobsOf::EmptySession(&source.session)
        }
    };
    Ok(job::call_off(tx, no, which)?)
}

/// Takes a message out of the jobs that have it.
fn cut_message(tx: &mut Tx<'_>, no: i64, session: &str, message: &str) -> Result<(), MemoryError> {
    for JobMessages { no, messages: text } in job::messages_of(tx, no, session)? {
        let mut messages = from_text(&text)?;
        let before = messages.len();
        messages.retain(|said| said.digest != message);
        if messages.len() < before {
            job::set_messages(tx, &JobMessages { no, messages: to_text(&messages)? })?;
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
