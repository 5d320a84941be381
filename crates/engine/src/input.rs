//! What is said to a task: stored first, then delivered once and in order.
//!
//! A message belongs to a run from the moment it is accepted: to the one it steers, to the one it begins, or to the one it
//! becomes a part of. Where that run ends first, the message gets a run of its own in the transaction that ends it.

mod collect;
pub(crate) mod follow_up;
mod interrupt;
mod overflow;
mod receive;
mod route;
mod run_ended;
mod withdraw;

use std::sync::Arc;

use provost_core::command::{InputProvenance, InputTarget, RoutingContext, TaskRequest};
use provost_core::hash::body_hash;
use provost_core::id::name::Namespace;
use provost_core::lifecycle::{InputOutcome, InputState, RequestError};
use provost_core::scheduling::{InputMode, InputQueueOverride, InputQueueSettings};
use provost_core::{ContentPart, InputId, Message, MessageId, Role, RunId, TaskId, Timestamp};
use provost_failpoint::failpoint;
use provost_store::table::work::input::InputRow;
use provost_store::table::work::task::{self as task_row, TaskRow};
use provost_store::table::work::{input as input_row, message as message_row, run};
use provost_store::{Body, Locked, Tx};
use serde::{Deserialize, Serialize};

pub(crate) use self::withdraw::{retract, withdraw_all};
use crate::engine::Engine;
use crate::error::EngineError;
pub(crate) use crate::input::receive::{interrupts, take};
pub(crate) use crate::input::route::deliver;
pub(crate) use crate::input::run_ended::run_ended;
use crate::run::lifecycle::run_state;
use crate::submit::{Memory, lock_task};

/// An input that is a message.
const MESSAGE: &str = "message";
/// An input that stands for messages that were dropped.
const SUMMARY: &str = "summary";

/// A message for a task.
#[derive(Debug, Clone, Default)]
pub struct InputRequest {
    /// What is said: text, pictures, documents.
    pub message: Vec<ContentPart>,
    /// What this call says about how it waits, if it must; stronger than session and agent.
    pub queue: InputQueueOverride,
    /// What counts where nobody says anything: [`QueueSettings::chat`] for those who chat.
    pub defaults: InputQueueSettings,
    /// Makes a repeat harmless, within the task.
    pub idempotency_key: Option<String>,
    /// Where it came from.
    pub provenance: InputProvenance,
    /// Where it came in and where the answer goes.
    pub routing: RoutingContext,
    /// Who says it, as far as that was proven: over the API the name of the token.
    pub by: Option<String>,
}

impl InputRequest {
    /// A message of some text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { message: vec![ContentPart::text(text)], ..Self::default() }
    }

    /// The same, with a mode.
    #[must_use]
    pub fn mode(mut self, mode: InputMode) -> Self {
        self.queue.mode = Some(mode);
        self
    }

    /// The same, with a key.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    /// What a repeat under the same key must have in common with this.
    fn hash(&self) -> Result<String, EngineError> {
        Ok(body_hash(&(&self.message, self.queue, &self.provenance, &self.routing))?)
    }

    /// As a command to the task: the message is the call's, the rest is the task's.
    fn command(&self, task: &TaskRequest) -> TaskRequest {
        TaskRequest {
            message: self.message.clone(),
            routing: self.routing.clone(),
            input_provenance: Some(self.provenance.clone()),
            idempotency_key: self.idempotency_key.clone(),
            requested_by: self.by.clone(),
            queue_mode: self.queue.mode,
            timeout_ms: task.timeout_ms,
            queue_timeout_ms: task.queue_timeout_ms,
            deliver: task.deliver,
            priority: task.priority,
            lane: task.lane.clone(),
            policy: task.policy.clone(),
            extra_system_prompt: task.extra_system_prompt.clone(),
            user: task.user.clone(),
            ..TaskRequest::default()
        }
    }

    fn validate(&self) -> Result<(), RequestError> {
        self.defaults.with(&[self.queue]).validate()?;
        let place = |path: String| path.replacen("command", "input", 1);
        match self.command(&TaskRequest::default()).validate() {
            Err(RequestError::Invalid { path, problem, fix }) => {
                Err(RequestError::Invalid { path: place(path), problem, fix })
            }
            Err(RequestError::TooLarge { path, bytes, max }) => {
                Err(RequestError::TooLarge { path: place(path), bytes, max })
            }
            other => other,
        }
    }
}

/// What became of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputReceipt {
    /// The message.
    pub input: InputId,
    /// The task that has it.
    pub task: TaskId,
    /// The run that answers it.
    pub run: RunId,
    /// What happens to it.
    pub outcome: InputOutcome,
    /// True if it was here before.
    #[serde(default, skip_serializing)]
    pub deduped: bool,
}

