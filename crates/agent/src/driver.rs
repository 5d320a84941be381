//! The driver of a run: takes the next step from the state machine and executes it.
//!
//! All side effects of a run happen here: model calls, tool calls through the guard, hooks, session commits and
//! events. The driver decides nothing; [`Run`](crate::run::Run) does.

mod ask;
mod authorize;
mod cancel;
mod children;
mod compaction;
mod effects;
/// Ends the run: waits for the team, stops the children, lets hooks change the summary, and returns the result.
mod finish;
mod handoff;
mod journal;
mod model_call;
mod offered_tools;
mod policy_limits;
mod session;
mod setup;
mod shared_state;
mod start;
mod team;
pub(crate) mod telemetry;
mod tool_call;
mod tool_round;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use provost_core::{
    EventKind, LimitKind, LimitReached, Message, Role, RunId, RunSummary, StopReason, Timestamp,
    Usage,
};
use provost_model::ResponseAccumulator;
use tokio::time::Instant;
use tracing::Instrument;

use self::session::RunSession;
pub(crate) use self::setup::DriverContext;
use crate::agent::AgentDefinition;
use crate::budget::UsageBudget;
use crate::control::{RunControl, UserInput};
use crate::driver::cancel::run_until;
use crate::driver::compaction::ContextTokens;
use crate::driver::finish::{empty_summary, outcome_summary, terminal_event};
use crate::driver::offered_tools::OfferedTools;
use crate::driver::start::{Started, start};
use crate::error::Error;
use crate::hook::RunEnd;
use crate::outcome::{RunOutcome, RunResult, SuspendedRun};
use crate::run::{ApplyResult, JournalEntry, Run, Step};
use crate::run_builder::{ContextPreview, RunOptions, RunSource};
use crate::stream::{EventBuffer, EventReader};

/// The source, the options and the services of a run before it starts.
pub(crate) struct PreparedRun {
    pub(crate) definition: Arc<AgentDefinition>,
    pub(crate) run_id: RunId,
    pub(crate) source: RunSource,
    pub(crate) options: RunOptions,
    pub(crate) events: Arc<EventBuffer>,
    /// `None` if the events are discarded or sent to the parent run.
    pub(crate) reader: Option<EventReader>,
    pub(crate) control: Arc<RunControl>,
    pub(crate) budget: Arc<UsageBudget>,
}

/// Drives a run until it ends. Emits exactly one terminal event and, if the run started, calls `after_run` exactly
/// once. A panic becomes an error.
pub(crate) async fn drive(prepared: Box<PreparedRun>) -> Result<RunOutcome, Error> {
    let span = crate::driver::telemetry::invoke_agent(&prepared);
    async move {
        let (source, cx) = setup::into_source_and_context(prepared);
        let input = source.input_text();
        let outcome = AssertUnwindSafe(run_to_outcome(&cx, source, &input)).catch_unwind().await;
        let outcome = outcome.unwrap_or_else(|panic| Err(Error::Bug(panic_text(&*panic))));
        let mut outcome = outcome.and_then(|outcome| cx.check_output(outcome));
        // Releases everything that the run started, whatever its outcome.
        cx.close_descendants().await;
        cx.close_team(&outcome).await;
        let unanswered = cx.control.close();
        if unanswered > 0 {
            let message = format!(
                "the run ended before {unanswered} message(s) could be answered: say them again"
            );
            cx.events.emit(EventKind::Warning { message });
        }
        let error = outcome.as_ref().err().map(Error::info);
        let summary = match &outcome {
            Ok(outcome) if !cx.hooks.is_empty() => outcome_summary(outcome),
            _ => None,
        };
        let duration = cx.env.now().since(cx.started_at);
        let end =
            RunEnd { input: &input, summary: summary.as_ref(), error: error.as_ref(), duration };
        if AssertUnwindSafe(cx.hooks.after_run(&end)).catch_unwind().await.is_err() {
            let message = "a hook panicked after the run".to_owned();
            cx.events.emit(EventKind::Warning { message });
        }
        crate::driver::telemetry::close_run(&outcome);
        if let Ok(RunOutcome::Suspended(suspended)) = &mut outcome {
            // The terminal event takes one number; a resumed run continues with the number after it.
            suspended.next_seq = cx.events.next_seq() + 1;
        }
        cx.events.emit_with(|| terminal_event(&outcome));
        outcome
    }
    .instrument(span)
    .await
}

