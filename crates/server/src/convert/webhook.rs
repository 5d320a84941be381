//! Converts webhooks.

use provost_api::{Problem, Webhook, WebhookDelivery};
use provost_store::table::outbound::webhook_delivery::WebhookDeliveryRow;

use crate::error;

/// Converts a webhook.
pub(crate) fn view(row: provost_engine::Webhook) -> Webhook {
    Webhook {
        id: row.id.to_string(),
        url: row.url,
        kinds: row.kinds,
        created: row.created.into(),
        disabled: row.disabled.map(Into::into),
    }
}

/// Converts a delivery of a webhook.
pub(crate) fn delivery(row: WebhookDeliveryRow) -> Result<WebhookDelivery, Problem> {
    let status = |status: u64| u16::try_from(status).map_err(|error| error::internal(&error));
    Ok(WebhookDelivery {
        id: row.id.to_string(),
        event: row.event_key,
        state: row.state.to_string(),
        tries: row.tries,
        next_at: row.next_at.into(),
        last_status: row.last_status.map(status).transpose()?,
        last_error: row.last_error,
        created: row.created.into(),
    })
}
