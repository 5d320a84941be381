//! The one driver: asks the machine for the next step and performs it.
//!
//! Everything a run does to the world happens here: model calls, tools through the guard, hooks, session commits, events.
//! What to do is never decided here; that is [`Run`](crate::run::Run)'s part.

mod ask;
mod authorize;
mod bounds;
mod cancel;
mod children;
mod compaction;
mod effects;
mod finish;
mod handoff;
mod journal;
mod model_call;
mod offered_tools;
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
use provost_model::Fold;
use tokio::time::Instant;
use tracing::Instrument;

use self::session::BoundSession;
pub(crate) use self::setup::Cx;
use crate::agent::AgentCore;
use crate::budget::Pot;
use crate::control::{Control, UserInput};
use crate::driver::cancel::run_until;
use crate::driver::compaction::TokenLedger;
use crate::driver::finish::{empty_summary, summary_of, terminal_event};
use crate::driver::offered_tools::Toolbox;
use crate::driver::start::{Entered, enter};
use crate::error::Error;
use crate::hook::RunEnd;
use crate::outcome::{Outcome, RunResult, Suspended};
use crate::run::{Fed, Feed, Run, Step};
use crate::run_builder::{ContextPreview, RunOptions, RunSource};
use crate::stream::{EventQueue, EventReader};

/// Everything that is known before a run starts.
pub(crate) struct Prepared {
    pub(crate) core: Arc<AgentCore>,
    pub(crate) run_id: RunId,
    pub(crate) source: RunSource,
    pub(crate) options: RunOptions,
    pub(crate) queue: Arc<EventQueue>,
    /// None if the events are discarded, or read with those of the parent run.
    pub(crate) reader: Option<EventReader>,
    pub(crate) control: Arc<Control>,
    pub(crate) pot: Arc<Pot>,
}

/// Drives a run to its end. Ends with exactly one terminal event and, if it began, exactly one `after_run`.
pub(crate) async fn drive(prepared: Box<Prepared>) -> Result<Outcome, Error> {
    let span = crate::driver::telemetry::invoke_agent(&prepared);
    async move {
        let (source, cx) = setup::split(prepared);
        let input = source.input_text();
        let outcome = AssertUnwindSafe(live(&cx, source, &input)).catch_unwind().await;
        let outcome = outcome.unwrap_or_else(|panic| Err(Error::Bug(panic_text(&*panic))));
        let mut outcome = outcome.and_then(|outcome| cx.check_answer(outcome));
        // However it ended: nothing that it started is left behind.
        cx.close_below().await;
        cx.close_team(&outcome).await;
        let unanswered = cx.control.close();
        if unanswered > 0 {
            let message = format!(
                "the run ended before {unanswered} message(s) could be answered: say them again"
            );
            cx.queue.emit(EventKind::Warning { message });
        }
        let error = outcome.as_ref().err().map(Error::info);
        let summary = outcome.as_ref().ok().and_then(summary_of);
        let duration = cx.env.now().since(cx.started_at);
        let end = RunEnd { input: &input, summary, error: error.as_ref(), duration };
        if AssertUnwindSafe(cx.hooks.after_run(&end)).catch_unwind().await.is_err() {
            let message = "a hook panicked after the run".to_owned();
            cx.queue.emit(EventKind::Warning { message });
        }
        crate::driver::telemetry::close_run(&outcome);
        if let Ok(Outcome::Suspended(suspended)) = &mut outcome {
            // The terminal event of this life comes before the first of the next.
            suspended.next_seq = cx.queue.next_seq() + 1;
        }
        cx.queue.emit_with(|| terminal_event(&outcome));
        outcome
    }
    .instrument(span)
    .await
}

/// The context of the first model call; commits the user's message only if asked to.
pub(crate) async fn preview(
    prepared: Box<Prepared>,
    commit: bool,
) -> Result<ContextPreview, Error> {
    let (source, cx) = setup::split(prepared);
    let base = cx.load_shared(&source).await?;
    let mut driver = setup::open::open(&cx, source, base).await?;
    if commit {
        driver.save().await?;
    }
    Ok(ContextPreview { system: driver.system.clone(), messages: driver.run.context().to_vec() })
}

