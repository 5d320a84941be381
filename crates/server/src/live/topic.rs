//! What can be watched.

use std::sync::Arc;

use provost_core::{RunId, TaskId};
use provost_store::query::event_log::RunPlace;

use crate::sse::encode::CursorKind;

/// What somebody watches.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Topic {
    /// One run.
    Run(RunId),
    /// All runs of a task, and of the tasks below it.
    Task(TaskId),
    /// All runs of a session, and of the tasks below its own, by namespace and name.
    Session(Arc<str>, Arc<str>),
    /// All runs of a namespace.
    Namespace(Arc<str>),
}

impl Topic {
    /// Everything that an event of a run belongs to.
    pub(super) fn of(run: RunId, place: &RunPlace) -> Box<[Self]> {
        let namespace: Arc<str> = place.namespace.as_str().into();
        let session = |name: &str| Self::Session(Arc::clone(&namespace), name.into());
        let mut topics = vec![Self::Run(run), Self::Task(place.task), session(&place.session)];
        for (task, above) in &place.above {
            topics.push(Self::Task(*task));
            let above = session(above);
            // A child may go on in its parent's session.
            if !topics.contains(&above) {
                topics.push(above);
            }
        }
        topics.push(Self::Namespace(Arc::clone(&namespace)));
        topics.into()
    }

    /// Returns how the cursors of its streams count.
    pub(super) fn cursor_kind(&self) -> CursorKind {
        if self.is_run() { CursorKind::Sequence } else { CursorKind::Position }
    }

    /// True if it is one run.
    pub(super) fn is_run(&self) -> bool {
        matches!(self, Self::Run(_))
    }
}
