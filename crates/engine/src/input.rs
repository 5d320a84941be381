//! Inputs: messages to a task. Each message is stored first, then delivered once and in order.
//!
//! A message belongs to a run from the moment of its acceptance: to the run that it steers, to the run that starts with
//! it, or to the run that collects it. If that run ends before it has answered, the transaction that ends the run
//! assigns the message to a new run.

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
use provost_core::lifecycle::{InputKind, InputOutcome, InputState, RequestError};
use provost_core::scheduling::{InputMode, InputQueueOverride, InputQueueSettings};
use provost_core::{ContentPart, InputId, Message, MessageId, Role, RunId, TaskId, Timestamp};
use provost_failpoint::failpoint;
use provost_store::table::work::input::InputRow;
use provost_store::table::work::task::{self as task_row, TaskRow};
use provost_store::table::work::{input as input_row, message as message_row, run};
use provost_store::{Locked, StoredText, Tx};
use serde::{Deserialize, Serialize};

pub(crate) use self::withdraw::{supersede_input, withdraw_all};
use crate::engine::Engine;
use crate::error::EngineError;
pub(crate) use crate::input::receive::{interrupts, receive};
pub(crate) use crate::input::route::deliver;
pub(crate) use crate::input::run_ended::run_ended;
use crate::submit::{IdempotencyRecord, lock_task};

/// Message for a task.
#[derive(Debug, Clone, Default)]
pub struct InputRequest {
    /// Content: text, images and documents.
    pub message: Vec<ContentPart>,
    /// Queue settings of this request. They override the settings of the session and the agent.
    pub queue: InputQueueOverride,
    /// Queue settings that apply where request, session and agent set none. Use [`InputQueueSettings::chat`] for chats.
    pub defaults: InputQueueSettings,
    /// Idempotency key, unique within the task.
    pub idempotency_key: Option<String>,
    /// Origin of the message.
    pub provenance: InputProvenance,
    /// Channel of the message, and the route of the answer.
    pub routing: RoutingContext,
    /// Authenticated sender. Over the API, the name of the token.
    pub by: Option<String>,
}

impl InputRequest {
    /// Creates a text message.
    pub fn text(text: impl Into<String>) -> Self {
        Self { message: vec![ContentPart::text(text)], ..Self::default() }
    }

    /// Sets the mode.
    #[must_use]
    pub fn mode(mut self, mode: InputMode) -> Self {
        self.queue.mode = Some(mode);
        self
    }

    /// Sets the idempotency key.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    /// Returns the hash that a repeated request under the same key must have.
    fn hash(&self) -> Result<String, EngineError> {
        Ok(body_hash(&(&self.message, self.queue, &self.provenance, &self.routing))?)
    }

    /// Converts the message to a task request. The message comes from this request, the other settings from the task.
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

    /// Fails if the message or the queue settings are invalid. Paths in errors begin with `input`.
    fn validate(&self) -> Result<(), RequestError> {
        self.defaults.with(&[self.queue]).validate()?;
        let assignment = |path: String| path.replacen("command", "input", 1);
        match self.command(&TaskRequest::default()).validate() {
            Err(RequestError::Invalid { path, problem, fix }) => {
                Err(RequestError::Invalid { path: assignment(path), problem, fix })
            }
            Err(RequestError::TooLarge { path, bytes, max }) => {
                Err(RequestError::TooLarge { path: assignment(path), bytes, max })
            }
            other => other,
        }
    }
}

/// Result of sending a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputReceipt {
    /// Id of the message.
    pub input: InputId,
    /// Task of the message.
    pub task: TaskId,
    /// Run that answers the message.
    pub run: RunId,
    /// Treatment of the message.
    pub outcome: InputOutcome,
    /// True if an earlier request with the same key sent the message.
    #[serde(default, skip_serializing)]
    pub deduped: bool,
}

impl Engine {
    /// Makes a run that is active in this process check for inputs at its next step boundary. This does not depend on a
    /// wakeup.
    pub(crate) fn notify_input(&self, run: RunId) {
        if let Some(live) = self.inner.attempts().get(&run) {
            live.check_inputs_soon();
        }
    }
}

