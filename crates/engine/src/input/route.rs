//! Routing of messages: applies the decision table of the queue modes.

use provost_core::RunId;
use provost_core::durable::{DurableEvent, InputReceived, InputSteered, SteerFallback};
use provost_core::lifecycle::{
    InputOutcome, InputTransition, RequestError, RunTransition, TaskTransition,
};
use provost_core::resource::AgentSpec;
use provost_core::scheduling::{
    InputAction, InputMode, InputQueueOverride, InputQueueSettings, InputTargetState,
};
use provost_store::table::governance::agent;
use provost_store::table::work::input::InputRow;
use provost_store::table::work::run::{self, RunRow};
use provost_store::table::work::task::TaskRow;
use provost_store::table::work::{input as input_row, session};
use provost_store::{Locked, Tx, Wakeup};

use super::{
    EncodedMessage, IncomingMessage, InputAssignment, InputReceipt, collect, insert, interrupt,
    overflow,
};
use crate::approval;
use crate::error::EngineError;
use crate::input::follow_up;
use crate::run::event;
use crate::run::lifecycle::{transition_input, transition_run, try_transition_task};
use crate::submit::queue;
use crate::submit::{self, NewIds, NewTask};
use provost_store::table::work::stored_message as message;

/// A message whose task and queue settings are known.
pub(super) struct RoutedInput<'a> {
    pub(super) task: Locked<TaskRow>,
    pub(super) message: &'a IncomingMessage<'a>,
    pub(super) mode: InputMode,
    pub(super) settings: InputQueueSettings,
}

impl RoutedInput<'_> {
    /// Stores the message as an input of the task, and assigns it to `run` if one is given.
    pub(super) fn insert(
        &mut self,
        tx: &mut Tx<'_>,
        outcome: InputOutcome,
        run: Option<RunId>,
    ) -> Result<InputRow, EngineError> {
        let assignment = InputAssignment { mode: self.mode, outcome, run };
        let row = insert(tx, &self.task, self.message, assignment)?;
        if run.is_some() {
            self.task.updated = tx.now();
            self.task.save(tx)?;
        }
        Ok(row)
    }

    /// Returns the receipt of a stored input.
    pub(super) fn receipt(
        &self,
        input: &InputRow,
        run: RunId,
        outcome: InputOutcome,
    ) -> InputReceipt {
        InputReceipt { input: input.id, task: self.task.id, run, outcome, deduped: false }
    }
}

/// Routes a message by its mode. `target` is the named run, if it has not ended. Fails if the mode rejects messages to
/// an active run.
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
    let target_state = match &active {
        Some(run) => target_state(tx, run)?,
        None => InputTargetState::Closed,
    };
    let action = settings.mode.route(target_state);
    let mut routed = RoutedInput { task, message, mode: settings.mode, settings };
    let Some(active) = active else { return restart(tx, &mut routed) };
    match action {
        // A child task gets no sibling task, because the parent run limits its policy.
        InputAction::QueueNewTask if routed.task.parent_task_id.is_some() => {
            enqueue(tx, &mut routed, &active, InputAction::QueueSameTask)
        }
        InputAction::Reject => {
            let what = format!("task {}", routed.task.id);
            Err(RequestError::Busy { what, until: None }.into())
        }
        InputAction::Restart => restart(tx, &mut routed),
        InputAction::Deliver => deliver_to_waiting_run(tx, &mut routed, active),
        InputAction::QueueNewTask => queue_new_task(tx, &routed),
        InputAction::Interrupt => interrupt::interrupt(tx, &mut routed, active),
        InputAction::Rollback => interrupt::roll_back(tx, &mut routed, active),
        InputAction::Steer
        | InputAction::Collect
        | InputAction::QueueSameTask
        | InputAction::QueueAsFallback => enqueue(tx, &mut routed, &active, action),
    }
}

/// Queues a message, and applies the overflow policy.
fn enqueue(
    tx: &mut Tx<'_>,
    routed: &mut RoutedInput<'_>,
    active: &RunRow,
    action: InputAction,
) -> Result<InputReceipt, EngineError> {
    // Checks that can reject the message run before the first write.
    let follow_up_context =
        follow_up::follow_up_context(tx, &routed.task, routed.message.command.policy.as_ref())?;
    let dropped = overflow::apply_overflow_policy(tx, routed, active)?;
    let receipt = match action {
        InputAction::Steer => steer(tx, routed, active.id)?,
        InputAction::Collect => collect::collect(tx, routed, &follow_up_context)?,
        _ => {
            let receipt = queue_as_follow_up(tx, routed, &follow_up_context, action.outcome())?;
            if action == InputAction::QueueAsFallback {
                let InputReceipt { input, run, .. } = receipt;
                let redirected = SteerFallback::Redirected { input, run };
                append_if_live(tx, active.id, DurableEvent::SteerFallback(redirected))?;
            }
            receipt
        }
    };
    overflow::summarize(tx, &routed.task, dropped)?;
    Ok(receipt)
}