/// Returns the context of the first model call. Commits the user's message to the session only if `commit` is true.
pub(crate) async fn preview(
    prepared: Box<PreparedRun>,
    commit: bool,
) -> Result<ContextPreview, Error> {
    let (source, cx) = setup::into_source_and_context(prepared);
    let base = cx.load_shared(&source).await?;
    let mut driver = setup::open::open(&cx, source, base).await?;
    if commit {
        driver.save().await?;
    }
    Ok(ContextPreview { system: driver.system.clone(), messages: driver.run.context().to_vec() })
}

/// Calls the first hooks, starts the run and drives it to its outcome.
async fn run_to_outcome(
    cx: &Arc<DriverContext>,
    source: RunSource,
    input: &str,
) -> Result<RunOutcome, Error> {
    let is_resumed = source.existing().is_some();
    cx.events.emit(EventKind::RunStarted { resumed: is_resumed });
    // The deadline of a resumed run is known only after its state is opened.
    let wall = if is_resumed { None } else { cx.limits().wall };
    let deadline = wall.and_then(|wall| Instant::now().checked_add(wall));
    let entering = Box::pin(async {
        cx.hooks.before_run(input).await;
        start(cx, source, input).await
    });
    // If a hook, store or instruction provider hangs, stopping here loses nothing: no step has run yet.
    match run_until(&cx.control.cancel, deadline, entering).await {
        Ok(entered) => match entered? {
            Started::Running(mut driver) => {
                let outcome = driver.run().await;
                // After a handoff, the active agent may lead a team of its own, which also ends with the run.
                if !Arc::ptr_eq(cx, &driver.cx) && cx.relations.membership.is_none() {
                    driver.cx.close_descendants().await;
                    driver.cx.close_team(&outcome).await;
                }
                outcome
            }
            Started::Finished(outcome) => Ok(*outcome),
        },
        Err(StopReason::Limit) => Err(time_limit_error(wall, "all of it before the first step")),
        Err(_) => Ok(RunOutcome::Cancelled(RunSummary {
            stop: StopReason::Cancelled,
            ..empty_summary(cx)
        })),
    }
}

/// Creates the error of a run that reached its time limit without a result.
fn time_limit_error(wall: Option<Duration>, used: &str) -> Error {
    let allowed = format!("{}s", wall.unwrap_or_default().as_secs_f64());
    Error::Limit(LimitReached { limit: LimitKind::Wall, allowed, used: used.to_owned() })
}

/// Returns the message of a panic, for the bug report.
fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("the run panicked: {}", text.unwrap_or_else(|| "without a message".to_owned()))
}

/// Returns a function that creates the error of a hook at a point.
pub(crate) fn hook_error(point: &'static str) -> impl FnOnce(crate::hook::HookError) -> Error {
    move |error| Error::Hook { point, error }
}

/// A started run with its conversation, session and tools.
struct Driver {
    cx: Arc<DriverContext>,
    run: Run,
    system: Option<Arc<str>>,
    session: Option<RunSession>,
    /// The tools of the current turn. Only a tool that was offered can run.
    offered_tools: OfferedTools,
    ledger: ContextTokens,
    /// Accumulates the response that is streaming in, so that an interruption can keep the part that arrived.
    accumulator: Option<ResponseAccumulator>,
    /// Usage of a complete response that hooks have not accepted yet. The inner `None` means that the provider did
    /// not report usage.
    unreviewed_usage: Option<Option<Usage>>,
    /// True while hooks check a message to the run.
    is_reviewing_input: bool,
    limit_emitted: bool,
    /// The last known stored values of the shared state.
    shared_base: crate::driver::shared_state::SharedStateSnapshot,
}

