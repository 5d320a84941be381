//! Topics of subscriptions.

use std::sync::Arc;

use provost_core::{RunId, TaskId};
use provost_store::query::event_log::RunScope;

use crate::sse::encode::CursorKind;

/// Set of runs whose events a subscriber receives.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Topic {
    /// One run.
    Run(RunId),
    /// All runs of a task and of its children.
    Task(TaskId),
    /// All runs of a session and of the children of its tasks, by namespace and session id.
    Session(Arc<str>, Arc<str>),
    /// All runs of a namespace.
    Namespace(Arc<str>),
}

impl Topic {
    /// Returns all topics of a run.
    pub(super) fn of(run: RunId, place: &RunScope) -> Box<[Self]> {
        let namespace: Arc<str> = place.namespace.as_str().into();
        let session = |name: &str| Self::Session(Arc::clone(&namespace), name.into());
        let mut topics = vec![Self::Run(run), Self::Task(place.task), session(&place.session)];
        for (task, above) in &place.ancestors {
            topics.push(Self::Task(*task));
            let above = session(above);
            // A child can run in the session of its parent.
            if !topics.contains(&above) {
                topics.push(above);
            }
        }
        topics.push(Self::Namespace(Arc::clone(&namespace)));
        topics.into()
    }

    /// Returns the kind of cursor of its streams.
    pub(super) fn cursor_kind(&self) -> CursorKind {
        if self.is_run() { CursorKind::Sequence } else { CursorKind::Position }
    }

    /// Returns true if the topic is one run.
    pub(super) fn is_run(&self) -> bool {
        matches!(self, Self::Run(_))
    }
}
