//! Sections of the table, one module each.

pub(crate) mod api;
pub(crate) mod child_agents;
pub(crate) mod cli;
pub(crate) mod concurrent_runs;
pub(crate) mod definition;
pub(crate) mod durable;
pub(crate) mod growth;
pub(crate) mod guard;
pub(crate) mod isolation;
pub(crate) mod large_database;
pub(crate) mod machine;
pub(crate) mod mcp;
pub(crate) mod recall;
pub(crate) mod recover;
pub(crate) mod redact;
pub(crate) mod router;
pub(crate) mod stream;
pub(crate) mod tool_rounds;
pub(crate) mod wasm;
pub(crate) mod wires;
