//! Converts deliveries.

use provost_api::{DateTime, Delivery, Problem};
use provost_store::table::outbound::delivery::DeliveryRow;

use super::parse_json;

/// Converts a delivery.
pub(crate) fn view(row: DeliveryRow) -> Result<Delivery, Problem> {
    Ok(Delivery {
        id: row.id,
        run: row.run_id,
        channel: row.channel,
        target: parse_json(&row.target)?,
        state: row.state,
        generation: row.generation,
        tries: row.tries,
        next_at: DateTime(row.next_at),
        give_up_at: DateTime(row.give_up_at),
        receipt: row.receipt,
        last_error: row.last_error,
        created: DateTime(row.created),
        updated: DateTime(row.updated),
    })
}
