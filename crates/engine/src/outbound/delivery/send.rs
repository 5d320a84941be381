//! Delivery sender: claims due deliveries, sends them through their channels, and records the results.
//!
//! The claim is stored before the message is sent. If the sender is lost in between, the capabilities of the channel
//! decide: it recognizes a repetition by its key, or it can look up the message. Otherwise the message is not sent
//! again.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream;
use provost_bus::{Topic, Wakeup};
use provost_core::lifecycle::{
    DeliveryState, DeliveryTransition, UncertainSendAction, next_delivery_at,
};
use provost_core::{Message, Timestamp};
use provost_failpoint::failpoint;
use provost_store::table::outbound::delivery::{self, DeliveryRow};
use provost_store::{Locked, Tx};

use super::{DeliveryAdapter, DeliveryTarget, SendError, SendReceipt, settle, transition};
use crate::engine::EngineInner;
use crate::error::EngineError;
use provost_store::table::work::stored_message as message;

/// Deliveries per transaction.
const BATCH: u64 = 32;
/// Messages that are sent concurrently.
const PARALLEL: usize = 8;

/// Factor of the polling interval of a process without channels.
const IDLE_POLLS: u32 = 60;

/// A claimed delivery.
struct ClaimedDelivery {
    row: DeliveryRow,
    target: DeliveryTarget,
    message: Arc<Message>,
    adapter: Arc<dyn DeliveryAdapter>,
    /// True if the channel must look up the message before it is sent, because an earlier sender may have sent it.
    needs_lookup: bool,
}

/// Result of sending a message.
#[derive(Debug, Clone)]
enum SendResult {
    Delivered(SendReceipt),
    /// The channel looked up the message and does not have it.
    NotFound,
    Transient {
        problem: String,
        retry_after: Option<Duration>,
    },
    Permanent(String),
    Uncertain(String),
}

/// Sends deliveries until the process ends. A process without channels only marks overdue deliveries.
pub(crate) async fn run(shared: Arc<EngineInner>) {
    let mut hints = None;
    loop {
        match send_due(&shared).await {
            Ok(0) => {}
            Ok(_) => continue,
            Err(error) => tracing::warn!(%error, "due deliveries could not be sent"),
        }
        if shared.channels.is_empty() {
            tokio::time::sleep(shared.options.poll * IDLE_POLLS).await;
            continue;
        }
        let hints = hints.get_or_insert_with(|| shared.store.bus().subscribe(Topic::Tasks));
        tokio::select! {
            () = hints.woken(|wakeup| wakeup == Wakeup::Delivery) => {}
            () = tokio::time::sleep(shared.options.poll) => {}
        }
    }
}

/// Tries to send a batch of due deliveries and stores the results. Returns the number of tries.
async fn send_due(shared: &Arc<EngineInner>) -> Result<usize, EngineError> {
    let look = shared.store.read(|tx| Ok::<_, EngineError>((delivery::next_due(tx)?, tx.now())));
    let (next, now) = look.await?;
    if next.is_none_or(|next| next > now) {
        return Ok(0);
    }
    let (engine, channels) = (Arc::clone(shared), shared.channel_names());
    let jobs = shared.store.write(move |tx| claim(tx, &engine, &channels)).await?;
    let count = jobs.len();
    let sending = jobs.into_iter().map(|job| deliver(shared, job));
    let mut sending = stream::iter(sending).buffer_unordered(PARALLEL);
    while let Some(delivered) = sending.next().await {
        if let Err(error) = delivered {
            // Its claim expires, and then the sender counts as lost.
            tracing::warn!(%error, "the result of a delivery could not be stored");
        }
    }
    Ok(count)
}

/// Claims due deliveries. For a delivery of a lost sender, the capabilities of the channel decide.
fn claim(
    tx: &mut Tx<'_>,
    shared: &EngineInner,
    channels: &[String],
) -> Result<Vec<Arc<ClaimedDelivery>>, EngineError> {
    for mut row in delivery::lock_overdue(tx, BATCH)? {
        row.last_error.get_or_insert_with(|| "no sender sent it in time".to_owned());
        settle(tx, &mut row, DeliveryTransition::Abandoned)?;
    }
    let mut jobs = Vec::new();
    for mut row in delivery::lock_due(tx, channels, BATCH)? {
        let Some(adapter) = shared.channels.get(&row.channel).cloned() else { continue };
        let mut needs_lookup = false;
        if row.state == DeliveryState::Sending {
            match adapter.capabilities().after_sender_loss() {
                UncertainSendAction::Resend => {
                    transition(&mut row, DeliveryTransition::Resend)?;
                }
                UncertainSendAction::LookUp => needs_lookup = true,
                UncertainSendAction::MarkUnknown => {
                    row.last_error = Some("the sender was lost while sending".to_owned());
                    settle(tx, &mut row, DeliveryTransition::Lost)?;
                    continue;
                }
            }
        }
        if !needs_lookup {
            transition(&mut row, DeliveryTransition::Sending)?;
        }
        row.tries += 1;
        let now = tx.now();
        row.claimed_until = Some(now.after(shared.options.lease));
        row.updated = now;
        row.save(tx)?;
        let target = serde_json::from_str(&row.target)?;
        let message = message::get(tx, row.message_id)?;
        jobs.push(Arc::new(ClaimedDelivery {
            row: row.into_row(),
            target,
            message,
            adapter,
            needs_lookup,
        }));
    }
    Ok(jobs)
}

