//! Extraction jobs and read positions.

use std::sync::Arc;
use std::time::Duration;

use provost_core::{Env, Message, Timestamp};

use super::sample::{add, owner, record};
use crate::MemoryError;
use crate::job::{ClaimResult, Conversation, ExtractionJob, JobRetry};
use crate::memory::{MemorySource, NewMemory, digest};
use crate::store::{ChangeSet, DeleteScope, MemoryStore, SearchQuery};

/// Duration of a lease in the checks.
const LEASE: Duration = Duration::from_secs(60);

/// Creates user messages with these texts, one millisecond apart.
fn messages(texts: &[&str]) -> Vec<Arc<Message>> {
    let message =
        |(at, text): (i64, &&str)| Arc::new(Message::user(*text).at(Timestamp::from_millis(at)));
    (0..).zip(texts).map(message).collect()
}

/// Returns the claimed job.
///
/// # Panics
/// If no job was claimed.
#[expect(clippy::expect_used, reason = "a check panics if the store violates the contract")]
fn claimed_job(result: ClaimResult, message: &str) -> ExtractionJob {
    result.job.expect(message)
}

/// Creates a conversation of user messages.
fn conversation(session: &str, texts: &[&str]) -> Conversation {
    Conversation::new(session, &messages(texts))
}

/// Each message is queued once, jobs of an owner run in order and one at a time, and a lost claim is rejected.
///
/// # Panics
/// If the store violates the contract.
pub async fn jobs(store: &dyn MemoryStore) -> Result<(), MemoryError> {
    let (env, who, other) = (Env::simulated(12), owner("jobs"), owner("other jobs"));
    let first = store.enqueue(&who, conversation("s", &["a", "b"]), env.now()).await?;
    assert!(first.is_some());
    assert_eq!(store.enqueue(&who, conversation("s", &["a", "b"]), env.now()).await?, None, "once");
    let second = store.enqueue(&who, conversation("s", &["a", "b", "c"]), env.now()).await?;
    assert!(second > first);
    store.enqueue(&other, conversation("s", &["a"]), env.now()).await?;
    let claim = store.claim(env.now(), LEASE).await?;
    assert_eq!(claim.pending, 3);
    let job = claimed_job(claim, "the first job");
    assert_eq!((Some(job.claim.job), &job.owner, job.messages.len()), (first, &who, 2));
    let next = store.claim(env.now(), LEASE).await?.job;
    assert_eq!(next.map(|job| job.owner), Some(other.clone()), "an owner's jobs are one at a time");
    let none = store.claim(env.now(), LEASE).await?;
    assert_eq!((none.job, none.next_due), (None, Some(env.now().after(LEASE))));
    env.advance(LEASE);
    let again = claimed_job(store.claim(env.now(), LEASE).await?, "the lease ended");
    assert_eq!((again.claim.job, again.claim.attempt), (job.claim.job, job.claim.attempt + 1));
    let fact = |env: &Env| add([record(env, &who, NewMemory::new("fact"), &[])]);
    let late = store.apply(&who, ChangeSet { finished_job: Some(job.claim), ..fact(&env) }).await;
    assert!(matches!(late, Err(MemoryError::ClaimLost(_))), "{late:?}");
    assert_eq!(store.count(&who).await?, 0, "a lost claim changes nothing");
    let error = "no model".to_owned();
    let retry_at = env.now().after(LEASE);
    let wait = JobRetry { retry_at: Some(retry_at), error: error.clone() };
    assert!(!store.schedule_retry(job.claim, wait.clone()).await?);
    assert!(store.schedule_retry(again.claim, wait).await?);
    store.make_due(env.now()).await?;
    let third = claimed_job(store.claim(env.now(), LEASE).await?, "it is due");
    assert_eq!((third.claim.job, third.failures), (job.claim.job, 1));
    store.apply(&who, ChangeSet { finished_job: Some(third.claim), ..fact(&env) }).await?;
    assert_eq!(store.count(&who).await?, 1);
    assert_eq!(store.search(&who, &SearchQuery::text("fact")).await?.len(), 1);
    let later = claimed_job(store.claim(env.now(), LEASE).await?, "the next one");
    assert_eq!(later.messages.len(), 1, "only what is new");
    assert!(store.schedule_retry(later.claim, JobRetry { retry_at: None, error }).await?);
    let statuses = store.jobs(&who).await?;
    assert!(statuses.len() == 1 && statuses[0].is_given_up, "{statuses:?}");
    assert_eq!(statuses[0].last_error.as_deref(), Some("no model"));
    assert_eq!(store.enqueue(&who, conversation("s", &["a", "b", "c"]), env.now()).await?, None);
    finish_all(store, &env).await
}

/// No queued or running job restores a deleted memory.
///
/// # Panics
/// If the store violates the contract.
pub async fn deletion_cancels_jobs(store: &dyn MemoryStore) -> Result<(), MemoryError> {
    let (env, who) = (Env::simulated(13), owner("called off"));
    let texts = ["my secret", "my name"];
    store.enqueue(&who, conversation("s", &texts), env.now()).await?;
    let running = claimed_job(store.claim(env.now(), LEASE).await?, "it is due");
    let secret = MemorySource { session: "s".into(), message: digest(&messages(&texts)[0]) };
    store.delete(&who, &DeleteScope::Message(secret)).await?;
    let late = store
        .apply(&who, ChangeSet { changes: Vec::new(), finished_job: Some(running.claim) })
        .await;
    assert!(
        matches!(late, Err(MemoryError::ClaimLost(_))),
        "the attempt has read the message: {late:?}"
    );
    let rest = claimed_job(store.claim(env.now(), LEASE).await?, "the rest is due");
    let left: Vec<_> = rest.messages.iter().map(|message| message.text.as_str()).collect();
    assert_eq!(left, ["my name"]);
    store.delete(&who, &DeleteScope::Session("s".into())).await?;
    let late =
        store.apply(&who, ChangeSet { changes: Vec::new(), finished_job: Some(rest.claim) }).await;
    assert!(matches!(late, Err(MemoryError::ClaimLost(_))), "{late:?}");
    assert_eq!(
        store.enqueue(&who, conversation("s", &texts), env.now()).await?,
        None,
        "the session was read"
    );
    store.enqueue(&who, conversation("t", &["x"]), env.now()).await?;
    store.delete(&who, &DeleteScope::Everything).await?;
    assert!(store.jobs(&who).await?.is_empty());
    assert_eq!(store.enqueue(&who, conversation("t", &["x"]), env.now()).await?, None);
    let new = store.enqueue(&who, conversation("t", &["x", "y"]), env.now()).await?;
    assert!(new.is_some(), "later messages are new");
    finish_all(store, &env).await
}

/// Lets all leases expire, then claims and finishes all jobs.
async fn finish_all(store: &dyn MemoryStore, env: &Env) -> Result<(), MemoryError> {
    env.advance(LEASE);
    while let Some(job) = store.claim(env.now(), LEASE).await?.job {
        store
            .apply(&job.owner, ChangeSet { changes: Vec::new(), finished_job: Some(job.claim) })
            .await?;
    }
    Ok(())
}