/// Result of one step.
enum StepResult {
    Continue,
    Suspend,
    Finish,
}

/// Rare branches are boxed to keep the future of a common step small.
impl Driver {
    /// Executes steps until the run ends or is suspended, and saves the session after each step.
    async fn run(&mut self) -> Result<RunOutcome, Error> {
        let cancel = self.cx.control.cancel.clone();
        loop {
            if cancel.is_cancelled() {
                return Box::pin(self.cancel()).await;
            }
            // A finished run needs no deadline; without this check the timeout could end it a second time.
            let deadline = if self.run.is_done() { None } else { self.deadline() };
            match run_until(&cancel, deadline, self.execute_step()).await {
                Ok(next) => match next? {
                    StepResult::Continue => {}
                    StepResult::Suspend if Box::pin(self.keep_team()).await? => {
                        self.keep_children().await?;
                        return self.suspend().await;
                    }
                    StepResult::Suspend => {}
                    StepResult::Finish => return Box::pin(self.finish()).await,
                },
                Err(reason) => self.interrupt(reason)?,
            }
            if self.run.is_checkpointable() {
                self.save().await?;
            }
        }
    }

    /// Executes the next step. The future may be dropped at any await: completed work is already recorded in the run.
    async fn execute_step(&mut self) -> Result<StepResult, Error> {
        self.between_steps().await?;
        match self.next_step()? {
            Step::CallModel { turn, without_tools } => {
                let mut spent = self.cx.budget.exhausted_parent();
                if spent.is_none() && self.cx.shared_guard.has_policy() {
                    spent = Box::pin(self.check_policy()).await?;
                }
                match spent {
                    None => self.call_model(turn, without_tools).await?,
                    Some(reached) => self.stop_at_limit(reached)?,
                }
            }
            Step::CallTools(tickets) => {
                self.call_tools(tickets).await?;
                self.save_shared_state().await?;
            }
            Step::Handoff { to } => Box::pin(self.handoff(&to)).await?,
            Step::AskLimit(question) => Box::pin(self.ask_limit(question)).await?,
            Step::CheckOutput(raw) => self.check_output(&raw)?,
            Step::AwaitApprovals(_) => return Ok(StepResult::Suspend),
            Step::Done => match self.follow_up() {
                Some(input) => Box::pin(self.add_message(input)).await?,
                None => return Ok(StepResult::Finish),
            },
        }
        Ok(StepResult::Continue)
    }

    /// Waits for the reader and while the run is paused, then adds the messages that arrived. Runs only between steps,
    /// never between a call and its result.
    async fn between_steps(&mut self) -> Result<(), Error> {
        self.cx.events.wait_until_read().await;
        if self.cx.control.is_paused() && !self.run.is_done() {
            self.cx.events.emit(EventKind::Paused);
            self.cx.control.wait_until_unpaused().await;
            self.cx.events.emit(EventKind::Unpaused);
        }
        if !self.run.accepts_input() {
            return Ok(());
        }
        self.add_pending_messages().await?;
        self.add_team_messages().await
    }

    /// Adds all pending messages to the run: from the handle and from the journal.
    async fn add_pending_messages(&mut self) -> Result<(), Error> {
        while let Some(input) = self.cx.control.take_steering() {
            Box::pin(self.add_message(input)).await?;
        }
        self.add_journal_messages().await
    }

