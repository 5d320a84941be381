//! What is streamed, and from where.

use provost_api::{Cursor, Place, Problem};
use provost_core::id::name::Namespace;
use provost_core::lifecycle::RunStatus;
use provost_core::{RunId, TaskId};
use provost_engine::Engine;
use provost_store::query::event_log::LogPage;
use provost_store::query::{self, QueryError, event_log};

use super::encode::CursorKind;
use crate::convert;
use crate::error;
use crate::live::Topic;
use crate::response::ApiResult;

/// The word for the end of the log in place of a cursor.
const FROM_END: &str = "end";

/// What is streamed.
pub(crate) struct Source {
    namespace: Namespace,
    what: Streamed,
}

enum Streamed {
    Run(RunId),
    Task(TaskId),
    Session(Box<str>),
    Namespace,
}

/// Where a stream begins.
pub(crate) struct Start {
    /// Which life of the log.
    pub(crate) generation: u64,
    /// Everything up to here is known to the reader.
    pub(crate) after: u64,
    /// The cursor was of another log, or what it names is gone: everything begins anew.
    pub(crate) reset: bool,
    /// It begins at the end of the log.
    pub(super) from_end: bool,
    /// How the run ended, if there is nothing to read any more.
    pub(super) ended: Option<RunStatus>,
}

/// What the log of a source holds.
struct Extent {
    /// The reader must have seen what comes before, or begin anew.
    first: u64,
    last: u64,
    ended: Option<RunStatus>,
}

impl Source {
    pub(crate) fn run_of(namespace: Namespace, run: RunId) -> Self {
        Self { namespace, what: Streamed::Run(run) }
    }

    pub(crate) fn task_of(namespace: Namespace, task: TaskId) -> Self {
        Self { namespace, what: Streamed::Task(task) }
    }

    pub(crate) fn session_of(namespace: Namespace, session: &str) -> Self {
        Self { namespace, what: Streamed::Session(session.into()) }
    }

    pub(crate) fn all_of(namespace: Namespace) -> Self {
        Self { namespace, what: Streamed::Namespace }
    }

    /// Where to begin; an error if there is no such thing, or if the text is no cursor of it.
    pub(crate) async fn start(
        &self,
        engine: &Engine,
        after: Option<&str>,
        field: &str,
    ) -> ApiResult<Start> {
        let Extent { first, last, ended } = self.extent(engine).await?;
        let generation = query::event_log::generation(engine.store()).await?;
        let begin = Start { generation, after: 0, reset: false, from_end: false, ended: None };
        let start = match after {
            None => begin,
            Some(FROM_END) => Start { after: last, from_end: true, ..begin },
            Some(text) => match self.parse(text, field)? {
                (of, after) if of == generation && after <= last && after + 1 >= first => {
                    Start { after, ..begin }
                }
                _ => Start { reset: true, ..begin },
            },
        };
        let ended = ended.filter(|_| start.after >= last && last > 0);
        Ok(Start { ended, ..start })
    }

    fn parse(&self, text: &str, field: &str) -> Result<(u64, u64), Problem> {
        let refused = || {
            let problem = "it is no cursor of this stream: use one that it gave, or leave it out";
            error::invalid(field, problem)
        };
        let cursor: Cursor = text.parse().map_err(|_error| refused())?;
        match (&self.what, cursor.place) {
            (Streamed::Run(_), Place::Seq(seq)) => Ok((cursor.generation, seq)),
            (Streamed::Run(_), Place::Pos(_)) => Err(refused()),
            (_, Place::Pos(pos)) => Ok((cursor.generation, pos)),
            (_, Place::Seq(_)) => Err(refused()),
        }
    }

    async fn extent(&self, engine: &Engine) -> ApiResult<Extent> {
        match &self.what {
            Streamed::Run(run) => {
                let row = query::run::get(engine.store(), &self.namespace, *run).await?;
                let first = query::event_log::first_kept(engine.store(), &self.namespace, *run)
                    .await?
                    .unwrap_or(0);
                let status = convert::word::<RunStatus>(&row.status)?;
                let ended = status.is_terminal().then_some(status);
                return Ok(Extent { first, last: row.next_seq.saturating_sub(1), ended });
            }
            Streamed::Task(task) => {
                drop(query::task::get(engine.store(), &self.namespace, *task).await?)
            }
            Streamed::Session(session) => {
                drop(query::session::get(engine.store(), &self.namespace, session).await?);
            }
            Streamed::Namespace => {}
        }
        // Positions count over all runs, and so does what was removed: a cursor before it may have missed some.
        let bounds = query::event_log::bounds(engine.store()).await?;
        Ok(Extent { first: bounds.floor.saturating_add(1), last: bounds.last, ended: None })
    }

    /// The next events after a place.
    pub(crate) async fn page(
        &self,
        engine: &Engine,
        after: u64,
        limit: u64,
    ) -> Result<LogPage, QueryError> {
        let (store, namespace) = (engine.store(), &self.namespace);
        match &self.what {
            Streamed::Run(run) => {
                Box::pin(event_log::of_run(store, namespace, *run, after, limit)).await
            }
            Streamed::Task(task) => {
                Box::pin(event_log::of_task(store, namespace, *task, after, limit)).await
            }
            Streamed::Session(session) => {
                Box::pin(event_log::of_session(store, namespace, session, after, limit)).await
            }
            Streamed::Namespace => {
                Box::pin(event_log::of_namespace(store, namespace, after, limit)).await
            }
        }
    }

    /// The run that may be in the middle of something.
    pub(super) async fn present_run(&self, engine: &Engine) -> Option<RunId> {
        match &self.what {
            Streamed::Run(run) => Some(*run),
            Streamed::Task(task) => {
                query::task::get(engine.store(), &self.namespace, *task).await.ok()?.current_run_id
            }
            Streamed::Session(session) => {
                query::session::get(engine.store(), &self.namespace, session)
                    .await
                    .ok()?
                    .holder_run_id
            }
            Streamed::Namespace => None,
        }
    }

    pub(super) fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    pub(super) fn run(&self) -> Option<RunId> {
        match self.what {
            Streamed::Run(run) => Some(run),
            Streamed::Task(_) | Streamed::Session(_) | Streamed::Namespace => None,
        }
    }

    pub(crate) fn topic(&self) -> Topic {
        let namespace = self.namespace.as_str();
        match &self.what {
            Streamed::Run(run) => Topic::Run(*run),
            Streamed::Task(task) => Topic::Task(*task),
            Streamed::Session(session) => Topic::Session(namespace.into(), session.as_ref().into()),
            Streamed::Namespace => Topic::Namespace(namespace.into()),
        }
    }

    /// Returns how the cursors of this stream count.
    pub(super) fn cursor_kind(&self) -> CursorKind {
        if self.run().is_some() { CursorKind::Sequence } else { CursorKind::Position }
    }

    /// Returns the cursor of a place.
    pub(crate) fn cursor(&self, generation: u64, at: u64) -> Cursor {
        self.cursor_kind().cursor(generation, at)
    }
}
