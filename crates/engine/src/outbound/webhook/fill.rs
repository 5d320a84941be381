//! From the log to posts.

use std::collections::HashMap;
use std::sync::Arc;

use provost_core::lifecycle::{WebhookDeliveryState, webhook_delivery_deadline};
use provost_core::{Env, RunId, WebhookDeliveryId};
use provost_failpoint::failpoint;
use provost_store::Tx;
use provost_store::table::outbound::webhook::{self, WebhookRow};
use provost_store::table::outbound::webhook_delivery::WebhookPostRow;
use provost_store::table::work::run_event;

use crate::error::EngineError;
use crate::outbound::webhook::Webhooks;
use provost_store::query::event_log::{self, LogEntry, RunPlace};

/// A webhook whose cursor is behind by this much is moved though there was nothing for it. Below it nothing is written, so
/// that webhooks of quiet namespaces cost nothing.
const BEHIND_MAX: u64 = 200;

/// What a call made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Filled {
    /// New posts.
    pub posts: u64,
    /// True if there is more to look at.
    pub more: bool,
}

/// What is stored for one webhook at once.
struct Batch {
    webhook: WebhookRow,
    /// The cursor moves to here.
    to: u64,
    posts: Vec<Draft>,
    more: bool,
}

/// A post that is to be stored.
struct Draft {
    id: WebhookDeliveryId,
    event_key: String,
    body: String,
}

impl Webhooks<'_> {
    /// Makes posts for what happened since the last time; up to `limit` events are looked at for each webhook. What is sent is
    /// what `build` makes of an event.
    pub async fn fill(
        self,
        limit: u64,
        build: impl Fn(&LogEntry, &RunPlace) -> String + Send + Sync + 'static,
    ) -> Result<Filled, EngineError> {
        let waiting = self.engine.store().read(|tx| {
            let last = run_event::last_pos(tx)?;
            let mut rows = webhook::enabled(tx)?;
            rows.retain(|row| row.cursor_pos < last);
            Ok::<_, EngineError>(rows)
        });
        let build = Arc::new(build);
        let mut filled = Filled::default();
        for webhook in waiting.await? {
            let (build, env) = (Arc::clone(&build), self.engine.inner.env.clone());
            // The texts are read and made beside the writer, which has other things to do.
            let read = self.engine.store().read(move |tx| batch(tx, webhook, limit, &*build, &env));
            let batch = read.await?;
            filled.more |= batch.more;
            let quiet = batch.posts.is_empty() && !batch.more;
            if quiet && batch.to.saturating_sub(batch.webhook.cursor_pos) < BEHIND_MAX {
                continue;
            }
            failpoint!("webhook.before_fill");
            filled.posts += self.engine.store().write(move |tx| store(tx, &batch)).await?;
            failpoint!("webhook.filled");
        }
        Ok(filled)
    }
}

fn batch(
    tx: &mut Tx<'_>,
    webhook: WebhookRow,
    limit: u64,
    build: &impl Fn(&LogEntry, &RunPlace) -> String,
    env: &Env,
) -> Result<Batch, EngineError> {
    let kinds: Vec<String> = serde_json::from_str(&webhook.kinds)?;
    let page = event_log::namespace_page(tx, &webhook.namespace, webhook.cursor_pos, limit)?;
    let mut places: HashMap<RunId, RunPlace> = HashMap::new();
    let mut posts = Vec::new();
    for entry in &page.entries {
        if !kinds.is_empty() && !kinds.contains(&entry.kind) {
            continue;
        }
        if !places.contains_key(&entry.run)
            && let Some(place) = event_log::place_in(tx, entry.run)?
        {
            places.insert(entry.run, place);
        }
        let Some(place) = places.get(&entry.run) else { continue };
        let event_key = format!("{}:{}", entry.run, entry.seq);
        posts.push(Draft { id: env.id(), event_key, body: build(entry, place) });
    }
    Ok(Batch { webhook, to: page.next, posts, more: page.more })
}

/// Stores posts and moves the cursor, unless somebody else has done it.
fn store(tx: &mut Tx<'_>, batch: &Batch) -> Result<u64, EngineError> {
    let webhook = &batch.webhook;
    if !webhook::advance(tx, webhook.id, webhook.cursor_pos, batch.to)? {
        return Ok(0);
    }
    let now = tx.now();
    let mut stored = 0;
    for draft in &batch.posts {
        let row = WebhookPostRow {
            id: draft.id,
            webhook_id: webhook.id,
            namespace: webhook.namespace.clone(),
            event_key: draft.event_key.clone(),
            body: draft.body.clone(),
            state: WebhookDeliveryState::Pending.as_str().to_owned(),
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