impl Engine {
    /// Lets a run that is at work in this process look for messages at its next boundary, whether or not a hint gets there.
    pub(crate) fn nudge(&self, run: RunId) {
        if let Some(live) = self.inner.attempts().get(&run) {
            live.check_inputs_soon();
        }
    }
}

/// Messages to tasks and runs that exist. See [`Engine::inputs`](crate::Engine::inputs).
#[derive(Clone, Copy)]
pub struct Inputs<'a> {
    pub(crate) engine: &'a Engine,
}

impl Inputs<'_> {
    /// Says something to a task. When it returns, nothing can lose the message.
    pub async fn send(
        self,
        namespace: &Namespace,
        target: impl Into<InputTarget>,
        request: InputRequest,
    ) -> Result<InputReceipt, EngineError> {
        request.validate()?;
        let (namespace, target) = (namespace.clone(), target.into());
        failpoint!("input.before");
        let write = self.engine.inner.store.write(move |tx| say(tx, &namespace, target, &request));
        let receipt = write.await;
        failpoint!("input.committed");
        let receipt = receipt?;
        self.engine.nudge(receipt.run);
        Ok(receipt)
    }
}

fn say(
    tx: &mut Tx<'_>,
    namespace: &Namespace,
    target: InputTarget,
    request: &InputRequest,
) -> Result<InputReceipt, EngineError> {
    let (task, run) = find(tx, namespace, target)?;
    let key = request.idempotency_key.as_deref();
    let memory = Memory::of_input(namespace, task.id, key, request.hash()?);
    if let Some(known) = memory.recall_or_reserve::<InputReceipt>(tx)? {
        return Ok(InputReceipt { outcome: InputOutcome::Duplicate, deduped: true, ..known? });
    }
    let key = memory.input_key();
    let command = request.command(&serde_json::from_str(&task.command)?);
    let encoded = EncodedMessage::new(&command, tx.now())?;
    let message = IncomingMessage {
        queue: request.queue,
        defaults: request.defaults,
        ..IncomingMessage::new(&command, &encoded, &key)
    };
    let receipt = deliver(tx, task, run, &message)?;
    memory.keep(tx, receipt.task, &receipt)?;
    failpoint!("input.before_commit");
    Ok(receipt)
}

/// The task a message is for, and the run if one was named that has not ended.
fn find(
    tx: &mut Tx<'_>,
    namespace: &Namespace,
    target: InputTarget,
) -> Result<(Locked<TaskRow>, Option<RunId>), EngineError> {
    match target {
        InputTarget::Task(id) => Ok((lock_task(tx, namespace, id)?, None)),
        InputTarget::Run(id) => {
            let row = run::find(tx, namespace.as_str(), id)?;
            let row = row.ok_or_else(|| EngineError::not_found("run", id))?;
            let task = lock_task(tx, namespace, row.task_id)?;
            let ended = run_state(&row)?.is_terminal();
            Ok((task, (!ended).then_some(row.id)))
        }
    }
}

/// A message for a task, with its command.
#[derive(Clone, Copy)]
pub(crate) struct IncomingMessage<'a> {
    /// The message, and the settings of the run that may start with it.
    pub(crate) command: &'a TaskRequest,
    pub(crate) encoded: &'a EncodedMessage,
    /// Unique within the task; empty if the caller gave none.
    pub(crate) key: &'a str,
    /// Queue settings of this call.
    pub(crate) queue: InputQueueOverride,
    /// Queue settings that apply where call, session and agent set none.
    pub(crate) defaults: InputQueueSettings,
}

impl<'a> IncomingMessage<'a> {
    /// The message of a command.
    pub(crate) fn new(command: &'a TaskRequest, encoded: &'a EncodedMessage, key: &'a str) -> Self {
        let queue =
            InputQueueOverride { mode: command.queue_mode, ..InputQueueOverride::default() };
        Self { command, encoded, key, queue, defaults: InputQueueSettings::default() }
    }
}

/// A message as it is stored.
pub(crate) struct EncodedMessage {
    body: Body,
    /// Its [`Origin`], as JSON.
    origin: String,
}

impl EncodedMessage {
    /// Encodes the message of a command that was sent at the time `sent`.
    pub(crate) fn new(command: &TaskRequest, sent: Timestamp) -> Result<Self, EngineError> {
        let parts = command.message.iter().chain(&command.attachments).cloned().collect();
        let message = Message::new(Role::User, parts, sent);
        Ok(Self {
            body: Body::new(serde_json::to_string(&message)?)?,
            origin: serde_json::to_string(&Origin::of_command(command))?,
        })
    }
}