async fn live(cx: &Arc<Cx>, source: RunSource, input: &str) -> Result<Outcome, Error> {
    let goes_on = source.existing().is_some();
    cx.queue.emit(EventKind::RunStarted { resumed: goes_on });
    // A suspended run has its own deadline, which is known once it is open.
    let wall = if goes_on { None } else { cx.limits().wall };
    let deadline = wall.and_then(|wall| Instant::now().checked_add(wall));
    let entering = Box::pin(async {
        cx.hooks.before_run(input).await;
        enter(cx, source, input).await
    });
    // If a hook, a store or an instruction provider hangs, nothing has happened yet that must be kept.
    match run_until(&cx.control.cancel, deadline, entering).await {
        Ok(entered) => match entered? {
            Entered::Ready(mut driver) => {
                let outcome = driver.run().await;
                // Another agent had the conversation last: the team that it leads ends with the run, too.
                if !Arc::ptr_eq(cx, &driver.cx) && cx.relations.seat.is_none() {
                    driver.cx.close_below().await;
                    driver.cx.close_team(&outcome).await;
                }
                outcome
            }
            Entered::Over(outcome) => Ok(*outcome),
        },
        Err(StopReason::Limit) => Err(no_time(wall, "all of it before the first step")),
        Err(_) => {
            Ok(Outcome::Cancelled(RunSummary { stop: StopReason::Cancelled, ..empty_summary(cx) }))
        }
    }
}

/// The time was over where a run has nothing to show.
fn no_time(wall: Option<Duration>, used: &str) -> Error {
    let allowed = format!("{}s", wall.unwrap_or_default().as_secs_f64());
    Error::Limit(LimitReached { limit: LimitKind::Wall, allowed, used: used.to_owned() })
}

/// What a panic says, for whoever finds the defect.
fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("the run panicked: {}", text.unwrap_or_else(|| "without a message".to_owned()))
}

pub(crate) fn hook_error(point: &'static str) -> impl FnOnce(crate::hook::HookError) -> Error {
    move |error| Error::Hook { point, error }
}

/// One run being driven.
struct Driver {
    cx: Arc<Cx>,
    run: Run,
    system: Option<Arc<str>>,
    session: Option<BoundSession>,
    /// The tools of the current turn: what was offered is what can run.
    toolbox: Toolbox,
    ledger: TokenLedger,
    /// The answer that is arriving: here, so that an interruption finds what had come.
    fold: Option<Fold>,
    /// What a complete answer used that hooks have not let pass yet; the inner `None` if the provider does not say.
    unseen: Option<Option<Usage>>,
    /// True while hooks look at something that was said to the run.
    hears: bool,
    limit_told: bool,
    /// What is stored of what outlives the run, as far as it knows.
    shared_base: crate::driver::shared_state::SharedBase,
}

/// What follows a step.
enum Next {
    GoOn,
    Suspend,
    Finish,
}

/// Ways that few steps take are boxed: the common step is a small future.
impl Driver {
    async fn run(&mut self) -> Result<Outcome, Error> {
        let cancel = self.cx.control.cancel.clone();
        loop {
            if cancel.is_cancelled() {
                return Box::pin(self.cancel()).await;
            }
            // What ends by itself needs no time limit; and the clock must not end it twice.
            let deadline = if self.run.is_done() { None } else { self.deadline() };
            match run_until(&cancel, deadline, self.perform()).await {
                Ok(next) => match next? {
                    Next::GoOn => {}
                    Next::Suspend if Box::pin(self.keep_team()).await? => {
                        self.keep_children().await?;
                        return self.suspend().await;
                    }
                    Next::Suspend => {}
                    Next::Finish => return Box::pin(self.finish()).await,
                },
                Err(reason) => self.interrupt(reason)?,
            }
            if self.run.is_settled() {
                self.save().await?;
            }
        }
    }

    /// Performs the next step. It may be dropped at any await: what it had achieved by then is in the run.
    async fn perform(&mut self) -> Result<Next, Error> {
        self.safe_point().await?;
        match self.next_step()? {
            Step::CallModel { turn, without_tools } => {
                let mut spent = self.cx.pot.spent_above();
                if spent.is_none() && self.cx.shared_guard.is_governed() {
                    spent = Box::pin(self.spent_by_policy()).await?;
                }
                match spent {
                    None => self.call_model(turn, without_tools).await?,
                    Some(reached) => self.stop_at(reached)?,
                }
            }
            Step::CallTools(tickets) => {
                self.call_tools(tickets).await?;
                self.keep_shared().await?;
            }
            Step::HandOff { to } => Box::pin(self.hand_off(&to)).await?,
            Step::AskLimit(question) => Box::pin(self.ask_limit(question)).await?,
            Step::CheckOutput(raw) => self.check_output(&raw)?,
            Step::Wait(_) => return Ok(Next::Suspend),
            Step::Done => match self.follow_up() {
                Some(input) => Box::pin(self.hear(input)).await?,
                None => return Ok(Next::Finish),
            },
        }
        Ok(Next::GoOn)
    }

