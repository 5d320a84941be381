//! Sections of the table: one module per section.

pub(crate) mod api;
pub(crate) mod cli;
pub(crate) mod crowd;
pub(crate) mod definition;
pub(crate) mod durable;
pub(crate) mod growth;
pub(crate) mod guard;
pub(crate) mod isolation;
pub(crate) mod machine;
pub(crate) mod many;
pub(crate) mod mcp;
pub(crate) mod recall;
pub(crate) mod recover;
pub(crate) mod redact;
pub(crate) mod rounds;
pub(crate) mod router;
pub(crate) mod stream;
pub(crate) mod together;
pub(crate) mod wasm;
pub(crate) mod wires;