/// Where a message came from and where its answer goes, as it is stored.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Origin {
    #[serde(default)]
    pub(crate) provenance: InputProvenance,
    #[serde(default)]
    pub(crate) routing: RoutingContext,
    /// What its command adds to the agent's instructions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) extra_system_prompt: Option<String>,
    /// Who said it, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) by: Option<String>,
    /// For whom it was said, if that is somebody else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) user: Option<String>,
}

/// What a run needs of [`Origin`] to begin; the rest is not read.
#[derive(Default, Deserialize)]
pub(crate) struct Aside {
    #[serde(default, rename = "extra_system_prompt")]
    pub(crate) extra: Option<Arc<str>>,
    #[serde(default)]
    pub(crate) by: Option<String>,
    #[serde(default)]
    pub(crate) user: Option<String>,
}

impl Aside {
    /// For whom it was said: who is named, else who said it.
    pub(crate) fn user(self) -> Option<String> {
        self.user.or(self.by)
    }

    pub(crate) fn of(row: &InputRow) -> Result<Self, EngineError> {
        Ok(serde_json::from_str(&row.provenance)?)
    }
}

impl Origin {
    pub(crate) fn of_command(command: &TaskRequest) -> Self {
        Self {
            provenance: command.input_provenance.clone().unwrap_or_default(),
            routing: command.routing.clone(),
            extra_system_prompt: command.extra_system_prompt.clone(),
            by: command.requested_by.clone(),
            user: command.user.clone(),
        }
    }

    pub(crate) fn of(row: &InputRow) -> Result<Self, EngineError> {
        Ok(serde_json::from_str(&row.provenance)?)
    }

    /// May two waiting messages become one turn?
    pub(crate) fn can_merge(&self, other: &Self) -> bool {
        self.provenance.can_merge(&other.provenance)
            && self.routing.can_merge(&other.routing)
            && self.extra_system_prompt == other.extra_system_prompt
            && self.user == other.user
    }
}

/// How a message waits, and for whom.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) mode: InputMode,
    pub(crate) outcome: InputOutcome,
    /// The run that gets it, if it is known.
    pub(crate) run: Option<RunId>,
}

/// Stores a message as the next input of its task. The caller assigns it to a run, if it has none.
pub(crate) fn insert(
    tx: &mut Tx<'_>,
    task: &TaskRow,
    message: &IncomingMessage<'_>,
    place: Place,
) -> Result<InputRow, EngineError> {
    let encoded = message.encoded;
    let now = tx.now();
    let message_id: MessageId = tx.id();
    message_row::put(tx, &task.namespace, message_id, &encoded.body)?;
    let seq = next_number(tx, task)?;
    let row = InputRow {
        id: tx.id(),
        namespace: task.namespace.clone(),
        task_id: task.id,
        run_id: place.run,
        seq,
        mode: place.mode.as_str().to_owned(),
        kind: MESSAGE.to_owned(),
        message_id,
        provenance: encoded.origin.clone(),
        // What a repeat is compared with is kept with its key.
        request_hash: String::new(),
        idem_key: message.key.to_owned(),
        state: InputState::Pending.as_str().to_owned(),
        outcome: place.outcome.as_str().to_owned(),
        claimed_epoch: None,
        due: now,
        created: now,
        updated: now,
    };
    row.insert(tx)?;
    Ok(row)
}

/// Takes the number of the next input of a task.
pub(crate) fn next_number(tx: &mut Tx<'_>, task: &TaskRow) -> Result<u64, EngineError> {
    task_row::take_input_number(tx, task.id)?
        .ok_or_else(|| EngineError::bug(format!("{} is not stored", task.id)))
}

/// Gives an input to a run: to read it, or to begin with it.
pub(crate) fn assign(tx: &mut Tx<'_>, input: InputId, run: RunId) -> Result<(), EngineError> {
    Ok(input_row::assign(tx, input, run)?)
}

/// Has a run begun? Until then what is said to it is what it begins with; a fork has begun before its first attempt.
pub(crate) fn has_begun(run: &run::RunRow) -> bool {
    run.attempt_no > 0 || run.forked_from.is_some()
}

/// The routing of what a run answers: where its answer goes.
pub(crate) fn routing_of_run(tx: &mut Tx<'_>, run: RunId) -> Result<RoutingContext, EngineError> {
    let first = provost_store::table::work::input::first_of_run(tx, run)?;
    let message = first.iter().find(|row| row.kind != SUMMARY);
    Ok(message.map(Origin::of).transpose()?.map(|origin| origin.routing).unwrap_or_default())
}
