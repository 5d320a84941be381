//! Lifecycle of runs after submission: transitions, settlement, end, cancellation, forks.

pub(crate) mod cancel;
pub(crate) mod end;
pub(crate) mod event;
pub(crate) mod fork;
pub(crate) mod lifecycle;
pub(crate) mod operator;
pub(crate) mod settle;

use crate::engine::Engine;

/// Commands for existing runs. See [`Engine::runs`](crate::Engine::runs).
#[derive(Clone, Copy)]
pub struct Runs<'a> {
    pub(crate) engine: &'a Engine,
}
