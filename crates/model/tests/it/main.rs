//! One suite for every wire, against a real socket.

mod content;
mod failure;
#[cfg(test)]
mod harness;
mod transport;
