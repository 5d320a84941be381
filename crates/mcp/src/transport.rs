//! Ways to reach a server: HTTP, and a program on standard input and output.

pub(crate) mod http;
pub mod launcher;
pub(crate) mod stdio;
