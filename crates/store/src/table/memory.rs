//! Tables of memories: owners, memories with their vectors and words, and the jobs that extract memories from
//! conversations ([`Schema::Memory`](crate::Schema::Memory)).

pub mod entry;
pub mod forgotten;
pub mod job;
pub mod owner;
pub mod vector;
pub mod word;
