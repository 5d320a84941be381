//! The tool `spawn_task`: starts a child run.

use std::sync::Arc;
use std::time::Duration;

use provost_core::durable::{ChildStarted, DurableEvent};
use provost_core::id::name::{RunSession, SessionName};
use provost_core::lifecycle::RequestError;
use provost_core::recovery::{EffectClass, child_run_id, child_task_id};
use provost_core::{RunId, TaskId};
use provost_failpoint::failpoint;
use provost_store::Tx;
use provost_store::table::work::run::{self, RunRow};
use provost_store::table::work::session::{self, SessionRef};
use provost_store::table::work::task;
use provost_tool::{FnTool, ToolContext, ToolError, ToolSpecError, tool_fn};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::request::ChildRequest;
use super::{ChildCleanup, ChildLimits, ChildToolContext, ParentNotification, SpawnOptions};
use crate::attempt::restore;
use crate::error::EngineError;
use crate::input::{EncodedMessage, IncomingMessage};
use crate::journal::transactional::TransactionalEffects;
use crate::run::event;
use crate::submit::{self, NewIds, NewTask, ParentRun};
use crate::worker::lease::Lease;

const DESCRIPTION: &str = "Starts another agent with its own task and returns its ids at once. The agent runs while you continue. \
     Wait for it with await_tasks, or end your turn: you get a message when it has ended.";

/// Arguments of `spawn_task`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SpawnArgs {
    /// Task for the child. The child sees nothing else, so include everything that it needs to know.
    message: String,
    /// Name of the agent. Default: your own agent.
    #[serde(default)]
    agent: Option<String>,
    /// Short name that distinguishes the child from others.
    #[serde(default)]
    label: Option<String>,
    /// Timeout in seconds.
    #[serde(default)]
    timeout_s: Option<u64>,
    /// `run`: the child answers once. `session`: you can continue its conversation later by naming it in `session`.
    #[serde(default)]
    mode: SpawnMode,
    /// Session of a child that was started with mode `session`, to continue its conversation.
    #[serde(default)]
    session: Option<String>,
    /// Treatment of the child after its end.
    #[serde(default)]
    cleanup: ChildCleanup,
    /// Whether you get a message when the child has ended and you do not wait for it.
    #[serde(default)]
    notify: ParentNotification,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum SpawnMode {
    #[default]
    Run,
    Session,
}

/// Ids of a started child.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct StartedChild {
    run: RunId,
    task: TaskId,
    session: String,
}

/// Creates the tool `spawn_task`.
pub(super) fn tool() -> Result<FnTool, ToolSpecError> {
    let tool = tool_fn("spawn_task", DESCRIPTION, spawn)?;
    Ok(tool.with_spec(|spec| spec.effect(EffectClass::Transactional)))
}

/// Starts a child in the transaction that commits the call, and returns its ids.
async fn spawn(cx: ToolContext, spawn: SpawnArgs) -> Result<Value, ToolError> {
    let (context, transactional) =
        (cx.dep::<ChildToolContext>()?, cx.dep::<TransactionalEffects>()?);
    let step = context
        .journal
        .step_of(cx.effect_key())
        .ok_or_else(|| ToolError::failed("a child can be started only from a durable run"))?;
    let spawn_context = SpawnContext {
        lease: Arc::clone(&context.lease),
        limits: context.limits,
        step,
        call_id: cx.call_id().to_owned(),
        user: context.journal.user(),
        spawn,
    };
    let child = transactional.commit(cx.effect_key(), move |tx| spawn_context.create(tx)).await?;
    failpoint!("child.planned");
    Ok(
        json!({"run": child.run, "task": child.task, "session": child.session, "status": "accepted"}),
    )
}

/// Input of the transaction that creates the child.
struct SpawnContext {
    lease: Arc<Lease>,
    limits: ChildLimits,
    step: u64,
    call_id: String,
    /// User that the parent run works for.
    user: Option<String>,
    spawn: SpawnArgs,
}

