//! Where a message goes: the decision table of queue modes, carried out.

use provost_core::RunId;
use provost_core::durable::{DurableEvent, InputReceived, InputSteered, SteerFallback};
use provost_core::id::name::Namespace;
use provost_core::lifecycle::{
    InputOutcome, InputState, RequestError, RunTransition, TaskTransition,
};
use provost_core::scheduling::{
    InputAction, InputMode, InputQueueOverride, InputQueueSettings, InputTargetState,
};
use provost_store::table::governance::agent;
use provost_store::table::work::input::InputRow;
use provost_store::table::work::run::{self, RunRow};
use provost_store::table::work::task::TaskRow;
use provost_store::table::work::{input as input_row, session};
use provost_store::{Hint, Locked, Tx};

use super::{
    EncodedMessage, IncomingMessage, InputReceipt, Place, collect, insert, interrupt, overflow,
};
use crate::agent::AgentConfig;
use crate::error::EngineError;
use crate::input::follow_up;
use crate::run::event;
use crate::run::lifecycle::{move_run, move_task, run_state, word};
use crate::submit::{self, NewIds, NewTask};
use crate::{approval, queue};
use provost_store::table::work::stored_message as message;

/// A message that has reached its task.
pub(super) struct Arrival<'a> {
    pub(super) task: Locked<TaskRow>,
    pub(super) message: &'a IncomingMessage<'a>,
    pub(super) mode: InputMode,
    pub(super) settings: InputQueueSettings,
}

impl Arrival<'_> {
    /// Stores the message for a run.
    pub(super) fn insert(
        &mut self,
        tx: &mut Tx<'_>,
        outcome: InputOutcome,
        run: Option<RunId>,
    ) -> Result<InputRow, EngineError> {
        let place = Place { mode: self.mode, outcome, run };
        let row = insert(tx, &self.task, self.message, place)?;
        if run.is_some() {
            self.task.updated = tx.now();
            self.task.save(tx)?;
        }
        Ok(row)
    }

    pub(super) fn receipt(
        &self,
        input: &InputRow,
        run: RunId,
        outcome: InputOutcome,
    ) -> InputReceipt {
        InputReceipt { input: input.id, task: self.task.id, run, outcome, deduped: false }
    }
}

/// Brings a message where its mode says. `target` is the run that was named, if it has not ended.
pub(crate) fn deliver(
    tx: &mut Tx<'_>,
    task: Locked<TaskRow>,
    target: Option<RunId>,
    message: &IncomingMessage<'_>,
) -> Result<InputReceipt, EngineError> {
    let settings = settings(tx, &task, message)?;
    let active = match target {
        Some(run) => Some(run),
        None => run::live_of_task(tx, task.id)?.first().map(|run| run.id),
    };
    let active = match active {
        Some(id) => run::lock(tx, id)?,
        None => None,
    };
    let situation = match &active {
        Some(run) => situation(tx, run)?,
        None => InputTargetState::Closed,
    };
    let action = settings.mode.route(situation);
    let mut arrival = Arrival { task, message, mode: settings.mode, settings };
    let Some(active) = active else { return restart(tx, &mut arrival) };
    match action {
        // A task below another one stays one: what it may do is bounded by the run above it.
        InputAction::QueueNewTask if arrival.task.parent_task_id.is_some() => {
            wait(tx, &mut arrival, &active, InputAction::QueueSameTask)
        }
        InputAction::Reject => {
            let what = format!("task {}", arrival.task.id);
            Err(RequestError::Busy { what, until: None }.into())
        }
        InputAction::Restart => restart(tx, &mut arrival),
        InputAction::Deliver => direct(tx, &mut arrival, active),
        InputAction::QueueNewTask => queue_new_task(tx, &arrival),
        InputAction::Interrupt => interrupt::interrupt(tx, &mut arrival, active),
        InputAction::Rollback => interrupt::roll_back(tx, &mut arrival, active),
        InputAction::Steer
        | InputAction::Collect
        | InputAction::QueueSameTask
        | InputAction::QueueAsFallback => wait(tx, &mut arrival, &active, action),
    }
}

/// The message waits for its time; too many of them and some give way.
fn wait(
    tx: &mut Tx<'_>,
    arrival: &mut Arrival<'_>,
    active: &RunRow,
    action: InputAction,
) -> Result<InputReceipt, EngineError> {
    // What can refuse comes before what is written.
    let footing = follow_up::footing(tx, &arrival.task, arrival.message.command.policy.as_ref())?;
    let dropped = overflow::make_room(tx, arrival, active)?;
    let receipt = match action {
        InputAction::Steer => steer(tx, arrival, active.id)?,
        InputAction::Collect => collect::collect(tx, arrival, &footing)?,
        _ => {
            let receipt = follow(tx, arrival, &footing, action.outcome())?;
            if action == InputAction::QueueAsFallback {
                let InputReceipt { input, run, .. } = receipt;
                let redirected = SteerFallback::Redirected { input, run };
                append_if_live(tx, active.id, DurableEvent::SteerFallback(redirected))?;
            }
            receipt
        }
    };
    overflow::summarize(tx, &arrival.task, dropped)?;
    Ok(receipt)
}

