//! Jobs and how far sessions were read.

use std::sync::Arc;
use std::time::Duration;

use provost_core::{Env, Message, Timestamp};

use super::sample::{add, entry, owner};
use crate::MemoryError;
use crate::job::{Claim, Conversation, Job, Postponed};
use crate::memory::{NewMemory, Source, digest};
use crate::store::{Batch, Forget, MemoryStore, Query};

/// How long the checks take a job for.
const LEASE: Duration = Duration::from_secs(60);

fn said(texts: &[&str]) -> Vec<Arc<Message>> {
    let message =
        |(at, text): (i64, &&str)| Arc::new(Message::user(*text).at(Timestamp::from_millis(at)));
    (0..).zip(texts).map(message).collect()
}

/// The job of a claim that must have one.
///
/// # Panics
/// If there is none.
#[expect(clippy::expect_used, reason = "a check panics where the store is wrong")]
fn due(claim: Claim, what: &str) -> Job {
    claim.job.expect(what)
}

fn talk(session: &str, texts: &[&str]) -> Conversation {
    Conversation::new(session, &said(texts))
}

/// Queued once, done once, in order, by one at a time; late comers are told.
///
/// # Panics
/// If the store is wrong.
pub async fn jobs(store: &dyn MemoryStore) -> Result<(), MemoryError> {
    let (env, who, other) = (Env::simulated(12), owner("jobs"), owner("other jobs"));
    let first = store.enqueue(&who, talk("s", &["a", "b"]), env.now()).await?;
    assert!(first.is_some());
    assert_eq!(store.enqueue(&who, talk("s", &["a", "b"]), env.now()).await?, None, "once");
    let second = store.enqueue(&who, talk("s", &["a", "b", "c"]), env.now()).await?;
    assert!(second > first);
    store.enqueue(&other, talk("s", &["a"]), env.now()).await?;
    let claim = store.claim(env.now(), LEASE).await?;
    assert_eq!(claim.pending, 3);
    let job = due(claim, "the first job");
    assert_eq!((Some(job.key.job), &job.owner, job.messages.len()), (first, &who, 2));
    let next = store.claim(env.now(), LEASE).await?.job;
    assert_eq!(next.map(|job| job.owner), Some(other.clone()), "an owner's jobs are one at a time");
    let none = store.claim(env.now(), LEASE).await?;
    assert_eq!((none.job, none.next_due), (None, Some(env.now().after(LEASE))));
    env.advance(LEASE);
    let again = due(store.claim(env.now(), LEASE).await?, "the lease ended");
    assert_eq!((again.key.job, again.key.attempt), (job.key.job, job.key.attempt + 1));
    let fact = |env: &Env| add([entry(env, &who, NewMemory::new("fact"), &[])]);
    let late = store.apply(&who, Batch { done: Some(job.key), ..fact(&env) }).await;
    assert!(matches!(late, Err(MemoryError::JobGone(_))), "{late:?}");
    assert_eq!(store.count(&who).await?, 0, "a late comer changes nothing");
    let problem = "no model".to_owned();
    let until = env.now().after(LEASE);
    let wait = Postponed { until: Some(until), problem: problem.clone() };
    assert!(!store.postpone(job.key, wait.clone()).await?);
    assert!(store.postpone(again.key, wait).await?);
    store.hurry(env.now()).await?;
    let third = due(store.claim(env.now(), LEASE).await?, "it was hurried");
    assert_eq!((third.key.job, third.failures), (job.key.job, 1));
    store.apply(&who, Batch { done: Some(third.key), ..fact(&env) }).await?;
    assert_eq!(store.count(&who).await?, 1);
    assert_eq!(store.search(&who, &Query::text("fact")).await?.len(), 1);
    let later = due(store.claim(env.now(), LEASE).await?, "the next one");
    assert_eq!(later.messages.len(), 1, "only what is new");
    assert!(store.postpone(later.key, Postponed { until: None, problem }).await?);
    let infos = store.jobs(&who).await?;
    assert!(infos.len() == 1 && infos[0].given_up, "{infos:?}");
    assert_eq!(infos[0].problem.as_deref(), Some("no model"));
    assert_eq!(store.enqueue(&who, talk("s", &["a", "b", "c"]), env.now()).await?, None);
    finish_all(store, &env).await
}

/// What is forgotten does not come back by a job, queued or running.
///
/// # Panics
/// If the store is wrong.
pub async fn forgetting_calls_off(store: &dyn MemoryStore) -> Result<(), MemoryError> {
    let (env, who) = (Env::simulated(13), owner("called off"));
    let texts = ["my secret", "my name"];
    store.enqueue(&who, talk("s", &texts), env.now()).await?;
    let running = due(store.claim(env.now(), LEASE).await?, "it is due");
    let secret = Source { session: "s".into(), message: digest(&said(&texts)[0]) };
    store.forget(&who, &Forget::Message(secret)).await?;
    let late = store.apply(&who, Batch { changes: Vec::new(), done: Some(running.key) }).await;
    assert!(matches!(late, Err(MemoryError::JobGone(_))), "it has seen the message: {late:?}");
    let rest = due(store.claim(env.now(), LEASE).await?, "the rest is due");
    let left: Vec<_> = rest.messages.iter().map(|said| said.text.as_str()).collect();
    assert_eq!(left, ["my name"]);
    store.forget(&who, &Forget::Session("s".into())).await?;
    let late = store.apply(&who, Batch { changes: Vec::new(), done: Some(rest.key) }).await;
    assert!(matches!(late, Err(MemoryError::JobGone(_))), "{late:?}");
    assert_eq!(store.enqueue(&who, talk("s", &texts), env.now()).await?, None, "it is over");
    store.enqueue(&who, talk("t", &["x"]), env.now()).await?;
    store.forget(&who, &Forget::Everything).await?;
    assert!(store.jobs(&who).await?.is_empty());
    assert_eq!(store.enqueue(&who, talk("t", &["x"]), env.now()).await?, None);
    let new = store.enqueue(&who, talk("t", &["x", "y"]), env.now()).await?;
    assert!(new.is_some(), "what is said afterwards is new");
    finish_all(store, &env).await
}

async fn finish_all(store: &dyn MemoryStore, env: &Env) -> Result<(), MemoryError> {
    env.advance(LEASE);
    while let Some(job) = store.claim(env.now(), LEASE).await?.job {
        store.apply(&job.owner, Batch { changes: Vec::new(), done: Some(job.key) }).await?;
    }
    Ok(())
}
