//! Configures and starts one run.

mod child;
mod host;
mod shared;

use std::future::IntoFuture;
use std::sync::Arc;

use futures::future::BoxFuture;
use provost_core::{Limits, Message, Role, RunId, StateScope, Timestamp};
use provost_model::{ChatModel, ModelSettings};
use provost_session::SessionStore;
use provost_tool::{CallOrigin, Deps, GuardServices, Tool, ToolContext};
use serde::Serialize;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::agent::Agent;
use crate::approval::ApprovalMode;
use crate::budget::UsageBudget;
use crate::control::{RunControl, UserInput};
use crate::driver::{self, PreparedRun};
use crate::error::Error;
use crate::hook::Hook;
use crate::journal::Journal;
use crate::outcome::{RunOutcome, RunResult, SuspendedRun};
use crate::run::{Run, RunInput};
pub(crate) use crate::run_builder::child::{ChildRunOptions, InheritedContext};
pub use crate::run_builder::host::{HostContext, ParentAgent};
use crate::shared_state::SharedStateOptions;
use crate::stream::{EventBuffer, EventSource, LiveRun, ParentEvents, RunStream};
use crate::subagent::ChildSpawner;
use crate::team::TeamMembership;

/// The source of a run.
#[derive(Debug, Clone)]
pub(crate) enum RunSource {
    New(RunInput),
    Resume(Box<SuspendedRun>),
    Restore(Box<RestoredRun>),
}

impl RunSource {
    /// Creates the source of a new run with this message. The time of the message is set when the run starts.
    pub(crate) fn message(input: UserInput) -> Self {
        let message = Arc::new(Message::new(Role::User, input.0, Timestamp::default()));
        Self::New(RunInput::Message { message })
    }

    /// Returns the run to resume or restore. `None` for a new run.
    pub(crate) fn existing(&self) -> Option<&Run> {
        match self {
            Self::Resume(suspended) => Some(&suspended.run),
            Self::Restore(restored) => Some(&restored.run),
            Self::New(_) => None,
        }
    }

    /// Returns the text of the user's message. Empty if there is none.
    pub(crate) fn input_text(&self) -> String {
        match self {
            Self::New(RunInput::Message { message }) => message.text(),
            _ => String::new(),
        }
    }
}

/// A run that was rebuilt from its journal.
#[derive(Debug, Clone)]
pub(crate) struct RestoredRun {
    pub(crate) run: Run,
    /// The session revision that the run has seen.
    pub(crate) revision: u64,
}

/// The options of one run, which extend or override those of its agent.
#[derive(Clone, Default)]
pub(crate) struct RunOptions {
    pub(crate) session: Option<(Arc<dyn SessionStore>, String)>,
    pub(crate) session_id: Option<String>,
    pub(crate) history: Vec<Arc<Message>>,
    pub(crate) deps: Deps,
    pub(crate) state: Map<String, Value>,
    pub(crate) limits: Option<Limits>,
    pub(crate) model: Option<Arc<dyn ChatModel>>,
    pub(crate) settings: Option<ModelSettings>,
    pub(crate) tools: Vec<Arc<dyn Tool>>,
    pub(crate) hooks: Vec<Arc<dyn Hook>>,
    pub(crate) on_approval: Option<ApprovalMode>,
    pub(crate) cancel: Option<CancellationToken>,
    pub(crate) parent: Option<Parent>,
    pub(crate) problem: Option<String>,
    pub(crate) run_id: Option<RunId>,
    pub(crate) journal: Option<Arc<dyn Journal>>,
    pub(crate) received_at: Option<Timestamp>,
    pub(crate) spawner: Option<Arc<dyn ChildSpawner>>,
    pub(crate) inherited: Option<Arc<InheritedContext>>,
    /// Services of the guard of every agent of the run. `None` uses the services of the agents.
    pub(crate) guard_services: Option<Arc<GuardServices>>,
    /// The id that the model of the parent run uses for this child.
    pub(crate) task_id: Option<Arc<str>>,
    pub(crate) budget: Option<Arc<UsageBudget>>,
    pub(crate) membership: Option<TeamMembership>,
    pub(crate) origin: CallOrigin,
    pub(crate) shared: SharedStateOptions,
}

/// The agent of the call that starts a child run.
#[derive(Debug, Clone)]
pub(crate) struct Parent {
    pub(crate) agent: Arc<str>,
    pub(crate) depth: u32,
    pub(crate) depth_max: Option<u32>,
}

impl Parent {
    /// Returns the agent of a tool call as a parent.
    pub(crate) fn of_call(cx: &ToolContext) -> Self {
        Self { agent: cx.agent().into(), depth: cx.depth(), depth_max: cx.depth_max() }
    }
}

impl RunOptions {
    /// Returns the path of the agent: the names of its ancestors and its own name.
    pub(crate) fn path(&self, name: &Arc<str>) -> Arc<str> {
        match &self.parent {
            Some(parent) => format!("{}/{name}", parent.agent).into(),
            None => Arc::clone(name),
        }
    }
}

