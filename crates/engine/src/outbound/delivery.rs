//! Deliveries of answers to channels.
//!
//! The transaction that ends a run creates its delivery, so no answer is lost. The outcome of a delivery never changes
//! the run.

mod adapter;
mod send;

use provost_core::command::RoutingContext;
use provost_core::id::name::Namespace;
use provost_core::lifecycle::{
    DeliveryState, DeliveryTransition, RequestError, RunStatus, delivery_deadline,
};
use provost_core::recovery::delivery_key;
use provost_core::{DeliveryId, Message, MessageId};
use provost_store::table::outbound::delivery::{self, DeliveryRow};
use provost_store::table::work::run::{self, RunRow};
use provost_store::table::work::run_step;
use provost_store::table::work::task::TaskRow;
use provost_store::{Locked, Tx, Wakeup};
use serde::Deserialize;
use serde_json::{Value, json};

pub use self::adapter::{DeliveryAdapter, DeliveryTarget, SendError, SendReceipt};
pub(crate) use self::send::run;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::input;
use crate::outbound::outbox;
use provost_store::table::work::stored_message as message;

/// Answer of an agent that wants no delivery.
const NO_REPLY: &str = "NO_REPLY";

/// Commands for deliveries. See [`Engine::deliveries`](crate::Engine::deliveries).
#[derive(Clone, Copy)]
pub struct Deliveries<'a> {
    pub(crate) engine: &'a Engine,
}

impl Deliveries<'_> {
    /// Sends a failed, abandoned or unknown delivery again. Fails for any other state. The delivery gets a new
    /// generation and a new key, so a message that had arrived after all arrives twice.
    pub async fn retry(
        self,
        namespace: &Namespace,
        id: DeliveryId,
    ) -> Result<DeliveryRow, EngineError> {
        let namespace = namespace.clone();
        self.engine.inner.store.write(move |tx| retry(tx, &namespace, id)).await
    }

    /// Dismisses a delivery that has not arrived, so that it is not sent. Fails for any other state.
    pub async fn dismiss(
        self,
        namespace: &Namespace,
        id: DeliveryId,
    ) -> Result<DeliveryRow, EngineError> {
        let namespace = namespace.clone();
        let dismissed = self.engine.inner.store.write(move |tx| {
            let mut row = lock(tx, &namespace, id)?;
            settle(tx, &mut row, DeliveryTransition::Dismissed)?;
            Ok::<_, EngineError>(row.into_row())
        });
        dismissed.await
    }
}

/// Fields of a task request that control its deliveries.
#[derive(Deserialize)]
struct DeliveryRequestFields {
    #[serde(default)]
    deliver: bool,
    #[serde(default)]
    routing: RoutingContext,
}

/// Creates the delivery of a run's answer. Does nothing if the task did not request one, or the run has no answer to
/// deliver.
pub(crate) fn create_delivery(
    tx: &mut Tx<'_>,
    run: &RunRow,
    task: &TaskRow,
    status: RunStatus,
) -> Result<(), EngineError> {
    if status != RunStatus::Ok {
        return Ok(());
    }
    let DeliveryRequestFields { deliver, routing } = serde_json::from_str(&task.command)?;
    if !deliver {
        return Ok(());
    }
    // A later message can have another route than the first one.
    let routing_of_run = input::routing_of_run(tx, run.id)?;
    let Some(target) = routing_of_run.reply_target().or(routing.reply_target()) else {
        return Ok(());
    };
    let result: Value = serde_json::from_str(run.result.as_deref().unwrap_or("{}"))?;
    let text = result["text"].as_str().unwrap_or_default();
    if text.trim().is_empty() || text.trim() == NO_REPLY {
        return Ok(());
    }
    let channel = target.channel.to_owned();
    let target = serde_json::to_string(&DeliveryTarget::of(&target))?;
    let now = tx.now();
    let row = DeliveryRow {
        id: tx.id(),
        namespace: run.namespace.clone(),
        run_id: run.id,
        channel,
        send_key: delivery_key(run.id, run.next_step, &target, 1),
        target,
        generation: 1,
        message_id: answer_message(tx, run, text)?,
        state: DeliveryState::Pending,
        tries: 0,
        next_at: now,
        give_up_at: delivery_deadline(now),
        claimed_until: None,
        receipt: None,
        last_error: None,
        created: now,
        updated: now,
    };
    row.insert(tx)?;
    tx.wake(Wakeup::Delivery);
    Ok(())
}

