//! The life of a run after it exists: transitions, settling, the end, cancels, forks.

pub(crate) mod cancel;
pub(crate) mod end;
pub(crate) mod event;
pub(crate) mod fork;
pub(crate) mod lifecycle;
pub(crate) mod operator;
pub(crate) mod settle;

use crate::engine::Engine;

/// Commands to runs that exist. See [`Engine::runs`](crate::Engine::runs).
#[derive(Clone, Copy)]
pub struct Runs<'a> {
    pub(crate) engine: &'a Engine,
}
