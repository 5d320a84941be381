//! Ids that a transaction draws.

use provost_core::{Env, TypedId};
use uuid::Uuid;

/// The ids of one job, in the order of drawing. Every attempt of the job draws the same ids.
pub(crate) struct DrawnIds {
    env: Env,
    drawn: Vec<Uuid>,
    next: usize,
}

impl DrawnIds {
    /// Draws from the environment.
    pub(crate) fn new(env: Env) -> Self {
        Self { env, drawn: Vec::new(), next: 0 }
    }

    /// Draws the next id.
    pub(crate) fn draw<T: TypedId>(&mut self) -> T {
        if self.next == self.drawn.len() {
            self.drawn.push(self.env.id::<T>().uuid());
        }
        self.next += 1;
        T::from_uuid(self.drawn[self.next - 1])
    }

    /// Begins the sequence again.
    pub(crate) fn rewind(&mut self) {
        self.next = 0;
    }
}