/// Messages to existing tasks and runs. See [`Engine::inputs`](crate::Engine::inputs).
#[derive(Clone, Copy)]
pub struct Inputs<'a> {
    pub(crate) engine: &'a Engine,
}

impl Inputs<'_> {
    /// Sends a message to a task. When it returns, the message is committed.
    pub async fn send(
        self,
        namespace: &Namespace,
        target: impl Into<InputTarget>,
        request: InputRequest,
    ) -> Result<InputReceipt, EngineError> {
        request.validate()?;
        let (namespace, target) = (namespace.clone(), target.into());
        failpoint!("input.before");
        let write = self.engine.inner.store.write(move |tx| send(tx, &namespace, target, &request));
        let receipt = write.await;
        failpoint!("input.committed");
        let receipt = receipt?;
        self.engine.notify_input(receipt.run);
        Ok(receipt)
    }
}

/// Stores a message inside a transaction and routes it. A repeated idempotency key returns the stored receipt.
fn send(
    tx: &mut Tx<'_>,
    namespace: &Namespace,
    target: InputTarget,
    request: &InputRequest,
) -> Result<InputReceipt, EngineError> {
    let (task, run) = find(tx, namespace, target)?;
    let key = request.idempotency_key.as_deref();
    let memory = IdempotencyRecord::of_input(namespace, task.id, key, request.hash()?);
    if let Some(known) = memory.lookup_or_reserve::<InputReceipt>(tx)? {
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
    memory.store_response(tx, receipt.task, &receipt)?;
    failpoint!("input.before_commit");
    Ok(receipt)
}

/// Finds the task of a message, and the run if the target names one that has not ended. Fails if there is no such task
/// or run.
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
            let ended = row.state()?.is_terminal();
            Ok((task, (!ended).then_some(row.id)))
        }
    }
}

/// Message for a task, with its request.
#[derive(Clone, Copy)]
pub(crate) struct IncomingMessage<'a> {
    /// Request that contains the message, and the settings of the run that may start with it.
    pub(crate) command: &'a TaskRequest,
    pub(crate) encoded: &'a EncodedMessage,
    /// Key, unique within the task. Empty if the caller gave none.
    pub(crate) key: &'a str,
    /// Queue settings of this call.
    pub(crate) queue: InputQueueOverride,
    /// Queue settings that apply where call, session and agent set none.
    pub(crate) defaults: InputQueueSettings,
}

impl<'a> IncomingMessage<'a> {
    /// Creates the message of a request.
    pub(crate) fn new(command: &'a TaskRequest, encoded: &'a EncodedMessage, key: &'a str) -> Self {
        let queue =
            InputQueueOverride { mode: command.queue_mode, ..InputQueueOverride::default() };
        Self { command, encoded, key, queue, defaults: InputQueueSettings::default() }
    }
}

/// Message in its stored form.
pub(crate) struct EncodedMessage {
    body: StoredText,
    /// [`MessageOrigin`] as JSON.
    origin: String,
}

impl EncodedMessage {
    /// Encodes the message of a request that was sent at the time `sent`.
    pub(crate) fn new(command: &TaskRequest, sent: Timestamp) -> Result<Self, EngineError> {
        let parts = command.message.iter().chain(&command.attachments).cloned().collect();
        let message = Message::new(Role::User, parts, sent);
        Ok(Self {
            body: StoredText::new(serde_json::to_string(&message)?)?,
            origin: serde_json::to_string(&MessageOrigin::of_command(command))?,
        })
    }
}

/// Origin of a message and the route of its answer, in the stored form.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct MessageOrigin {
    #[serde(default)]
    pub(crate) provenance: InputProvenance,
    #[serde(default)]
    pub(crate) routing: RoutingContext,
    /// Additional instructions of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) extra_system_prompt: Option<String>,
    /// Authenticated sender, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) by: Option<String>,
    /// User on whose behalf the message was sent, if that is not the sender.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) user: Option<String>,
}

