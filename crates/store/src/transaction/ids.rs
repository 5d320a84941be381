//! Ids that a transaction generates.

use provost_core::{Env, TypedId};
use uuid::Uuid;

/// Ids of one job in the order of generation. Every attempt of the job gets the same ids.
pub(crate) struct DrawnIds {
    env: Env,
    drawn: Vec<Uuid>,
    next: usize,
}

impl DrawnIds {
    /// Creates an empty sequence that generates ids with `env`.
    pub(crate) fn new(env: Env) -> Self {
        Self { env, drawn: Vec::new(), next: 0 }
    }

    /// Returns the next id.
    pub(crate) fn draw<T: TypedId>(&mut self) -> T {
        if self.next == self.drawn.len() {
            self.drawn.push(self.env.id::<T>().uuid());
        }
        self.next += 1;
        T::from_uuid(self.drawn[self.next - 1])
    }

    /// Restarts the sequence for another attempt.
    pub(crate) fn rewind(&mut self) {
        self.next = 0;
    }
}
