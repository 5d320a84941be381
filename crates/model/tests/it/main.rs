//! One suite for every wire, against a real socket.

mod content;
#[cfg(test)]
mod embed;
mod failure;
#[cfg(test)]
mod harness;
mod transport;
