//! Memories by owner, their vectors and words, and the conversations that are still to be read
//! ([`Schema::Memory`](crate::Schema::Memory)).

pub mod entry;
pub mod forgotten;
pub mod job;
pub mod owner;
pub mod vector;
pub mod word;