/// Returns the queue settings of a message: those of the request, then of its session, then of its agent.
fn settings(
    tx: &mut Tx<'_>,
    task: &TaskRow,
    message: &IncomingMessage<'_>,
) -> Result<InputQueueSettings, EngineError> {
    let agent = match agent::latest(tx, &task.namespace, &task.agent)? {
        Some(row) => AgentSpec::from_stored(&row.config)?.queue,
        None => InputQueueOverride::default(),
    };
    let session = session::get(tx, &task.namespace, &task.session_id)?.and_then(|row| row.queue);
    let session: InputQueueOverride =
        session.map(|text| serde_json::from_str(&text)).transpose()?.unwrap_or_default();
    let settings = message.defaults.with(&[agent, session, message.queue]);
    settings.validate()?;
    Ok(settings)
}

/// Returns the state of a run from the view of a new message.
fn target_state(tx: &mut Tx<'_>, run: &RunRow) -> Result<InputTargetState, EngineError> {
    let waiting = usize::from(input_row::has_pending(tx, run.id)?);
    let takes_steering = run.cancel_requested.is_none();
    Ok(InputTargetState::of(run.state()?, waiting, takes_steering))
}

/// Appends an event to a run and saves the run. Does nothing if the run has ended.
pub(super) fn append_if_live(
    tx: &mut Tx<'_>,
    id: RunId,
    event: DurableEvent,
) -> Result<(), EngineError> {
    // Its row may have changed since it was last read.
    if let Some(mut row) = run::lock(tx, id)?
        && !row.state()?.is_terminal()
    {
        event::append_event(tx, &mut row, event)?;
        row.save(tx)?;
    }
    Ok(())
}

/// Starts a new run of a task whose runs have ended.
fn restart(tx: &mut Tx<'_>, routed: &mut RoutedInput<'_>) -> Result<InputReceipt, EngineError> {
    let follow_up_context =
        follow_up::follow_up_context(tx, &routed.task, routed.message.command.policy.as_ref())?;
    routed.task.archived = None;
    queue_as_follow_up(tx, routed, &follow_up_context, InputOutcome::Restarted)
}

/// Creates a run for the message, to start after all other runs of the task. The task takes over the deadline and the
/// budget of the message.
pub(super) fn queue_as_follow_up(
    tx: &mut Tx<'_>,
    routed: &mut RoutedInput<'_>,
    follow_up_context: &follow_up::FollowUpContext,
    outcome: InputOutcome,
) -> Result<InputReceipt, EngineError> {
    let row = routed.insert(tx, outcome, None)?;
    let command = routed.message.command;
    if command.deadline.is_some() {
        routed.task.deadline = command.deadline;
    }
    submit::set_budget(tx, &routed.task, command)?;
    let start = follow_up::FollowUpRun {
        id: command.run_id.unwrap_or_else(|| tx.id()),
        not_before: tx.now().after(command.delay()),
        command,
        rank: None,
    };
    let run = {
        let inputs = std::slice::from_ref(&row);
        follow_up::start(tx, &mut routed.task, follow_up_context, &start, inputs)?
    };
    Ok(routed.receipt(&row, run, outcome))
}

/// Adds the message to the running turn, at its next step boundary.
fn steer(
    tx: &mut Tx<'_>,
    routed: &mut RoutedInput<'_>,
    run: RunId,
) -> Result<InputReceipt, EngineError> {
    let outcome = InputOutcome::Steered;
    let row = routed.insert(tx, outcome, Some(run))?;
    append_if_live(tx, run, DurableEvent::InputSteered(InputSteered { input: row.id }))?;
    tx.wake(Wakeup::Input(run));
    Ok(routed.receipt(&row, run, outcome))
}

/// Resumes a run that waits for a message, or answers the question of the run.
fn deliver_to_waiting_run(
    tx: &mut Tx<'_>,
    routed: &mut RoutedInput<'_>,
    mut run: Locked<RunRow>,
) -> Result<InputReceipt, EngineError> {
    let outcome = InputOutcome::Direct;
    let row = routed.insert(tx, outcome, Some(run.id))?;
    let message = message::get(tx, row.message_id)?;
    if approval::answer_text(tx, &run, &message.text(), "input")? {
        // The text is the answer. The run reads other parts at its next step boundary.
        if message.parts.iter().all(|part| part.as_text().is_some()) {
            transition_input(tx, &row, InputTransition::Answered)?;
        }
        return Ok(routed.receipt(&row, run.id, outcome));
    }
    transition_run(&mut run, RunTransition::Woken)?;
    let now = tx.now();
    queue::schedule(tx, &mut run, now)?;
    let received = InputReceived { input: row.id };
    event::append_event(tx, &mut run, DurableEvent::InputReceived(received))?;
    run.save(tx)?;
    routed.task.waiting_for = None;
    let _applied = try_transition_task(tx, &mut routed.task, TaskTransition::InputDelivered)?;
    queue::refresh(tx, &run.namespace, &run.session_id)?;
    Ok(routed.receipt(&row, run.id, outcome))
}

/// Creates a new task in the same session, after the running one.
fn queue_new_task(tx: &mut Tx<'_>, routed: &RoutedInput<'_>) -> Result<InputReceipt, EngineError> {
    let RoutedInput { task, message, .. } = routed;
    let namespace = task.namespace()?;
    let command = provost_core::command::TaskRequest {
        agent: Some(task.agent.clone()),
        session_id: Some(task.session()?),
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
