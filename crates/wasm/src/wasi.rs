//! The provided part of WASI: standard streams, arguments, variables, clocks and random bytes. No files and no sockets.

pub(crate) mod component;
pub(crate) mod preview1;
