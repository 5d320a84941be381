//! Removes secrets from results, errors, logs, events and traces.
//!
//! A [`Redactor`] recognises three kinds of secrets: keys in the formats of well-known services; values after keywords
//! such as `Authorization:`, `password=` or `"api_key": "…"`; and every [registered](Redactor::register) value, also in
//! base64, hexadecimal, percent-encoded or escaped as JSON. Keywords stay, and values are replaced by [`PLACEHOLDER`].
//!
//! ```
//! use provost_core::Secret;
//! use provost_redact::Redactor;
//!
//! let redactor = Redactor::new();
//! redactor.register(&Secret::from("swordfish")).unwrap();
//! assert_eq!(redactor.redact("the fish is swordfish"), "the fish is [REDACTED]");
//! assert_eq!(redactor.redact("GET /x?token=a1&page=2"), "GET /x?token=[REDACTED]&page=2");
//!
//! // A secret that is split over chunks is still found.
//! let mut stream = redactor.stream();
//! let mut out = stream.push(b"it is sword");
//! out.extend(stream.push(b"fish, they say"));
//! out.extend(stream.finish());
//! assert_eq!(out, b"it is [REDACTED], they say");
//! ```
//!
//! Invariants: each decision uses a bounded lookahead and lookbehind, so a stream needs constant memory and produces
//! the same output as the complete text. The crate performs no I/O. A registered value cannot be read back.

mod encode;
mod index;
mod json;
mod keyword;
mod lookahead;
mod redactor;
mod scan;
mod stream;
mod token_format;
mod traits;
mod value;
mod value_scanner;

pub use redactor::{Redactor, RegisterError, SECRETS_MAX, VALUE_BYTES_MAX, VALUE_BYTES_MIN};
pub use stream::RedactStream;
pub use traits::{Redact, RedactChunks};

/// Text that replaces a secret.
pub const PLACEHOLDER: &str = "[REDACTED]";

#[cfg(test)]
mod tests;
