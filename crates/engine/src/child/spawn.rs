//! Starting a child.

use std::sync::Arc;

use provost_core::command::{InputProvenance, ProvenanceKind, TaskRequest};
use provost_core::durable::{ChildStarted, DurableEvent};
use provost_core::id::name::{Namespace, SessionName};
use provost_core::lifecycle::RequestError;
use provost_core::recovery::{EffectClass, child_run_id, child_task_id};
use provost_core::{ContentPart, RunId, TaskId};
use provost_failpoint::failpoint;
use provost_store::Tx;
use provost_store::table::work::run::{self, RunRow};
use provost_store::table::work::session::{self, SessionRef};
use provost_store::table::work::task;
use provost_tool::{FnTool, SpecError, ToolCx, ToolError, tool_fn};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{ChildLimits, Cleanup, Family, Notify, Terms};
use crate::attempt::restore;
use crate::error::EngineError;
use crate::input::{EncodedMessage, IncomingMessage};
use crate::journal::transactional::TransactionalEffects;
use crate::run::event;
use crate::run::lifecycle::{policy, word};
use crate::submit::{self, NewIds, NewTask, Parent};
use crate::worker::lease::Lease;

const DESCRIPTION: &str = "Starts another agent on a task of its own and returns its ids at once; it works while you go on. \
     Wait for it with await_tasks, or end your turn: you get a message when it has ended.";

/// What is asked of a child.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Spawn {
    /// What to do. The child sees nothing else: say everything it needs to know.
    message: String,
    /// Which agent; the same as you if none is named.
    #[serde(default)]
    agent: Option<String>,
    /// A short name to tell it from others.
    #[serde(default)]
    label: Option<String>,
    /// Seconds it may take.
    #[serde(default)]
    timeout_s: Option<u64>,
    /// run: it answers once. session: its conversation can be continued by naming it in `session` later.
    #[serde(default)]
    mode: Mode,
    /// Continues the conversation of a child that was started with mode session.
    #[serde(default)]
    session: Option<String>,
    /// What becomes of it when it has ended.
    #[serde(default)]
    cleanup: Cleanup,
    /// Whether you get a message when it has ended and you do not wait for it.
    #[serde(default)]
    notify: Notify,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Mode {
    #[default]
    Run,
    Session,
}

/// A child that was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Child {
    run: RunId,
    task: TaskId,
    session: String,
}

pub(super) fn tool() -> Result<FnTool, SpecError> {
    let tool = tool_fn("spawn_task", DESCRIPTION, spawn)?;
    Ok(tool.with_spec(|spec| spec.effect(EffectClass::Transactional)))
}

async fn spawn(cx: ToolCx, spawn: Spawn) -> Result<Value, ToolError> {
    let (family, transactional) = (cx.dep::<Family>()?, cx.dep::<TransactionalEffects>()?);
    let step = family.journal.step_of(cx.effect_key()).ok_or_else(|| {
        ToolError::failed(
            "this call is in no journal: a child can only be started from a durable run",
        )
    })?;
    let spawning = Spawning {
        lease: Arc::clone(&family.lease),
        limits: family.limits,
        step,
        call_id: cx.call_id().to_owned(),
        user: family.journal.user(),
        spawn,
    };
    let child = transactional.commit(cx.effect_key(), move |tx| spawning.create(tx)).await?;
    failpoint!("child.planned");
    Ok(
        json!({"run": child.run, "task": child.task, "session": child.session, "status": "accepted"}),
    )
}

/// Everything the transaction needs that makes the child.
struct Spawning {
    lease: Arc<Lease>,
    limits: ChildLimits,
    step: u64,
    call_id: String,
    /// For whom the run above is.
    user: Option<String>,
    spawn: Spawn,
}