/// Configures one run. `.await` it for the result, call [`stream`](Self::stream) for the events, or
/// [`outcome`](Self::outcome) if the run may be suspended.
#[must_use = "a run does nothing unless it is awaited or streamed"]
pub struct RunBuilder<O: Send + 'static = String> {
    agent: Agent<O>,
    source: RunSource,
    options: RunOptions,
}

impl<O: Send + 'static> RunBuilder<O> {
    pub(crate) fn new(agent: &Agent<O>, source: RunSource) -> Self {
        Self { agent: agent.clone(), source, options: RunOptions::default() }
    }

    /// Continues the conversation with this id in the agent's session store. Creates it if it does not exist.
    pub fn session(mut self, id: impl Into<String>) -> Self {
        self.options.session_id = Some(id.into());
        self
    }

    /// Continues the conversation with this id in `store`. Creates it if it does not exist.
    pub fn session_in(mut self, store: Arc<dyn SessionStore>, id: impl Into<String>) -> Self {
        self.options.session = Some((store, id.into()));
        self
    }

    /// Sets the conversation so far, for programs that store it themselves. Cannot be combined with a session.
    pub fn history(mut self, messages: impl IntoIterator<Item = Arc<Message>>) -> Self {
        self.options.history = messages.into_iter().collect();
        self
    }

    /// Adds a value that the run's tools, hooks and instructions can read by its type.
    pub fn dep<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.options.deps = self.options.deps.with(value);
        self
    }

    /// Replaces all values added with [`dep`](Self::dep).
    pub fn deps(mut self, deps: Deps) -> Self {
        self.options.deps = deps;
        self
    }

    /// Sets a state value. A name with a scope, such as `user:language`, sets a shared value that outlives the run.
    pub fn state(mut self, name: impl Into<String>, value: impl Serialize) -> Self {
        let name = name.into();
        match serde_json::to_value(value) {
            Ok(value) => {
                if StateScope::is_shared(&name) {
                    self.options.shared.given.push(name.clone());
                }
                self.options.state.insert(name, value);
            }
            Err(error) => {
                self.options.problem = Some(format!("state `{name}` has no JSON form: {error}"))
            }
        }
        self
    }

    /// Sets the limits of this run, which replace the agent's limits.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.options.limits = Some(limits);
        self
    }

    /// Sets the maximum number of tool rounds of this run.
    pub fn max_turns(mut self, turns: u32) -> Self {
        let limits =
            self.options.limits.take().unwrap_or_else(|| self.agent.definition.limits.clone());
        self.options.limits = Some(limits.turns(turns));
        self
    }

    /// Replaces the model for this run.
    pub fn model(mut self, model: impl ChatModel) -> Self {
        self.options.model = Some(Arc::new(model));
        self
    }

    /// Replaces the model settings for this run.
    pub fn settings(mut self, settings: ModelSettings) -> Self {
        self.options.settings = Some(settings);
        self
    }

    /// Adds a tool for this run.
    pub fn tool(mut self, tool: impl Tool) -> Self {
        self.options.tools.push(Arc::new(tool));
        self
    }

    /// Adds a hook for this run. It runs after the agent's hooks.
    pub fn hook(mut self, hook: impl Hook) -> Self {
        self.options.hooks.push(Arc::new(hook));
        self
    }

    /// Sets the handling of approval requests in this run.
    pub fn approvals(mut self, on_approval: ApprovalMode) -> Self {
        self.options.on_approval = Some(on_approval);
        self
    }

    /// Cancels the run when this token is cancelled.
    pub fn cancel_token(mut self, token: CancellationToken) -> Self {
        self.options.cancel = Some(token);
        self
    }

    /// Makes the run a child of the current tool call: it is cancelled with the call, its events carry the path of
    /// both agents, and it counts towards the depth limit.
    pub fn as_child_of(mut self, cx: &ToolContext) -> Self {
        self.options.cancel = Some(cx.cancelled().clone());
        self.options.parent = Some(Parent::of_call(cx));
        self
    }

    /// Sets the origin of the run, which policies check and the audit log records. The agent and run id are filled
    /// in.
    pub fn origin(mut self, origin: CallOrigin) -> Self {
        self.options.origin = origin;
        self
    }

    /// Sets the services and the identity that an engine provides to a run that it stores itself.
    #[doc(hidden)]
    pub fn host(mut self, host: HostContext) -> Self {
        let HostContext { run_id, received_at, journal, shared_values, spawner, .. } = host;
        self.options.guard_services = Some(host.guard);
        self.options.run_id = run_id;
        self.options.received_at = received_at;
        self.options.journal = journal;
        self.options.spawner = spawner;
        self.options.membership = host.membership;
        if let Some(parent) = host.parent {
            self.options.parent = Some(Parent {
                agent: parent.agent.into(),
                depth: parent.depth.saturating_sub(1),
                depth_max: parent.depth_max,
            });
        }
        if let Some((owners, values)) = shared_values {
            self.options.shared.bind_journal(owners, values);
        }
        if let Some(turns) = host.max_turns {
            let mut limits =
                self.options.limits.take().unwrap_or_else(|| self.agent.definition.limits.clone());
            limits.turns = child::lower_limit(Some(turns), limits.turns);
            self.options.limits = Some(limits);
        }
        self
    }

    /// Returns the run as a stream of events. The run starts when the stream is polled; dropping the stream cancels it.
    pub fn stream(self) -> RunStream<O> {
        self.start(EventMode::Stream)
    }

    /// Drives the run to its end. Suspension, denial and cancellation are outcomes, not errors.
    pub async fn outcome(self) -> Result<RunOutcome<O>, Error> {
        self.without_events().outcome().await
    }

    /// Creates a run whose events are discarded. Interactive approvals are then denied.
    fn without_events(mut self) -> RunStream<O> {
        let own = self.agent.definition.on_approval.as_ref();
        // Interactive approvals need a reader of the events; without one they are denied.
        if matches!(self.options.on_approval.as_ref().or(own), Some(ApprovalMode::Interactive)) {
            self.options.on_approval = Some(ApprovalMode::Deny);
        }
        self.start(EventMode::Discard)
    }

    /// Creates the stream of the run with its control.
    fn start(self, mode: EventMode) -> RunStream<O> {
        let decode = self.agent.decode;
        let mut prepared = self.prepare(mode);
        let live = LiveRun {
            run_id: prepared.run_id,
            reader: prepared.reader.take(),
            control: Arc::clone(&prepared.control),
            driving: Box::pin(driver::drive(prepared)),
        };
        RunStream::new(live, decode)
    }

    /// Returns the conversation and the instructions with which the run would start. Changes no session and calls
    /// neither hooks nor a model. The context is not compacted, because that may need a model.
    pub async fn preview(self) -> Result<ContextPreview, Error> {
        driver::preview(self.prepare(EventMode::Discard), /*commit*/ false).await
    }

    /// Returns the conversation and the instructions with which the run would start, like [`preview`](Self::preview),
    /// and commits the user's message to the session.
    pub async fn build_context(self) -> Result<ContextPreview, Error> {
        driver::preview(self.prepare(EventMode::Discard), /*commit*/ true).await
    }

    /// Creates the id, the control and the events of the run. Boxed, because the value is large and is moved several
    /// times.
    fn prepare(mut self, mode: EventMode) -> Box<PreparedRun> {
        let env = self.agent.definition.env.clone();
        let (run_id, next_seq): (RunId, u64) = match &self.source {
            RunSource::Resume(suspended) => (suspended.run_id(), suspended.next_seq),
            RunSource::Restore(restored) => (restored.run.id(), 0),
            RunSource::New(_) => (self.options.run_id.unwrap_or_else(|| env.id()), 0),
        };
        let cancel = match (self.options.cancel.take(), &self.options.inherited) {
            // An inherited token was created for this run alone.
            (Some(cancel), Some(_)) => cancel,
            (Some(cancel), None) => cancel.child_token(),
            (None, _) => CancellationToken::new(),
        };
        let control = Arc::new(RunControl::new(cancel));
        let agent = self.options.path(&self.agent.definition.name);
        let source = EventSource { run_id, agent, env, next_seq };
        let (events, reader) = match (&self.options.inherited, mode) {
            // If the parent's events are discarded, so are those of its children.
            (Some(inherited), _) if inherited.events.discards_events() => {
                (EventBuffer::discard(source), None)
            }
            (Some(inherited), _) => {
                let events = Arc::clone(&inherited.events);
                let call_id = Arc::clone(&inherited.call_id);
                (EventBuffer::for_child(source, ParentEvents { events, call_id }), None)
            }
            (None, EventMode::Stream) => {
                let (events, reader) = EventBuffer::channel(source);
                (events, Some(reader))
            }
            (None, EventMode::Discard) => (EventBuffer::discard(source), None),
        };
        let budget = self.options.budget.clone().unwrap_or_else(|| {
            let limits = self.options.limits.as_ref().unwrap_or(&self.agent.definition.limits);
            Arc::new(UsageBudget::new(limits.clone(), None))
        });
        Box::new(PreparedRun {
            definition: self.agent.definition,
            run_id,
            source: self.source,
            options: self.options,
            events: Arc::new(events),
            reader,
            control,
            budget,
        })
    }
}

/// Whether the events of a run have a reader.
#[derive(Debug, Clone, Copy)]
enum EventMode {
    Stream,
    Discard,
}

/// The context of the first model call of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct ContextPreview {
    /// The instructions.
    pub system: Option<Arc<str>>,
    /// The conversation.
    pub messages: Vec<Arc<Message>>,
}

impl<O: Send + 'static> IntoFuture for RunBuilder<O> {
    type Output = Result<RunResult<O>, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let mut run = self.without_events();
        Box::pin(std::future::poll_fn(move |cx| {
            run.poll_outcome(cx).map(|outcome| outcome.and_then(RunOutcome::into_result))
        }))
    }
}
