//! Deliveries on the wire.

use provost_api::{Delivery, Problem, Time};
use provost_store::table::outbound::delivery::DeliveryRow;

use super::{stored, word};

/// A delivery as it stands.
pub(crate) fn view(row: DeliveryRow) -> Result<Delivery, Problem> {
    Ok(Delivery {
        id: row.id,
        run: row.run_id,
        channel: row.channel,
        target: stored(&row.target)?,
        state: word(&row.state)?,
        generation: row.generation,
        tries: row.tries,
        next_at: Time(row.next_at),
        give_up_at: Time(row.give_up_at),
        receipt: row.receipt,
        last_error: row.last_error,
        created: Time(row.created),
        updated: Time(row.updated),
    })
}
