//! Sending answers out: an outcome of its own, beside the run's.
//!
//! A delivery is planned in the transaction that ends the run, so that no answer is forgotten. What happens to it afterwards
//! never changes the run.

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
use provost_store::{Hint, Locked, Tx};
use serde::Deserialize;
use serde_json::{Value, json};

pub use self::adapter::{DeliveryAdapter, Receipt, SendError, Target};
pub(crate) use self::send::run;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::input;
use crate::outbound::outbox;
use crate::run::lifecycle::word;
use provost_store::table::work::stored_message as message;

/// The answer of an agent that has nothing to say to the outside.
const NO_REPLY: &str = "NO_REPLY";

/// Commands to deliveries. See [`Engine::deliveries`](crate::Engine::deliveries).
#[derive(Clone, Copy)]
pub struct Deliveries<'a> {
    pub(crate) engine: &'a Engine,
}

impl Deliveries<'_> {
    /// Sends a delivery again that failed, is blocked or unknown. It is a new generation with a new key: if it had arrived
    /// after all, it arrives twice.
    pub async fn retry(
        self,
        namespace: &Namespace,
        id: DeliveryId,
    ) -> Result<DeliveryRow, EngineError> {
        let namespace = namespace.clone();
        self.engine.inner.store.write(move |tx| retry(tx, &namespace, id)).await
    }

    /// Puts a delivery away that has not arrived.
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

/// What a task's command says about sending its answers out.
#[derive(Deserialize)]
struct Delivers {
    #[serde(default)]
    deliver: bool,
    #[serde(default)]
    routing: RoutingContext,
}

/// Plans to send the answer of a run that asked for it.
pub(crate) fn plan(
    tx: &mut Tx<'_>,
    run: &RunRow,
    task: &TaskRow,
    status: RunStatus,
) -> Result<(), EngineError> {
    if status != RunStatus::Ok {
        return Ok(());
    }
    let Delivers { deliver, routing } = serde_json::from_str(&task.command)?;
    if !deliver {
        return Ok(());
    }
    // What is said later may come another way than what was said first.
    let said = input::routing_of_run(tx, run.id)?;
    let Some(target) = said.reply_target().or(routing.reply_target()) else { return Ok(()) };
    let result: Value = serde_json::from_str(run.result.as_deref().unwrap_or("{}"))?;
    let text = result["text"].as_str().unwrap_or_default();
    if text.trim().is_empty() || text.trim() == NO_REPLY {
        return Ok(());
    }
    let channel = target.channel.to_owned();
    let target = serde_json::to_string(&Target::of(&target))?;
    let now = tx.now();
    let row = DeliveryRow {
        id: tx.id(),
        namespace: run.namespace.clone(),
        run_id: run.id,
        channel,
        send_key: delivery_key(run.id, run.next_step, &target, 1),
        target,
        generation: 1,
        message_id: answer(tx, run, text)?,
        state: DeliveryState::Pending.as_str().to_owned(),
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
    tx.hint(Hint::Delivery);
    Ok(())
}

/// The message with a run's answer: the model's own, unless the answer was made of it.
fn answer(tx: &mut Tx<'_>, run: &RunRow, text: &str) -> Result<MessageId, EngineError> {
    if let Some(last) = run_step::last_answer(tx, run.id)?
        && message::get(tx, last)?.text() == text
    {
        return Ok(last);
    }
    let id = tx.id();
    let said = Message::assistant(text).at(tx.now());
    message::put(tx, &run.namespace, id, &serde_json::to_string(&said)?)?;
    Ok(id)
}

fn find(
    tx: &mut Tx<'_>,
    namespace: &Namespace,
    id: DeliveryId,
) -> Result<DeliveryRow, EngineError> {
    let row = delivery::find(tx, namespace.as_str(), id)?;
    row.ok_or_else(|| EngineError::not_found("delivery", id))
}

fn lock(
    tx: &mut Tx<'_>,
    namespace: &Namespace,
    id: DeliveryId,
) -> Result<Locked<DeliveryRow>, EngineError> {
    find(tx, namespace, id)?;
    delivery::lock(tx, id)?.ok_or_else(|| EngineError::not_found("delivery", id))
}

fn retry(
    tx: &mut Tx<'_>,
    namespace: &Namespace,
    id: DeliveryId,
) -> Result<DeliveryRow, EngineError> {
    let mut row = lock(tx, namespace, id)?;
    move_on(&mut row, DeliveryTransition::Retried)?;
    let now = tx.now();
    let run = run::get(tx, row.run_id)?.ok_or_else(|| EngineError::not_found("run", row.run_id))?;
    row.generation += 1;
    row.send_key = delivery_key(run.id, run.next_step, &row.target, row.generation);
    row.tries = 0;
    row.next_at = now;
    row.give_up_at = delivery_deadline(now);
    row.updated = now;
    row.save(tx)?;
    tx.hint(Hint::Delivery);
    Ok(row.into_row())
}

/// Moves a delivery by an event; the caller stores the row.
fn move_on(
    row: &mut Locked<DeliveryRow>,
    event: DeliveryTransition,
) -> Result<DeliveryState, EngineError> {
    let next = word::<DeliveryState>(&row.state)?.apply(event).map_err(RequestError::from)?;
    row.state = next.as_str().to_owned();
    row.claimed_until = None;
    Ok(next)
}

/// Moves a delivery to a place where it stays, stores it, and tells the outside.
fn settle(
    tx: &mut Tx<'_>,
    row: &mut Locked<DeliveryRow>,
    event: DeliveryTransition,
) -> Result<(), EngineError> {
    let state = move_on(row, event)?;
    row.updated = tx.now();
    row.save(tx)?;
    let body = json!({
        "delivery": row.id, "run": row.run_id, "state": state, "generation": row.generation,
        "channel": row.channel, "tries": row.tries, "error": row.last_error,
    });
    let key = format!("{}:{}:{}:{state}", provost_bus::DELIVERY_SETTLED, row.id, row.generation);
    outbox::push(tx, &row.namespace, provost_bus::DELIVERY_SETTLED, key, &body)
}
