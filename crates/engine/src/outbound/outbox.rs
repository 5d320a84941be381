//! What the outside must learn: written in the transaction of the change it tells of, published afterwards.
//!
//! Each row is published at least once. Whoever receives it knows a repetition by its key.

use std::sync::Arc;
use std::time::Duration;

use provost_bus::{Bus, Notice, RUN_ENDED, Topic, Wakeup};
use provost_core::lifecycle::RunStatus;
use provost_core::{Backoff, Timestamp};
use provost_failpoint::failpoint;
use provost_store::table::outbound::outbox::{self, OutboxRow};
use provost_store::table::work::run::RunRow;
use provost_store::{Hint, Tx};
use serde_json::{Value, json};

use crate::engine::EngineInner;
use crate::error::EngineError;

/// Rows that are published together.
const BATCH: u64 = 100;
/// How long a publisher may take for a batch before another may try.
const CLAIM: Duration = Duration::from_secs(60);
/// The waits after failures.
const RETRIES: Backoff = Backoff { first: Duration::from_secs(1), max: Duration::from_secs(300) };

/// Writes down what must be told, together with what happens in this transaction.
pub(crate) fn push(
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
    tx.hint(Hint::Outbox);
    Ok(())
}

/// Tells that a run has ended. What it answered is in the run.
pub(crate) fn run_ended(
    tx: &mut Tx<'_>,
    run: &RunRow,
    status: RunStatus,
) -> Result<(), EngineError> {
    let body = json!({
        "run": run.id, "task": run.task_id, "session": run.session_id, "agent": run.agent,
        "status": status, "code": run.outcome_code, "parent": run.parent_run_id,
    });
    push(tx, &run.namespace, RUN_ENDED, format!("{RUN_ENDED}:{}", run.id), &body)
}

/// Publishes until the process ends. Without a subscriber the notices stay in the outbox until they expire.
pub(crate) async fn run(shared: Arc<EngineInner>) {
    let bus = Arc::clone(shared.store.bus());
    let mut hints = shared.store.bus().subscribe(Topic::Tasks);
    loop {
        match publish_due(&shared, bus.as_ref()).await {
            Ok(0) => {}
            Ok(_) => continue,
            Err(error) => tracing::warn!(%error, "the outbox has to wait"),
        }
        tokio::select! {
            () = hints.woken(|wakeup| wakeup == Wakeup::Outbox) => {}
            () = tokio::time::sleep(shared.options.poll) => {}
        }
    }
}

/// Publishes what is due; returns how much that was.
async fn publish_due(shared: &EngineInner, bus: &dyn Bus) -> Result<usize, EngineError> {
    if !bus.has_subscribers(Topic::Notices) {
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

fn next_try(now: Timestamp, tries: u64) -> Timestamp {
    let doublings = u32::try_from(tries.saturating_sub(1)).unwrap_or(u32::MAX);
    now.after(RETRIES.wait(doublings))
}
