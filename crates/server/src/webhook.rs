//! Outgoing webhooks in the Standard Webhooks format: signed deliveries to public addresses, at least once.
//!
//! The engine stores the deliveries; this module signs and sends them. The database contains no keys: the key of a webhook is
//! derived from the key of the server and the id of the webhook.

mod address;
mod key;
mod payload;
mod sender;

pub(crate) use self::address::check_url;
pub use self::key::WebhookSigningKey;
pub use self::sender::{SenderError, WebhookSender};
