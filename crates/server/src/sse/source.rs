//! Source and start position of an event stream.

use provost_api::{Cursor, CursorPosition, Problem};
use provost_core::id::name::Namespace;
use provost_core::lifecycle::RunStatus;
use provost_core::{RunId, TaskId};
use provost_engine::Engine;
use provost_store::query::event_log::LogPage;
use provost_store::query::{self, QueryError, event_log};

use super::encode::CursorKind;
use crate::error;
use crate::live::Topic;
use crate::response::ApiResult;

/// Value of `after` that selects the end of the log.
const FROM_END: &str = "end";

/// Set of runs whose events are streamed.
pub(crate) struct StreamSource {
    namespace: Namespace,
    kind: SourceKind,
}

/// The run, task, session or namespace of a source.
enum SourceKind {
    Run(RunId),
    Task(TaskId),
    Session(Box<str>),
    Namespace,
}

/// Start position of a stream.
pub(crate) struct StreamStart {
    /// Generation of the log.
    pub(crate) generation: u64,
    /// Number of the last event that the client has.
    pub(crate) after: u64,
    /// True if the cursor belongs to another log, or its events were removed. The stream then starts at the oldest event.
    pub(crate) reset: bool,
    /// True if the stream starts at the end of the log.
    pub(super) from_end: bool,
    /// Final status of the run, if no event is left to stream.
    pub(super) ended: Option<RunStatus>,
}

/// First and last retained events of a source, and the final status of its run.
struct LogRange {
    /// Number of the first stored event. A client with an older cursor must start again.
    first: u64,
    last: u64,
    ended: Option<RunStatus>,
}

impl StreamSource {
    pub(crate) fn for_run(namespace: Namespace, run: RunId) -> Self {
        Self { namespace, kind: SourceKind::Run(run) }
    }

    pub(crate) fn for_task(namespace: Namespace, task: TaskId) -> Self {
        Self { namespace, kind: SourceKind::Task(task) }
    }

    pub(crate) fn for_session(namespace: Namespace, session: &str) -> Self {
        Self { namespace, kind: SourceKind::Session(session.into()) }
    }

    pub(crate) fn for_namespace(namespace: Namespace) -> Self {
        Self { namespace, kind: SourceKind::Namespace }
    }

    /// Returns the start position of a stream.
    ///
    /// # Errors
    ///
    /// Returns an error if the source does not exist or if `after` is not a cursor of this source.
    pub(crate) async fn start(
        &self,
        engine: &Engine,
        after: Option<&str>,
        field: &str,
    ) -> ApiResult<StreamStart> {
        let LogRange { first, last, ended } = self.range(engine).await?;
        let generation = query::event_log::generation(engine.store()).await?;
        let start_of_log =
            StreamStart { generation, after: 0, reset: false, from_end: false, ended: None };
        let start = match after {
            None => start_of_log,
            Some(FROM_END) => StreamStart { after: last, from_end: true, ..start_of_log },
            Some(text) => match self.parse(text, field)? {
                (cursor_generation, after)
                    if cursor_generation == generation && after <= last && after + 1 >= first =>
                {
                    StreamStart { after, ..start_of_log }
                }
                _ => StreamStart { reset: true, ..start_of_log },
            },
        };
        let ended = ended.filter(|_| start.after >= last && last > 0);
        Ok(StreamStart { ended, ..start })
    }

    /// Parses a cursor. Returns an error if it is not a cursor of this kind of stream.
    fn parse(&self, text: &str, field: &str) -> Result<(u64, u64), Problem> {
        let malformed = || {
            let problem =
                "it is not a cursor of this stream: send a cursor of this stream, or omit it";
            error::invalid(field, problem)
        };
        let cursor: Cursor = text.parse().map_err(|_error| malformed())?;
        match (&self.kind, cursor.position) {
            (SourceKind::Run(_), CursorPosition::Sequence(seq)) => Ok((cursor.generation, seq)),
            (SourceKind::Run(_), CursorPosition::Offset(_)) => Err(malformed()),
            (_, CursorPosition::Offset(pos)) => Ok((cursor.generation, pos)),
            (_, CursorPosition::Sequence(_)) => Err(malformed()),
        }
    }

