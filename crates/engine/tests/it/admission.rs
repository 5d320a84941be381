//! Taking work in: once, in the right place, never lost for want of room.

mod idempotency;
mod lists;
mod session;
mod waiting;