    /// Where a run may be paused and where steering enters: never between a call and its result.
    async fn safe_point(&mut self) -> Result<(), Error> {
        self.cx.queue.taken().await;
        if self.cx.control.is_paused() && !self.run.is_done() {
            self.cx.queue.emit(EventKind::Paused);
            self.cx.control.unpaused().await;
            self.cx.queue.emit(EventKind::Unpaused);
        }
        if !self.run.can_hear() {
            return Ok(());
        }
        self.hear_all().await?;
        self.hear_team().await
    }

    /// Takes in what was said, wherever that is kept.
    async fn hear_all(&mut self) -> Result<(), Error> {
        while let Some(input) = self.cx.control.take_steering() {
            Box::pin(self.hear(input)).await?;
        }
        self.hear_journal().await
    }

    /// Takes in what the user's side says while the run lives. Hooks see it like any message; a refused one is left out.
    async fn hear(&mut self, mut input: UserInput) -> Result<(), Error> {
        self.hears = true;
        let checked = self.cx.check_message(&mut input).await;
        self.hears = false;
        if let Err(error) = checked {
            let message = format!("a message was refused: {error}");
            self.cx.queue.emit(EventKind::Warning { message });
            return Ok(());
        }
        let message = Arc::new(Message::new(Role::User, input.0, self.now()));
        self.cx.queue.emit(EventKind::UserMessage { message: Arc::clone(&message) });
        self.feed(Feed::UserSaid { message })?;
        Ok(())
    }

    fn check_output(&mut self, raw: &str) -> Result<(), Error> {
        let spec = self.cx.core.output.as_ref();
        let check = spec.map_or(Ok(()), |spec| spec.check(raw));
        let problem = check.as_ref().err().cloned();
        let feed = Feed::OutputChecked { problem: check.err(), at: self.now() };
        let again = self.feed(feed)? == Fed::SentBack(true);
        if let (Some(reason), true) = (problem, again) {
            let retries_left = self.run.output_retries_left();
            self.cx.queue.emit(EventKind::OutputRejected { reason, retries_left });
        }
        Ok(())
    }

    /// What was said meanwhile to a run that ended by itself, so that it goes on.
    fn follow_up(&self) -> Option<UserInput> {
        let ended = self.run.ended_by_itself();
        ended.then(|| self.cx.control.take_follow_up_or_close()).flatten()
    }

    async fn finish(&mut self) -> Result<Outcome, Error> {
        if let Some(outcome) = Box::pin(self.leave_team()).await? {
            return Ok(outcome);
        }
        self.close_children().await?;
        let mut summary = self.run.summary(self.now());
        if let Some(reached) = &summary.limit {
            self.tell_limit(reached.clone());
        }
        // A run whose time was over is still shown to the hooks; others share the time that is left.
        let deadline = self.deadline().filter(|deadline| *deadline > Instant::now());
        let hooks = &self.cx.hooks;
        let cancel = &self.cx.control.cancel;
        match run_until(cancel, deadline, hooks.after_agent(&mut summary)).await {
            Ok(done) => done.map_err(hook_error("after_agent"))?,
            Err(StopReason::Limit) => {
                return Err(no_time(self.run.config().limits.wall, "all of it"));
            }
            Err(_) => return self.cancel().await,
        }
        let outcome = self.cx.check_answer(Outcome::Done(RunResult {
            output: summary.text.clone(),
            run_id: self.cx.run_id,
            summary,
            messages: self.run.produced().to_vec(),
            state: self.cx.state.snapshot(),
        }))?;
        self.note_state()?;
        self.keep_shared().await?;
        // Last, so that a turn that failed after all leaves no trace in the session.
        self.save().await?;
        Ok(outcome)
    }

    /// Tells about a limit, once.
    fn tell_limit(&mut self, reached: LimitReached) {
        if !std::mem::replace(&mut self.limit_told, true) {
            self.cx.queue.emit(EventKind::LimitReached(Box::new(reached)));
        }
    }

    async fn suspend(&mut self) -> Result<Outcome, Error> {
        self.note_state()?;
        self.keep_shared().await?;
        self.feed(Feed::Suspended { state: self.cx.state.snapshot(), at: self.now() })?;
        let session = self.session.as_ref().map(BoundSession::point);
        let next_seq = self.cx.queue.next_seq();
        Ok(Outcome::Suspended(Suspended { run: Box::new(self.run.clone()), session, next_seq }))
    }

    fn now(&self) -> Timestamp {
        self.cx.env.now()
    }
}