    /// Adds a user message to an active run. Hooks check it; a denied message is dropped with a warning.
    async fn add_message(&mut self, mut input: UserInput) -> Result<(), Error> {
        self.is_reviewing_input = true;
        let checked = self.cx.check_message(&mut input).await;
        self.is_reviewing_input = false;
        if let Err(error) = checked {
            let message = format!("a message was refused: {error}");
            self.cx.events.emit(EventKind::Warning { message });
            return Ok(());
        }
        let message = Arc::new(Message::new(Role::User, input.0, self.now()));
        self.cx.events.emit(EventKind::UserMessage { message: Arc::clone(&message) });
        self.apply_entry(JournalEntry::UserMessage { message })?;
        Ok(())
    }

    /// Checks an output against the output type, and returns an invalid output to the model if retries are left.
    fn check_output(&mut self, raw: &str) -> Result<(), Error> {
        let spec = self.cx.definition.output.as_ref();
        let check = spec.map_or(Ok(()), |spec| spec.check(raw));
        let problem = check.as_ref().err().cloned();
        let feed = JournalEntry::OutputChecked { problem: check.err(), at: self.now() };
        let again = self.apply_entry(feed)? == ApplyResult::OutputRejected(true);
        if let (Some(reason), true) = (problem, again) {
            let retries_left = self.run.output_retries_left();
            self.cx.events.emit(EventKind::OutputRejected { reason, retries_left });
        }
        Ok(())
    }

    /// Removes and returns a message that arrived for a run that ended normally, so that the run continues. `None` if
    /// there is none.
    fn follow_up(&self) -> Option<UserInput> {
        let ended = self.run.ended_normally();
        ended.then(|| self.cx.control.take_follow_up_or_close()).flatten()
    }

    async fn finish(&mut self) -> Result<RunOutcome, Error> {
        if let Some(outcome) = Box::pin(self.leave_team()).await? {
            return Ok(outcome);
        }
        self.close_children().await?;
        let mut summary = self.run.summary(self.now());
        if let Some(reached) = &summary.limit {
            self.emit_limit_reached(reached.clone());
        }
        // After the deadline, hooks still see the run, without a time limit. Before it, hooks share the remaining
        // time.
        let deadline = self.deadline().filter(|deadline| *deadline > Instant::now());
        let hooks = &self.cx.hooks;
        let cancel = &self.cx.control.cancel;
        match run_until(cancel, deadline, hooks.after_agent(&mut summary)).await {
            Ok(done) => done.map_err(hook_error("after_agent"))?,
            Err(StopReason::Limit) => {
                return Err(time_limit_error(self.run.config().limits.wall, "all of it"));
            }
            Err(_) => return self.cancel().await,
        }
        let mut result = RunResult::new(self.cx.run_id, summary, self.run.new_messages().to_vec());
        result.state = self.cx.state.snapshot();
        let outcome = self.cx.check_output(RunOutcome::Completed(result))?;
        self.record_state()?;
        self.save_shared_state().await?;
        // Saved last, so that a run whose last step fails leaves the session unchanged.
        self.save().await?;
        Ok(outcome)
    }

    /// Emits the event of a limit, unless it was already emitted.
    fn emit_limit_reached(&mut self, reached: LimitReached) {
        if !std::mem::replace(&mut self.limit_emitted, true) {
            self.cx.events.emit(EventKind::LimitReached(Box::new(reached)));
        }
    }

    /// Records the state, and returns the run as a suspended run.
    async fn suspend(&mut self) -> Result<RunOutcome, Error> {
        self.record_state()?;
        self.save_shared_state().await?;
        self.apply_entry(JournalEntry::Suspended {
            state: self.cx.state.snapshot(),
            at: self.now(),
        })?;
        let session = self.session.as_ref().map(RunSession::session_revision);
        let next_seq = self.cx.events.next_seq();
        Ok(RunOutcome::Suspended(SuspendedRun {
            run: Box::new(self.run.clone()),
            session,
            next_seq,
        }))
    }

    /// Returns the time of the run's environment.
    fn now(&self) -> Timestamp {
        self.cx.env.now()
    }
}