/// Fields of [`MessageOrigin`] that the start of a run needs.
#[derive(Default, Deserialize)]
pub(crate) struct RunHeaderFields {
    #[serde(default, rename = "extra_system_prompt")]
    pub(crate) extra: Option<Arc<str>>,
    #[serde(default)]
    pub(crate) by: Option<String>,
    #[serde(default)]
    pub(crate) user: Option<String>,
}

impl RunHeaderFields {
    /// Returns the user that the run works for: the named user, otherwise the sender. `None` if neither is known.
    pub(crate) fn user(self) -> Option<String> {
        self.user.or(self.by)
    }

    /// Parses the origin of an input.
    pub(crate) fn of(row: &InputRow) -> Result<Self, EngineError> {
        Ok(serde_json::from_str(&row.provenance)?)
    }
}

impl MessageOrigin {
    /// Returns the origin of the message in a task request.
    pub(crate) fn of_command(command: &TaskRequest) -> Self {
        Self {
            provenance: command.input_provenance.clone().unwrap_or_default(),
            routing: command.routing.clone(),
            extra_system_prompt: command.extra_system_prompt.clone(),
            by: command.requested_by.clone(),
            user: command.user.clone(),
        }
    }

    /// Parses the origin of an input.
    pub(crate) fn of(row: &InputRow) -> Result<Self, EngineError> {
        Ok(serde_json::from_str(&row.provenance)?)
    }

    /// Returns true if two pending messages may become one turn.
    pub(crate) fn can_merge(&self, other: &Self) -> bool {
        self.provenance.can_merge(&other.provenance)
            && self.routing.can_merge(&other.routing)
            && self.extra_system_prompt == other.extra_system_prompt
            && self.user == other.user
    }
}

/// Queue mode and run of a new input.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InputAssignment {
    pub(crate) mode: InputMode,
    pub(crate) outcome: InputOutcome,
    /// Run that receives the input, if known.
    pub(crate) run: Option<RunId>,
}

/// Stores a message as the next input of its task, assigned to a run or to none yet.
pub(crate) fn insert(
    tx: &mut Tx<'_>,
    task: &TaskRow,
    message: &IncomingMessage<'_>,
    assignment: InputAssignment,
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
        run_id: assignment.run,
        seq,
        mode: assignment.mode,
        kind: InputKind::Message,
        message_id,
        provenance: encoded.origin.clone(),
        // The idempotency record contains the hash of the request.
        request_hash: String::new(),
        idem_key: message.key.to_owned(),
        state: InputState::Pending,
        outcome: assignment.outcome,
        claimed_epoch: None,
        due: now,
        created: now,
        updated: now,
    };
    row.insert(tx)?;
    Ok(row)
}

/// Allocates the number of the next input of a task.
pub(crate) fn next_number(tx: &mut Tx<'_>, task: &TaskRow) -> Result<u64, EngineError> {
    task_row::take_input_number(tx, task.id)?
        .ok_or_else(|| EngineError::bug(format!("{} is not stored", task.id)))
}

/// Assigns an input to a run, which reads it or starts with it.
pub(crate) fn assign(tx: &mut Tx<'_>, input: InputId, run: RunId) -> Result<(), EngineError> {
    Ok(input_row::assign(tx, input, run)?)
}

/// Returns true if a run has begun. An input of an earlier time is part of its first message. A fork has begun before
/// its first attempt.
pub(crate) fn has_begun(run: &run::RunRow) -> bool {
    run.attempt_no > 0 || run.forked_from.is_some()
}

/// Returns the routing of the message that a run answers.
pub(crate) fn routing_of_run(tx: &mut Tx<'_>, run: RunId) -> Result<RoutingContext, EngineError> {
    let first = provost_store::table::work::input::first_of_run(tx, run)?;
    let message = first.iter().find(|row| row.kind != InputKind::Summary);
    Ok(message.map(MessageOrigin::of).transpose()?.map(|origin| origin.routing).unwrap_or_default())
}
