//! One suite for every wire, against a real socket.

mod choice;
mod content;
#[cfg(test)]
mod embed;
mod failure;
#[cfg(test)]
mod harness;
#[cfg(test)]
mod reasoning;
mod transport;
