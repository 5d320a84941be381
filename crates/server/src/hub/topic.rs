//! What can be watched.

use std::sync::Arc;

use provost_core::{RunId, TaskId};
use provost_engine::RunPlace;

/// What somebody watches.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Topic {
    /// One run.
    Run(RunId),
    /// All runs of a task.
    Task(TaskId),
    /// All runs of a session, by namespace and name.
    Session(Arc<str>, Arc<str>),
    /// All runs of a namespace.
    Namespace(Arc<str>),
}

impl Topic {
    /// Everything that an event of a run belongs to.
    pub(super) fn of(run: RunId, place: &RunPlace) -> [Self; 4] {
        let namespace: Arc<str> = place.namespace.as_str().into();
        [
            Self::Run(run),
            Self::Task(place.task),
            Self::Session(Arc::clone(&namespace), place.session.as_str().into()),
            Self::Namespace(namespace),
        ]
    }

    /// True if its cursor counts the events of one run, and not positions of the whole log.
    pub(crate) fn is_run(&self) -> bool {
        matches!(self, Self::Run(_))
    }
}
