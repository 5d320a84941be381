//! The sender: claims what is due, hands it to its channel, writes down what came of it.
//!
//! That a message is being sent is written down before the channel hears of it. If the sender is lost in between, what the
//! channel can do decides: know a repetition by its key, be asked, or neither; then nothing is sent again silently.

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
use provost_store::{Hint, Locked, Tx};

use super::{DeliveryAdapter, Receipt, SendError, Target, move_on, settle};
use crate::engine::EngineInner;
use crate::error::EngineError;
use crate::run::lifecycle::word;
use provost_store::table::work::stored_message as message;

/// Deliveries of one transaction.
const BATCH: u64 = 32;
/// Messages that are being sent at once.
const PARALLEL: usize = 8;

/// How much less often is looked where no channel was given.
const IDLE_POLLS: u32 = 60;

/// Something to do about one delivery.
struct Job {
    row: DeliveryRow,
    target: Target,
    message: Arc<Message>,
    adapter: Arc<dyn DeliveryAdapter>,
    /// Ask the channel first: it may have it.
    look_up: bool,
}

/// What came of it.
#[derive(Debug, Clone)]
enum Sent {
    Arrived(Receipt),
    /// The channel was asked and does not have it.
    Missing,
    NotNow {
        problem: String,
        retry_after: Option<Duration>,
    },
    Refused(String),
    Unsure(String),
}