impl SpawnContext {
    /// Creates the child, or returns the existing one of a repeated call. Fails if a limit is reached.
    fn create(&self, tx: &mut Tx<'_>) -> Result<StartedChild, EngineError> {
        let id = child_run_id(self.lease.run, self.step);
        if let Some(known) = run::get(tx, id)? {
            // A caller may choose the id of a run, so a run with this id may have another parent.
            if known.parent_run_id != Some(self.lease.run) {
                return Err(EngineError::not_found("run", id));
            }
            return Ok(StartedChild { run: id, task: known.task_id, session: known.session_id });
        }
        let parent = run::lock(tx, self.lease.run)?;
        let mut parent = parent.ok_or_else(|| EngineError::not_found("run", self.lease.run))?;
        self.check_limits(tx, &parent)?;
        let namespace = parent.namespace()?;
        let by = restore::requester(tx, &parent)?;
        let request = ChildRequest {
            parent: &parent,
            call_id: &self.call_id,
            user: self.user.as_deref(),
            requested_by: by.as_deref(),
            message: &self.spawn.message,
            agent: self.spawn.agent.as_deref().unwrap_or(&parent.agent),
            session: self.session(tx, &parent, id)?,
            timeout: self.spawn.timeout_s.map(Duration::from_secs),
            label: self.spawn.label.clone(),
            lane: None,
        };
        let command = request.into_task_request()?;
        let (notify, cleanup) = (self.spawn.notify, self.spawn.cleanup);
        let options = SpawnOptions { notify, cleanup, child_origin: None };
        let key = format!("spawn:{}:{}", parent.id, self.step);
        let encoded = EncodedMessage::new(&command, tx.now())?;
        let new = NewTask {
            namespace: &namespace,
            ids: NewIds {
                run: id,
                task: child_task_id(parent.id, self.step),
                ..NewIds::draw(tx, &command)
            },
            message: &IncomingMessage::new(&command, &encoded, &key),
            parent: Some(ParentRun {
                task: parent.task_id,
                run: parent.id,
                step: self.step,
                depth: parent.depth,
                resource_set: parent.resource_set.clone(),
                policy: parent.execution_policy()?,
                spawn: serde_json::to_string(&options)?,
                sibling: None,
            }),
        };
        let accepted = submit::create_task(tx, &new)?;
        if self.spawn.session.is_none() && self.spawn.mode == SpawnMode::Session {
            let (namespace, id) = (&parent.namespace, &accepted.session);
            session::set_continuable(tx, SessionRef { namespace, id })?;
        }
        let (label, step) = (self.spawn.label.clone(), self.step);
        let started = ChildStarted::Detached { run: id, task: accepted.task, label, step };
        event::append_event(tx, &mut parent, DurableEvent::ChildStarted(started))?;
        parent.save(tx)?;
        Ok(StartedChild { run: id, task: accepted.task, session: accepted.session })
    }

    /// Fails if the parent is too deep, or its session has too many active children. Subagents do not count.
    fn check_limits(&self, tx: &mut Tx<'_>, parent: &RunRow) -> Result<(), EngineError> {
        if parent.depth >= self.limits.depth {
            let problem = format!("{} levels below the first run are allowed", self.limits.depth);
            return Err(RequestError::invalid("depth", problem, "do it yourself").into());
        }
        let active_options =
            run::spawn_options_of_active_children(tx, &parent.namespace, &parent.session_id)?;
        let mut active = 0;
        for options in active_options {
            // Subagents, fan-outs and teams have limits of their own, so their runs do not count here.
            active += u64::from(SpawnOptions::read(options.as_deref())?.child_origin.is_none());
        }
        if active >= self.limits.active {
            let cap = usize::try_from(self.limits.active).unwrap_or(usize::MAX);
            return Err(
                RequestError::LimitExceeded { what: "the number of active children", cap }.into()
            );
        }
        Ok(())
    }

    /// Returns the name of the child's session: the one that the call continues, otherwise a new one that belongs to
    /// the run. Fails if the session to continue does not allow it.
    fn session(
        &self,
        tx: &mut Tx<'_>,
        parent: &RunRow,
        id: RunId,
    ) -> Result<SessionName, EngineError> {
        match (&self.spawn.session, self.spawn.mode) {
            (Some(session), _) => session_to_continue(tx, parent, session),
            (None, SpawnMode::Session) => Ok(SessionName::of_run(RunSession::Conversation, id)),
            (None, SpawnMode::Run) => Ok(SessionName::of_run(RunSession::Child, id)),
        }
    }
}

/// Returns the session of an earlier child of the same session. Fails if that child was not started with mode
/// `session`.
fn session_to_continue(
    tx: &mut Tx<'_>,
    parent: &RunRow,
    id: &str,
) -> Result<SessionName, EngineError> {
    let unknown = || EngineError::not_found("session of a child", id);
    let newest = task::newest_of_session(tx, &parent.namespace, id)?.ok_or_else(unknown)?;
    let parent_task = newest.parent_task_id.map(|id| task::get(tx, id)).transpose()?.flatten();
    let is_own_child = parent_task.is_some_and(|task| task.session_id == parent.session_id);
    let row = session::get(tx, &parent.namespace, id)?;
    if !is_own_child || !row.is_some_and(|row| row.continuable) {
        return Err(unknown());
    }
    Ok(id.parse()?)
}