    /// Returns the first and the last retained event of the source, and the final status of an ended run. Returns an
    /// error if the source does not exist.
    async fn range(&self, engine: &Engine) -> ApiResult<LogRange> {
        match &self.kind {
            SourceKind::Run(run) => {
                let row = query::run::get(engine.store(), &self.namespace, *run).await?;
                let first = query::event_log::first_retained(engine.store(), &self.namespace, *run)
                    .await?
                    .unwrap_or(0);
                let ended = row.status.is_terminal().then_some(row.status);
                return Ok(LogRange { first, last: row.next_seq.saturating_sub(1), ended });
            }
            SourceKind::Task(task) => {
                drop(query::task::get(engine.store(), &self.namespace, *task).await?)
            }
            SourceKind::Session(session) => {
                drop(query::session::get(engine.store(), &self.namespace, session).await?);
            }
            SourceKind::Namespace => {}
        }
        // Positions count the events of all runs. A cursor before the removed range may have missed events.
        let bounds = query::event_log::bounds(engine.store()).await?;
        Ok(LogRange { first: bounds.floor.saturating_add(1), last: bounds.last, ended: None })
    }

    /// Returns the next events after a position, at most `limit`.
    pub(crate) async fn page(
        &self,
        engine: &Engine,
        after: u64,
        limit: u64,
    ) -> Result<LogPage, QueryError> {
        let (store, namespace) = (engine.store(), &self.namespace);
        match &self.kind {
            SourceKind::Run(run) => {
                Box::pin(event_log::of_run(store, namespace, *run, after, limit)).await
            }
            SourceKind::Task(task) => {
                Box::pin(event_log::of_task(store, namespace, *task, after, limit)).await
            }
            SourceKind::Session(session) => {
                Box::pin(event_log::of_session(store, namespace, session, after, limit)).await
            }
            SourceKind::Namespace => {
                Box::pin(event_log::of_namespace(store, namespace, after, limit)).await
            }
        }
    }

    /// Returns the run that can have a turn in progress. `None` if there is none or the source is a namespace.
    pub(super) async fn current_run(&self, engine: &Engine) -> Option<RunId> {
        match &self.kind {
            SourceKind::Run(run) => Some(*run),
            SourceKind::Task(task) => {
                query::task::get(engine.store(), &self.namespace, *task).await.ok()?.current_run_id
            }
            SourceKind::Session(session) => {
                query::session::get(engine.store(), &self.namespace, session)
                    .await
                    .ok()?
                    .holder_run_id
            }
            SourceKind::Namespace => None,
        }
    }

    pub(super) fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Returns the run of the source. `None` if the source has several runs.
    pub(super) fn run(&self) -> Option<RunId> {
        match self.kind {
            SourceKind::Run(run) => Some(run),
            SourceKind::Task(_) | SourceKind::Session(_) | SourceKind::Namespace => None,
        }
    }

    pub(crate) fn topic(&self) -> Topic {
        let namespace = self.namespace.as_str();
        match &self.kind {
            SourceKind::Run(run) => Topic::Run(*run),
            SourceKind::Task(task) => Topic::Task(*task),
            SourceKind::Session(session) => {
                Topic::Session(namespace.into(), session.as_ref().into())
            }
            SourceKind::Namespace => Topic::Namespace(namespace.into()),
        }
    }

    /// Returns the kind of cursor of this stream.
    pub(super) fn cursor_kind(&self) -> CursorKind {
        if self.run().is_some() { CursorKind::Sequence } else { CursorKind::Position }
    }

    /// Returns the cursor of a number.
    pub(crate) fn cursor(&self, generation: u64, at: u64) -> Cursor {
        self.cursor_kind().cursor(generation, at)
    }
}
