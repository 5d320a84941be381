//! Where an answer on its way out stands.

use provost_core::lifecycle::DeliveryState;
use provost_store::table::outbound::delivery::DeliveryRow;

use super::told::{Told, count, distance, moment, problem};
use super::{Cause, next};
use provost_store::query::explain_facts::{DeliveryFacts, Here};

/// The cause of where a delivery stands.
pub(super) fn cause(here: &Here, facts: &DeliveryFacts) -> Told {
    let row = &facts.delivery;
    let told = match row.state.parse() {
        Ok(DeliveryState::Sending) => sending(here, row),
        Ok(DeliveryState::Pending) | Err(_) => pending(here, row),
        Ok(state) => settled(row, state),
    };
    told.see("channel", &row.channel)
        .see("tries", row.tries)
        .see_some("last problem", row.last_error.as_deref().map(|error| problem(Some(error))))
        .about(row.run_id)
        .then(next::explain(row.run_id))
}

/// Nobody is sending it.
fn pending(here: &Here, row: &DeliveryRow) -> Told {
    let (now, id, channel) = (here.now, row.id, &row.channel);
    let told = if row.give_up_at <= now {
        let sentence = format!(
            "{id} was to be given up {} and is as soon as a worker looks: {}.",
            distance(now, row.give_up_at),
            problem(row.last_error.as_deref()),
        );
        return Told::new(Cause::DeliveryOverdue, sentence).then(next::serve());
    } else if here.alive().is_empty() {
        let sentence = format!("{id} waits to be sent over `{channel}` and no worker is alive.");
        Told::new(Cause::DeliveryNoWorker, sentence).then(next::serve())
    } else if !here.channels.contains(channel) {
        let known = match here.channels.as_slice() {
            [] => "it has none".to_owned(),
            channels => format!("it has {}", channels.join(", ")),
        };
        let sentence = format!(
            "{id} goes over the channel `{channel}`, which this process cannot send over ({known})."
        );
        Told::new(Cause::DeliveryNoChannel, sentence)
    } else if row.next_at > now {
        let sentence = format!(
            "{id} did not arrive over `{channel}` ({}); try {} comes {}.",
            problem(row.last_error.as_deref()),
            row.tries + 1,
            distance(now, row.next_at),
        );
        Told::new(Cause::DeliveryRetry, sentence).see("next try", moment(now, row.next_at))
    } else {
        let sentence = format!("{id} is sent over `{channel}` at the next moment.");
        Told::new(Cause::DeliveryDue, sentence).see("due", moment(now, row.next_at))
    };
    told.see("given up", moment(now, row.give_up_at))
}

/// Somebody is, or was, sending it.
fn sending(here: &Here, row: &DeliveryRow) -> Told {
    let (now, id, channel) = (here.now, row.id, &row.channel);
    if let Some(until) = row.claimed_until.filter(|until| *until > now) {
        let sentence = format!(
            "{id} is being sent over `{channel}` (try {}) since {}.",
            row.tries,
            moment(now, row.updated)
        );
        return Told::new(Cause::DeliverySending, sentence)
            .see("sender has until", moment(now, until));
    }
    let sentence = format!(
        "{id} was being sent over `{channel}` and nobody knows whether it arrived ({}); the channel is asked or told again {}.",
        problem(row.last_error.as_deref()),
        distance(now, row.next_at.max(now)),
    );
    let told = Told::new(Cause::DeliverySenderLost, sentence);
    if here.alive().is_empty() { told.then(next::serve()) } else { told }
}

fn settled(row: &DeliveryRow, state: DeliveryState) -> Told {
    let (id, channel) = (row.id, &row.channel);
    let (tries, error) = (count(row.tries, "try", "tries"), problem(row.last_error.as_deref()));
    let again = next::send_again(id);
    match state {
        DeliveryState::Failed => {
            let sentence = format!("The channel `{channel}` does not take {id}: {error}.");
            Told::new(Cause::DeliveryRefused, sentence).then(again)
        }
        DeliveryState::Unknown => {
            let sentence = format!(
                "{id} was sent over `{channel}` and may have arrived or not ({error}); it is not sent again by itself."
            );
            Told::new(Cause::DeliveryUncertain, sentence).then(again)
        }
        DeliveryState::Blocked => {
            let sentence = format!("{id} was given up after {tries} over `{channel}`: {error}.");
            Told::new(Cause::DeliveryGivenUp, sentence).then(again)
        }
        DeliveryState::Dismissed => {
            let sentence = format!("Somebody put {id} away before it arrived over `{channel}`.");
            Told::new(Cause::DeliveryDismissed, sentence)
        }
        DeliveryState::Delivered | DeliveryState::Pending | DeliveryState::Sending => {
            let sentence = format!("{id} arrived over `{channel}` after {tries}.");
            Told::new(Cause::DeliveryDelivered, sentence)
                .see_some("receipt", row.receipt.as_deref())
        }
    }
}