/// Sends until the process ends. Where no channel was given, it only looks now and then for what nobody sends.
pub(crate) async fn run(shared: Arc<EngineInner>) {
    let mut hints = None;
    loop {
        match send_due(&shared).await {
            Ok(0) => {}
            Ok(_) => continue,
            Err(error) => tracing::warn!(%error, "deliveries have to wait"),
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

/// Sends what is due; returns how much that was.
async fn send_due(shared: &Arc<EngineInner>) -> Result<usize, EngineError> {
    let look = shared.store.read(|tx| Ok::<_, EngineError>((delivery::next_due(tx)?, tx.now())));
    let (next, now) = look.await?;
    if next.is_none_or(|next| next > now) {
        return Ok(0);
    }
    let (claimer, channels) = (Arc::clone(shared), shared.channel_names());
    let jobs = shared.store.write(move |tx| claim(tx, &claimer, &channels)).await?;
    let count = jobs.len();
    let sending = jobs.into_iter().map(|job| carry(shared, job));
    let mut sending = stream::iter(sending).buffer_unordered(PARALLEL);
    while let Some(carried) = sending.next().await {
        if let Err(error) = carried {
            // Its claim runs out, and then it counts as lost.
            tracing::warn!(%error, "what came of a delivery could not be stored");
        }
    }
    Ok(count)
}

/// Takes what is due. What a lost sender left is taken up by what its channel can do.
fn claim(
    tx: &mut Tx<'_>,
    shared: &EngineInner,
    channels: &[String],
) -> Result<Vec<Arc<Job>>, EngineError> {
    for mut row in delivery::lock_overdue(tx, BATCH)? {
        row.last_error.get_or_insert_with(|| "nobody sent it in time".to_owned());
        settle(tx, &mut row, DeliveryTransition::Abandoned)?;
    }
    let mut jobs = Vec::new();
    for mut row in delivery::lock_due(tx, channels, BATCH)? {
        let Some(adapter) = shared.channels.get(&row.channel).cloned() else { continue };
        let mut look_up = false;
        if word::<DeliveryState>(&row.state)? == DeliveryState::Sending {
            match adapter.abilities().after_sender_loss() {
                UncertainSendAction::Resend => drop(move_on(&mut row, DeliveryTransition::Resend)?),
                UncertainSendAction::LookUp => look_up = true,
                UncertainSendAction::MarkUnknown => {
                    row.last_error = Some("the sender was lost while it was sent".to_owned());
                    settle(tx, &mut row, DeliveryTransition::Lost)?;
                    continue;
                }
            }
        }
        if !look_up {
            move_on(&mut row, DeliveryTransition::Sending)?;
        }
        row.tries += 1;
        let now = tx.now();
        row.claimed_until = Some(now.after(shared.options.lease));
        row.updated = now;
        row.save(tx)?;
        let target = serde_json::from_str(&row.target)?;
        let message = message::get(tx, row.message_id)?;
        jobs.push(Arc::new(Job { row: row.into_row(), target, message, adapter, look_up }));
    }
    Ok(jobs)
}

async fn carry(shared: &EngineInner, job: Arc<Job>) -> Result<(), EngineError> {
    failpoint!("delivery.claimed");
    let sent = send(shared, &job).await;
    failpoint!("delivery.sent");
    let chance = shared.env.random_unit();
    shared.store.write(move |tx| note(tx, &job, &sent, chance)).await
}

/// Hands a message to its channel, within the time of the claim: afterwards another sender may have it.
async fn send(shared: &EngineInner, job: &Job) -> Sent {
    let Job { row, target, message, adapter, look_up } = job;
    let handing = async {
        if *look_up {
            return match adapter.lookup(&row.send_key, target).await {
                Ok(Some(receipt)) => Sent::Arrived(receipt),
                Ok(None) => Sent::Missing,
                // What cannot be found out now is asked again later.
                Err(error) => Sent::Unsure(error.to_string()),
            };
        }
        match adapter.send(&row.send_key, target, message).await {
            Ok(receipt) => Sent::Arrived(receipt),
            Err(SendError::NotNow { problem, retry_after }) => {
                Sent::NotNow { problem, retry_after }
            }
            Err(SendError::Refused(problem)) => Sent::Refused(problem),
            Err(SendError::Unsure(problem)) => Sent::Unsure(problem),
        }
    };
    let in_time = tokio::time::timeout(shared.options.lease.mul_f32(0.8), handing).await;
    in_time.unwrap_or_else(|_late| Sent::Unsure("the channel took too long".to_owned()))
}

/// Writes down what came of a delivery, unless another sender has it by now.
fn note(tx: &mut Tx<'_>, job: &Job, sent: &Sent, chance: f64) -> Result<(), EngineError> {
    let current = delivery::lock(tx, job.row.id)?;
    let mine = |row: &Locked<DeliveryRow>| {
        let sending = row.state == DeliveryState::Sending.as_str();
        sending && (row.tries, row.generation) == (job.row.tries, job.row.generation)
    };
    let Some(mut row) = current.filter(mine) else { return Ok(()) };
    let now = tx.now();
    match sent {
        Sent::Arrived(receipt) => {
            row.receipt = Some(receipt.0.clone());
            row.last_error = None;
            return settle(tx, &mut row, DeliveryTransition::Delivered);
        }
        Sent::Refused(problem) => {
            row.last_error = Some(problem.clone());
            return settle(tx, &mut row, DeliveryTransition::Failed);
        }
        Sent::Missing => {
            move_on(&mut row, DeliveryTransition::Resend)?;
            row.next_at = now;
            tx.hint(Hint::Delivery);
        }
        Sent::NotNow { problem, retry_after } => {
            row.last_error = Some(problem.clone());
            let asked = retry_after.map(|wait| now.after(wait));
            let Some(next) = again(&row, now, chance, asked) else {
                return settle(tx, &mut row, DeliveryTransition::Abandoned);
            };
            move_on(&mut row, DeliveryTransition::FailedTransiently)?;
            row.next_at = next;
        }
        Sent::Unsure(problem) => {
            row.last_error = Some(problem.clone());
            if job.adapter.abilities().after_sender_loss() == UncertainSendAction::MarkUnknown {
                return settle(tx, &mut row, DeliveryTransition::Lost);
            }
            let Some(next) = again(&row, now, chance, None) else {
                return settle(tx, &mut row, DeliveryTransition::Lost);
            };
            // It stays as being sent: whoever takes it up next acts by what the channel can do.
            row.claimed_until = None;
            row.next_at = next;
        }
    }
    row.updated = now;
    row.save(tx)?;
    Ok(())
}

/// When it is tried again; nothing if it was tried for too long.
fn again(
    row: &DeliveryRow,
    now: Timestamp,
    chance: f64,
    asked: Option<Timestamp>,
) -> Option<Timestamp> {
    let tries = u32::try_from(row.tries).unwrap_or(u32::MAX);
    let next = next_delivery_at(tries, now, row.give_up_at, chance)?;
    let next = asked.map_or(next, |asked| asked.max(next));
    (next < row.give_up_at).then_some(next)
}
