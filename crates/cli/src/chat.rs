//! A conversation with an agent: its turns, and showing them without a screen.

pub(crate) mod plain;
pub(crate) mod talk;
pub(crate) mod turn;
