//! Outbox: notices that are written in the transaction of a change and published afterwards.
//!
//! Each notice is published at least once. Receivers recognize a repetition by its key.

use std::sync::Arc;
use std::time::Duration;

use provost_bus::{Bus, Notice, RUN_ENDED, Topic, Wakeup};
use provost_core::lifecycle::RunStatus;
use provost_core::{Backoff, Timestamp};
use provost_failpoint::failpoint;
use provost_store::Tx;
use provost_store::table::outbound::outbox::{self, OutboxRow};
use provost_store::table::work::run::RunRow;
use serde_json::{Value, json};

use crate::engine::EngineInner;
use crate::error::EngineError;

/// Rows per batch.
const BATCH: u64 = 100;
/// Duration of a publisher's claim.
const CLAIM: Duration = Duration::from_secs(60);
/// Delays between retries.
const RETRIES: Backoff = Backoff { first: Duration::from_secs(1), max: Duration::from_secs(300) };

/// Adds a notice to the outbox in the transaction of the change, unless its key exists, and wakes the sender.
pub(crate) fn insert_message(
    tx: &mut Tx<'_>,
    namespace: &str,
    topic: &str,
    key: String,
    body: &Value,
) -> Result<(), EngineError> {
    let row = OutboxRow {
        id: key,
        namespace: namespace.to_owned(),
        topic: topic.to_owned(),
        body: body.to_string(),
        available: tx.now(),
        tries: 0,
        claimed_until: None,
        done: None,
        last_error: None,
    };
    row.insert_new(tx)?;
    tx.wake(Wakeup::Outbox);
    Ok(())
}

/// Adds a notice of the end of a run to the outbox. The notice does not contain the result.
pub(crate) fn run_ended(
    tx: &mut Tx<'_>,
    run: &RunRow,
    status: RunStatus,
) -> Result<(), EngineError> {
    let body = json!({
        "run": run.id, "task": run.task_id, "session": run.session_id, "agent": run.agent,
        "status": status, "code": run.outcome_code, "parent": run.parent_run_id,
    });
    insert_message(tx, &run.namespace, RUN_ENDED, format!("{RUN_ENDED}:{}", run.id), &body)
}

/// Publishes notices until the process ends. Without a subscriber, the notices stay in the outbox until they expire.
pub(crate) async fn run(shared: Arc<EngineInner>) {
    let bus = Arc::clone(shared.store.bus());
    let mut hints = shared.store.bus().subscribe(Topic::Tasks);
    loop {
        match publish_due(&shared, bus.as_ref()).await {
            Ok(0) => {}
            Ok(_) => continue,
            Err(error) => tracing::warn!(%error, "the outbox could not be published"),
        }
        tokio::select! {
            () = hints.woken(|wakeup| wakeup == Wakeup::Outbox) => {}
            () = tokio::time::sleep(shared.options.poll) => {}
        }
    }
}

/// Publishes a batch of due notices and records the results. Returns the number of tries, 0 without subscribers.
async fn publish_due(shared: &EngineInner, bus: &dyn Bus) -> Result<usize, EngineError> {
    if !bus.may_have_subscribers(Topic::Notices) {
        return Ok(0);
    }
    let claimed = shared.store.write(|tx| {
        let until = tx.now().after(CLAIM);
        Ok::<_, EngineError>(outbox::claim(tx, until, BATCH)?)
    });
    let rows = claimed.await?;
    let count = rows.len();
    for row in rows {
        failpoint!("outbox.claimed");
        let notice = Notice {
            key: row.id.clone(),
            namespace: row.namespace,
            topic: row.topic,
            body: serde_json::from_str(&row.body)?,
        };
        let published = bus.publish(&notice).await;
        failpoint!("outbox.published");
        let (id, tries) = (row.id, row.tries);
        let settled = shared.store.write(move |tx| match &published {
            Ok(()) => Ok::<_, EngineError>(outbox::done(tx, &id)?),
            Err(error) => Ok(outbox::retry(tx, &id, tries, next_try(tx.now(), tries), &error.0)?),
        });
        settled.await?;
    }
    Ok(count)
}

/// Returns the time of the next attempt after `tries` failed ones.
fn next_try(now: Timestamp, tries: u64) -> Timestamp {
    let doublings = u32::try_from(tries.saturating_sub(1)).unwrap_or(u32::MAX);
    now.after(RETRIES.wait(doublings))
}