impl Spawning {
    fn create(&self, tx: &mut Tx<'_>) -> Result<Child, EngineError> {
        let id = child_run_id(self.lease.run, self.step);
        if let Some(known) = run::get(tx, id)? {
            // A caller may choose the id of a run: what has another parent is no child of ours.
            if known.parent_run_id != Some(self.lease.run) {
                return Err(EngineError::not_found("run", id));
            }
            return Ok(Child { run: id, task: known.task_id, session: known.session_id });
        }
        let parent = run::lock(tx, self.lease.run)?;
        let mut parent = parent.ok_or_else(|| EngineError::not_found("run", self.lease.run))?;
        self.check_limits(tx, &parent)?;
        let namespace: Namespace = word(&parent.namespace)?;
        let by = restore::requester(tx, &parent)?;
        let command = TaskRequest { requested_by: by, ..self.command(tx, &parent, id)? };
        command.validate()?;
        let (notify, cleanup) = (self.spawn.notify, self.spawn.cleanup);
        let terms = Terms { notify, cleanup, birth: None };
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
            parent: Some(Parent {
                task: parent.task_id,
                run: parent.id,
                step: self.step,
                depth: parent.depth,
                policy: policy(&parent)?,
                spawn: serde_json::to_string(&terms)?,
                sibling: None,
            }),
        };
        let accepted = submit::create_task(tx, &new)?;
        if self.spawn.session.is_none() && self.spawn.mode == Mode::Session {
            let (namespace, id) = (&parent.namespace, &accepted.session);
            session::set_continuable(tx, SessionRef { namespace, id })?;
        }
        let (label, step) = (self.spawn.label.clone(), self.step);
        let started = ChildStarted::Detached { run: id, task: accepted.task, label, step };
        event::append_event(tx, &mut parent, DurableEvent::ChildStarted(started))?;
        parent.save(tx)?;
        Ok(Child { run: id, task: accepted.task, session: accepted.session })
    }

    fn check_limits(&self, tx: &mut Tx<'_>, parent: &RunRow) -> Result<(), EngineError> {
        if parent.depth >= self.limits.depth {
            let problem = format!("{} levels below the first run are allowed", self.limits.depth);
            return Err(RequestError::invalid("depth", problem, "do it yourself").into());
        }
        let at_work = run::terms_of_active_children(tx, &parent.namespace, &parent.session_id)?;
        let mut active = 0;
        for terms in at_work {
            // Sub-agents, fan-outs and teams have limits of their own, and what they start is none of this tool's.
            active += u64::from(Terms::read(terms.as_deref())?.birth.is_none());
        }
        if active >= self.limits.active {
            let cap = usize::try_from(self.limits.active).unwrap_or(usize::MAX);
            return Err(RequestError::LimitExceeded {
                what: "the number of children at work",
                cap,
            }
            .into());
        }
        Ok(())
    }

    fn command(
        &self,
        tx: &mut Tx<'_>,
        parent: &RunRow,
        id: RunId,
    ) -> Result<TaskRequest, EngineError> {
        let Spawn { message, agent, label, timeout_s, mode, session, .. } = &self.spawn;
        let session: SessionName = match session {
            Some(session) => continued(tx, parent, session)?,
            None => {
                let kind = if *mode == Mode::Session { "talk" } else { "ses" };
                word(&id.to_string().replacen("run", kind, 1))?
            }
        };
        Ok(TaskRequest {
            message: vec![ContentPart::text(message)],
            agent: Some(agent.clone().unwrap_or_else(|| parent.agent.clone())),
            session_id: Some(session),
            timeout_ms: timeout_s.map(|seconds| seconds.saturating_mul(1000)),
            label: label.clone(),
            spawned_by: Some(format!("run:{}", parent.id)),
            input_provenance: Some(InputProvenance {
                kind: ProvenanceKind::InterSession,
                source: Some(parent.session_id.clone()),
                tool_call_id: Some(self.call_id.clone()),
                correlation_id: Some(parent.id.to_string()),
                ..InputProvenance::default()
            }),
            new_task: true,
            user: self.user.clone(),
            ..TaskRequest::default()
        })
    }
}

/// The conversation of an earlier child of the same session, if it was started to be continued.
fn continued(tx: &mut Tx<'_>, parent: &RunRow, id: &str) -> Result<SessionName, EngineError> {
    let unknown = || EngineError::not_found("session of a child", id);
    let newest = task::newest_of_session(tx, &parent.namespace, id)?.ok_or_else(unknown)?;
    let above = newest.parent_task_id.map(|id| task::get(tx, id)).transpose()?.flatten();
    let mine = above.is_some_and(|task| task.session_id == parent.session_id);
    let row = session::get(tx, &parent.namespace, id)?;
    if !mine || !row.is_some_and(|row| row.continuable) {
        return Err(unknown());
    }
    word(id)
}
