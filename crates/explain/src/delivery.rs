//! Explains the state of a delivery.

use provost_core::lifecycle::DeliveryState;
use provost_store::table::outbound::delivery::DeliveryRow;

use super::builder::{ExplanationBuilder, count, distance, error_detail, timestamp};
use super::{Cause, next};
use provost_store::query::explain_facts::{DeliveryFacts, SystemFacts};

/// Explains the state of a delivery: pending, sending, or settled.
pub(super) fn explain(system: &SystemFacts, facts: &DeliveryFacts) -> ExplanationBuilder {
    let row = &facts.delivery;
    let explanation = match row.state {
        DeliveryState::Sending => sending(system, row),
        DeliveryState::Pending => pending(system, row),
        state => settled(row, state),
    };
    explanation
        .with_evidence("channel", &row.channel)
        .with_evidence("tries", row.tries)
        .with_evidence_opt(
            "last error",
            row.last_error.as_deref().map(|error| error_detail(Some(error))),
        )
        .with_related(row.run_id)
        .with_next_step(next::explain(row.run_id))
}

/// Explains a delivery that is not being sent.
fn pending(system: &SystemFacts, row: &DeliveryRow) -> ExplanationBuilder {
    let (now, id, channel) = (system.now, row.id, &row.channel);
    let explanation = if row.give_up_at <= now {
        let sentence = format!(
            "{id} reached its retry deadline {} and is given up at the next check by a worker: {}.",
            distance(now, row.give_up_at),
            error_detail(row.last_error.as_deref()),
        );
        return ExplanationBuilder::new(Cause::DeliveryOverdue, sentence)
            .with_next_step(next::serve());
    } else if system.live_workers().is_empty() {
        let sentence = format!("{id} waits to be sent over `{channel}`, but no worker is alive.");
        ExplanationBuilder::new(Cause::DeliveryNoWorker, sentence).with_next_step(next::serve())
    } else if !system.channels.contains(channel) {
        let known = match system.channels.as_slice() {
            [] => "it has none".to_owned(),
            channels => format!("it has {}", channels.join(", ")),
        };
        let sentence = format!(
            "{id} needs the channel `{channel}`, which this process does not have ({known})."
        );
        ExplanationBuilder::new(Cause::DeliveryNoChannel, sentence)
    } else if row.next_at > now {
        let sentence = format!(
            "{id} could not be delivered over `{channel}` ({}); try {} starts {}.",
            error_detail(row.last_error.as_deref()),
            row.tries + 1,
            distance(now, row.next_at),
        );
        ExplanationBuilder::new(Cause::DeliveryRetry, sentence)
            .with_evidence("next try", timestamp(now, row.next_at))
    } else {
        let sentence = format!("{id} is due and will be sent over `{channel}` next.");
        ExplanationBuilder::new(Cause::DeliveryDue, sentence)
            .with_evidence("due", timestamp(now, row.next_at))
    };
    explanation.with_evidence("retried until", timestamp(now, row.give_up_at))
}

/// Explains a delivery that is or was being sent.
fn sending(system: &SystemFacts, row: &DeliveryRow) -> ExplanationBuilder {
    let (now, id, channel) = (system.now, row.id, &row.channel);
    if let Some(until) = row.claimed_until.filter(|until| *until > now) {
        let sentence = format!(
            "{id} is being sent over `{channel}` (try {}), since {}.",
            row.tries,
            timestamp(now, row.updated)
        );
        return ExplanationBuilder::new(Cause::DeliverySending, sentence)
            .with_evidence("claim expires", timestamp(now, until));
    }
    let sentence = format!(
        "The worker that sent {id} over `{channel}` was lost, so it is not known whether it arrived ({}); a worker checks the channel or sends it again {}.",
        error_detail(row.last_error.as_deref()),
        distance(now, row.next_at.max(now)),
    );
    let explanation = ExplanationBuilder::new(Cause::DeliverySenderLost, sentence);
    if system.live_workers().is_empty() {
        explanation.with_next_step(next::serve())
    } else {
        explanation
    }
}

/// Explains a delivery that is not sent again automatically.
fn settled(row: &DeliveryRow, state: DeliveryState) -> ExplanationBuilder {
    let (id, channel) = (row.id, &row.channel);
    let (tries, error) =
        (count(row.tries, "try", "tries"), error_detail(row.last_error.as_deref()));
    let again = next::retry_delivery(id);
    match state {
        DeliveryState::Failed => {
            let sentence = format!("The channel `{channel}` rejected {id}: {error}.");
            ExplanationBuilder::new(Cause::DeliveryRejected, sentence).with_next_step(again)
        }
        DeliveryState::Unknown => {
            let sentence = format!(
                "{id} was sent over `{channel}` and may have arrived ({error}); it is not sent again automatically."
            );
            ExplanationBuilder::new(Cause::DeliveryUncertain, sentence).with_next_step(again)
        }
        DeliveryState::Blocked => {
            let sentence = format!("{id} was given up after {tries} over `{channel}`: {error}.");
            ExplanationBuilder::new(Cause::DeliveryDeadLettered, sentence).with_next_step(again)
        }
        DeliveryState::Dismissed => {
            let sentence = format!("A user dismissed {id} before it arrived over `{channel}`.");
            ExplanationBuilder::new(Cause::DeliveryDismissed, sentence)
        }
        DeliveryState::Delivered | DeliveryState::Pending | DeliveryState::Sending => {
            let sentence = format!("{id} arrived over `{channel}` after {tries}.");
            ExplanationBuilder::new(Cause::DeliveryDelivered, sentence)
                .with_evidence_opt("receipt", row.receipt.as_deref())
        }
    }
}
