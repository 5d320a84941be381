//! Outgoing webhooks in the Standard Webhooks format: signed, at least once, to addresses that are not ours.
//!
//! The engine keeps what is to be sent; here it is signed and sent. The database holds no key: each webhook's is derived from
//! the server's own and the webhook's id.

mod address;
mod key;
mod payload;
mod sender;

pub(crate) use self::address::check_url;
pub use self::key::MasterKey;
pub use self::sender::{SenderError, WebhookSender};