/// How a message is treated: what the call says, else its session, else its agent.
fn settings(
    tx: &mut Tx<'_>,
    task: &TaskRow,
    message: &IncomingMessage<'_>,
) -> Result<InputQueueSettings, EngineError> {
    let agent = match agent::latest(tx, &task.namespace, &task.agent)? {
        Some(row) => serde_json::from_str::<AgentConfig>(&row.config)?.queue,
        None => InputQueueOverride::default(),
    };
    let session = session::get(tx, &task.namespace, &task.session_id)?.and_then(|row| row.queue);
    let session: InputQueueOverride =
        session.map(|text| serde_json::from_str(&text)).transpose()?.unwrap_or_default();
    let settings = message.defaults.with(&[agent, session, message.queue]);
    settings.validate()?;
    Ok(settings)
}

/// What a message finds at a run.
fn situation(tx: &mut Tx<'_>, run: &RunRow) -> Result<InputTargetState, EngineError> {
    let waiting = usize::from(input_row::waits_for_run(tx, run.id)?);
    let takes_steering = run.cancel_requested.is_none();
    Ok(InputTargetState::of(run_state(run)?, waiting, takes_steering))
}

/// Appends an event to a run that has not ended, and stores the run.
pub(super) fn append_if_live(
    tx: &mut Tx<'_>,
    id: RunId,
    event: DurableEvent,
) -> Result<(), EngineError> {
    // Its row may have changed since it was last read.
    if let Some(mut row) = run::lock(tx, id)?
        && !run_state(&row)?.is_terminal()
    {
        event::append_event(tx, &mut row, event)?;
        row.save(tx)?;
    }
    Ok(())
}

/// The run had ended: a new one of the same task begins with the message.
fn restart(tx: &mut Tx<'_>, arrival: &mut Arrival<'_>) -> Result<InputReceipt, EngineError> {
    let footing = follow_up::footing(tx, &arrival.task, arrival.message.command.policy.as_ref())?;
    arrival.task.archived = None;
    follow(tx, arrival, &footing, InputOutcome::Restarted)
}

/// A run of its own for the message, behind what is being done.
pub(super) fn follow(
    tx: &mut Tx<'_>,
    arrival: &mut Arrival<'_>,
    footing: &follow_up::Footing,
    outcome: InputOutcome,
) -> Result<InputReceipt, EngineError> {
    let row = arrival.insert(tx, outcome, None)?;
    let command = arrival.message.command;
    if command.deadline.is_some() {
        arrival.task.deadline = command.deadline;
    }
    submit::set_budget(tx, &arrival.task, command)?;
    let start = follow_up::Start {
        id: command.run_id.unwrap_or_else(|| tx.id()),
        not_before: tx.now().after(command.delay()),
        command,
        rank: None,
    };
    let run = {
        let inputs = std::slice::from_ref(&row);
        follow_up::start(tx, &mut arrival.task, footing, &start, inputs)?
    };
    Ok(arrival.receipt(&row, run, outcome))
}

/// Into the running turn, at its next boundary.
fn steer(
    tx: &mut Tx<'_>,
    arrival: &mut Arrival<'_>,
    run: RunId,
) -> Result<InputReceipt, EngineError> {
    let outcome = InputOutcome::Steered;
    let row = arrival.insert(tx, outcome, Some(run))?;
    append_if_live(tx, run, DurableEvent::InputSteered(InputSteered { input: row.id }))?;
    tx.hint(Hint::Input(run));
    Ok(arrival.receipt(&row, run, outcome))
}

/// The run waits for exactly this.
fn direct(
    tx: &mut Tx<'_>,
    arrival: &mut Arrival<'_>,
    mut run: Locked<RunRow>,
) -> Result<InputReceipt, EngineError> {
    let outcome = InputOutcome::Direct;
    let row = arrival.insert(tx, outcome, Some(run.id))?;
    let message = message::get(tx, row.message_id)?;
    if approval::answer_in_words(tx, &run, &message.text(), "input")? {
        // The words are the answer; whatever else came with them is read at the next boundary.
        if message.parts.iter().all(|part| part.as_text().is_some()) {
            input_row::set_state(tx, row.id, InputState::Consumed.as_str())?;
        }
        return Ok(arrival.receipt(&row, run.id, outcome));
    }
    move_run(&mut run, RunTransition::Woken)?;
    let now = tx.now();
    queue::schedule(tx, &mut run, now)?;
    let received = InputReceived { input: row.id };
    event::append_event(tx, &mut run, DurableEvent::InputReceived(received))?;
    run.save(tx)?;
    arrival.task.waiting_for = None;
    move_task(tx, &mut arrival.task, TaskTransition::InputDelivered)?;
    queue::refresh(tx, &run.namespace, &run.session_id)?;
    Ok(arrival.receipt(&row, run.id, outcome))
}

/// A task of its own in the same session, behind the running one.
fn queue_new_task(tx: &mut Tx<'_>, arrival: &Arrival<'_>) -> Result<InputReceipt, EngineError> {
    let Arrival { task, message, .. } = arrival;
    let namespace: Namespace = word(&task.namespace)?;
    let command = provost_core::command::TaskRequest {
        agent: Some(task.agent.clone()),
        session_id: Some(word(&task.session_id)?),
        session_key: None,
        ..message.command.clone()
    };
    let encoded = EncodedMessage::new(&command, tx.now())?;
    let message = IncomingMessage { command: &command, encoded: &encoded, ..**message };
    let ids = NewIds::draw(tx, &command);
    let new = NewTask { namespace: &namespace, ids, message: &message, parent: None };
    let accepted = submit::create_task(tx, &new)?;
    Ok(InputReceipt {
        input: accepted.input,
        task: accepted.task,
        run: accepted.run,
        outcome: InputOutcome::Queued,
        deduped: false,
    })
}