/// Returns the message with the answer of a run: the last message of the model, or a new one that it stores if the
/// answer differs.
fn answer_message(tx: &mut Tx<'_>, run: &RunRow, text: &str) -> Result<MessageId, EngineError> {
    if let Some(last) = run_step::last_model_message(tx, run.id)?
        && message::get(tx, last)?.text() == text
    {
        return Ok(last);
    }
    let id = tx.id();
    let routing_of_run = Message::assistant(text).at(tx.now());
    message::put(tx, &run.namespace, id, &serde_json::to_string(&routing_of_run)?)?;
    Ok(id)
}

/// Returns a delivery. Fails if the namespace has none with this id.
fn find(
    tx: &mut Tx<'_>,
    namespace: &Namespace,
    id: DeliveryId,
) -> Result<DeliveryRow, EngineError> {
    let row = delivery::find(tx, namespace.as_str(), id)?;
    row.ok_or_else(|| EngineError::not_found("delivery", id))
}

/// Returns a delivery, locked. Fails if the namespace has none with this id.
fn lock(
    tx: &mut Tx<'_>,
    namespace: &Namespace,
    id: DeliveryId,
) -> Result<Locked<DeliveryRow>, EngineError> {
    find(tx, namespace, id)?;
    delivery::lock(tx, id)?.ok_or_else(|| EngineError::not_found("delivery", id))
}

/// Makes a delivery due again inside a transaction, with a new generation, key and deadline.
fn retry(
    tx: &mut Tx<'_>,
    namespace: &Namespace,
    id: DeliveryId,
) -> Result<DeliveryRow, EngineError> {
    let mut row = lock(tx, namespace, id)?;
    transition(&mut row, DeliveryTransition::Retried)?;
    let now = tx.now();
    let run = run::get(tx, row.run_id)?.ok_or_else(|| EngineError::not_found("run", row.run_id))?;
    row.generation += 1;
    row.send_key = delivery_key(run.id, run.next_step, &row.target, row.generation);
    row.tries = 0;
    row.next_at = now;
    row.give_up_at = delivery_deadline(now);
    row.updated = now;
    row.save(tx)?;
    tx.wake(Wakeup::Delivery);
    Ok(row.into_row())
}

/// Applies a transition to a delivery. Fails if its state does not permit it. The caller stores the row.
fn transition(
    row: &mut Locked<DeliveryRow>,
    event: DeliveryTransition,
) -> Result<DeliveryState, EngineError> {
    let next = row.state.apply(event).map_err(RequestError::from)?;
    row.state = next;
    row.claimed_until = None;
    Ok(next)
}

/// Applies a final transition, stores the delivery, and adds a notice to the outbox.
fn settle(
    tx: &mut Tx<'_>,
    row: &mut Locked<DeliveryRow>,
    event: DeliveryTransition,
) -> Result<(), EngineError> {
    let state = transition(row, event)?;
    row.updated = tx.now();
    row.save(tx)?;
    let body = json!({
        "delivery": row.id, "run": row.run_id, "state": state, "generation": row.generation,
        "channel": row.channel, "tries": row.tries, "error": row.last_error,
    });
    let key = format!("{}:{}:{}:{state}", provost_bus::DELIVERY_SETTLED, row.id, row.generation);
    outbox::insert_message(tx, &row.namespace, provost_bus::DELIVERY_SETTLED, key, &body)
}
