//! Agents: a pure machine that decides, one driver that acts.

pub mod context;
pub mod session;
