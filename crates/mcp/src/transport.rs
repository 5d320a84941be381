//! Transports: streamable HTTP, and a program with pipes.

pub(crate) mod http;
pub mod launcher;
pub(crate) mod stdio;
