//! Keeps secrets out of results, errors, logs, events and traces.
//!
//! A [`Redactor`] knows three things: what keys of well-known services look like, what stands behind labels such as
//! `Authorization:`, `password=` or `"api_key": "…"`, and every value that it was [taught](Redactor::learn), also as base64,
//! hexadecimal digits, percent-encoded or escaped for JSON. Labels stay, values become [`MARK`].
//!
//! ```
//! use provost_core::Secret;
//! use provost_redact::Redactor;
//!
//! let redactor = Redactor::new();
//! redactor.learn(&Secret::from("swordfish")).unwrap();
//! assert_eq!(redactor.redact("the fish is swordfish"), "the fish is [REDACTED]");
//! assert_eq!(redactor.redact("GET /x?token=a1&page=2"), "GET /x?token=[REDACTED]&page=2");
//!
//! // A secret that comes in pieces does not get out in pieces.
//! let mut stream = redactor.stream();
//! let mut out = stream.push(b"it is sword");
//! out.extend(stream.push(b"fish, they say"));
//! out.extend(stream.finish());
//! assert_eq!(out, b"it is [REDACTED], they say");
//! ```
//!
//! Invariants: each decision looks a bounded way ahead and back, so that a stream needs constant memory and its output is that of
//! the whole text; nothing here performs I/O; a value that was learned cannot be read back.

mod encode;
mod index;
mod json;
mod label;
mod peek;
mod redactor;
mod run;
mod scan;
mod shape;
mod stream;
mod traits;
mod value;

pub use redactor::{LEARNED_MAX, Redactor, Unlearnable, VALUE_BYTES_MAX, VALUE_BYTES_MIN};
pub use stream::RedactStream;
pub use traits::{Redact, RedactChunks};

/// What stands where a secret stood.
pub const MARK: &str = "[REDACTED]";

#[cfg(test)]
mod tests;