/// Sends a claimed delivery and records the result.
async fn deliver(shared: &EngineInner, job: Arc<ClaimedDelivery>) -> Result<(), EngineError> {
    failpoint!("delivery.claimed");
    let sent = send(shared, &job).await;
    failpoint!("delivery.sent");
    let chance = shared.env.random_unit();
    shared.store.write(move |tx| record_send_result(tx, &job, &sent, chance)).await
}

/// Sends a message through its channel. The time limit is shorter than the claim, because afterwards another sender may
/// claim the delivery.
async fn send(shared: &EngineInner, job: &ClaimedDelivery) -> SendResult {
    let ClaimedDelivery { row, target, message, adapter, needs_lookup } = job;
    let sending = async {
        if *needs_lookup {
            return match adapter.lookup(&row.send_key, target).await {
                Ok(Some(receipt)) => SendResult::Delivered(receipt),
                Ok(None) => SendResult::NotFound,
                // A failed lookup is repeated later.
                Err(error) => SendResult::Uncertain(error.to_string()),
            };
        }
        match adapter.send(&row.send_key, target, message).await {
            Ok(receipt) => SendResult::Delivered(receipt),
            Err(SendError::Transient { problem, retry_after }) => {
                SendResult::Transient { problem, retry_after }
            }
            Err(SendError::Permanent(problem)) => SendResult::Permanent(problem),
            Err(SendError::Uncertain(problem)) => SendResult::Uncertain(problem),
        }
    };
    let in_time = tokio::time::timeout(shared.options.lease.mul_f32(0.8), sending).await;
    in_time.unwrap_or_else(|_late| {
        SendResult::Uncertain("the channel did not respond in time".to_owned())
    })
}

/// Records the result of a delivery, unless another sender has claimed it.
fn record_send_result(
    tx: &mut Tx<'_>,
    job: &ClaimedDelivery,
    sent: &SendResult,
    chance: f64,
) -> Result<(), EngineError> {
    let current = delivery::lock(tx, job.row.id)?;
    let is_own_claim = |row: &Locked<DeliveryRow>| {
        let sending = row.state == DeliveryState::Sending;
        sending && (row.tries, row.generation) == (job.row.tries, job.row.generation)
    };
    let Some(mut row) = current.filter(is_own_claim) else { return Ok(()) };
    let now = tx.now();
    match sent {
        SendResult::Delivered(receipt) => {
            row.receipt = Some(receipt.0.clone());
            row.last_error = None;
            return settle(tx, &mut row, DeliveryTransition::Delivered);
        }
        SendResult::Permanent(problem) => {
            row.last_error = Some(problem.clone());
            return settle(tx, &mut row, DeliveryTransition::Failed);
        }
        SendResult::NotFound => {
            transition(&mut row, DeliveryTransition::Resend)?;
            row.next_at = now;
            tx.wake(Wakeup::Delivery);
        }
        SendResult::Transient { problem, retry_after } => {
            row.last_error = Some(problem.clone());
            let requested = retry_after.map(|wait| now.after(wait));
            let Some(next) = next_attempt_at(&row, now, chance, requested) else {
                return settle(tx, &mut row, DeliveryTransition::Abandoned);
            };
            transition(&mut row, DeliveryTransition::FailedTransiently)?;
            row.next_at = next;
        }
        SendResult::Uncertain(problem) => {
            row.last_error = Some(problem.clone());
            if job.adapter.capabilities().after_sender_loss() == UncertainSendAction::MarkUnknown {
                return settle(tx, &mut row, DeliveryTransition::Lost);
            }
            let Some(next) = next_attempt_at(&row, now, chance, None) else {
                return settle(tx, &mut row, DeliveryTransition::Lost);
            };
            // The delivery stays in the state `sending`. The next sender decides by the capabilities of the channel.
            row.claimed_until = None;
            row.next_at = next;
        }
    }
    row.updated = now;
    row.save(tx)?;
    Ok(())
}

/// Returns the time of the next attempt, or `None` after the delivery deadline.
fn next_attempt_at(
    row: &DeliveryRow,
    now: Timestamp,
    chance: f64,
    requested: Option<Timestamp>,
) -> Option<Timestamp> {
    let tries = u32::try_from(row.tries).unwrap_or(u32::MAX);
    let next = next_delivery_at(tries, now, row.give_up_at, chance)?;
    let next = requested.map_or(next, |requested| requested.max(next));
    (next < row.give_up_at).then_some(next)
}
