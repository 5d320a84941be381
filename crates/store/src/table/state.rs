//! Tables of state that outlives a run: shared state, teams, blobs, settings of the database.

pub mod blob;
pub mod meta;
pub mod shared_state;
pub mod team;
