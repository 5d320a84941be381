//! Creation of webhook deliveries from the event log.

use std::collections::HashMap;
use std::sync::Arc;

use provost_core::lifecycle::{WebhookDeliveryState, webhook_delivery_deadline};
use provost_core::{Env, RunId, WebhookDeliveryId};
use provost_failpoint::failpoint;
use provost_store::Tx;
use provost_store::table::outbound::webhook::{self, WebhookRow};
use provost_store::table::outbound::webhook_delivery::WebhookDeliveryRow;
use provost_store::table::work::run_event;

use crate::error::EngineError;
use crate::outbound::webhook::Webhooks;
use provost_store::query::event_log::{self, LogEntry, RunScope};

/// Lag after which the cursor of a webhook advances even without deliveries. Below it, nothing is written for a webhook
/// without matching events.
const CURSOR_LAG_MAX: u64 = 200;

/// Result of one batch of events that became webhook deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FanoutReport {
    /// Number of new deliveries.
    pub deliveries: u64,
    /// True if more events are waiting.
    pub more: bool,
}

/// Deliveries to store for one webhook.
struct FanoutBatch {
    webhook: WebhookRow,
    /// New position of the cursor.
    to: u64,
    deliveries: Vec<NewWebhookDelivery>,
    more: bool,
}

/// A delivery to store.
struct NewWebhookDelivery {
    id: WebhookDeliveryId,
    event_key: String,
    body: String,
}

impl Webhooks<'_> {
    /// Creates deliveries for the events since the last call, for up to `limit` events of each webhook. `build` creates
    /// the body of a delivery.
    pub async fn fan_out(
        self,
        limit: u64,
        build: impl Fn(&LogEntry, &RunScope) -> String + Send + Sync + 'static,
    ) -> Result<FanoutReport, EngineError> {
        let waiting = self.engine.store().read(|tx| {
            let last = run_event::last_pos(tx)?;
            let mut rows = webhook::enabled(tx)?;
            rows.retain(|row| row.cursor_pos < last);
            Ok::<_, EngineError>(rows)
        });
        let build = Arc::new(build);
        let mut report = FanoutReport::default();
        for webhook in waiting.await? {
            let (build, env) = (Arc::clone(&build), self.engine.inner.env.clone());
            // Reads and builds outside of the write transaction.
            let read = self.engine.store().read(move |tx| batch(tx, webhook, limit, &*build, &env));
            let batch = read.await?;
            report.more |= batch.more;
            let is_empty = batch.deliveries.is_empty() && !batch.more;
            if is_empty && batch.to.saturating_sub(batch.webhook.cursor_pos) < CURSOR_LAG_MAX {
                continue;
            }
            failpoint!("webhook.before_fill");
            report.deliveries += self.engine.store().write(move |tx| store(tx, &batch)).await?;
            failpoint!("webhook.filled");
        }
        Ok(report)
    }
}

/// Returns the deliveries of the next events of a webhook, without storing them.
fn batch(
    tx: &mut Tx<'_>,
    webhook: WebhookRow,
    limit: u64,
    build: &impl Fn(&LogEntry, &RunScope) -> String,
    env: &Env,
) -> Result<FanoutBatch, EngineError> {
    let kinds: Vec<String> = serde_json::from_str(&webhook.kinds)?;
    let page = event_log::namespace_page(tx, &webhook.namespace, webhook.cursor_pos, limit)?;
    let mut addresses: HashMap<RunId, RunScope> = HashMap::new();
    let mut deliveries = Vec::new();
    for entry in &page.entries {
        if !kinds.is_empty() && !kinds.contains(&entry.kind) {
            continue;
        }
        if !addresses.contains_key(&entry.run)
            && let Some(address) = event_log::run_scope_in(tx, entry.run)?
        {
            addresses.insert(entry.run, address);
        }
        let Some(address) = addresses.get(&entry.run) else { continue };
        let event_key = format!("{}:{}", entry.run, entry.seq);
        deliveries.push(NewWebhookDelivery {
            id: env.id(),
            event_key,
            body: build(entry, address),
        });
    }
    Ok(FanoutBatch { webhook, to: page.next, deliveries, more: page.has_more })
}

/// Stores deliveries and advances the cursor of the webhook. Returns the number of deliveries. Stores nothing and
/// returns 0 if another process has advanced it.
fn store(tx: &mut Tx<'_>, batch: &FanoutBatch) -> Result<u64, EngineError> {
    let webhook = &batch.webhook;
    if !webhook::advance(tx, webhook.id, webhook.cursor_pos, batch.to)? {
        return Ok(0);
    }
    let now = tx.now();
    let mut stored = 0;
    for draft in &batch.deliveries {
        let row = WebhookDeliveryRow {
            id: draft.id,
            webhook_id: webhook.id,
            namespace: webhook.namespace.clone(),
            event_key: draft.event_key.clone(),
            body: draft.body.clone(),
            state: WebhookDeliveryState::Pending,
            tries: 0,
            next_at: now,
            give_up_at: webhook_delivery_deadline(now),
            claimed_until: None,
            last_status: None,
            last_error: None,
            created: now,
            updated: now,
        };
        stored += u64::from(row.insert_new(tx)?);
    }
    Ok(stored)
}
