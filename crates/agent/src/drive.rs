//! The one driver: asks the machine for the next step and performs it.
//!
//! Everything a run does to the world happens here: model calls, tools through the guard, hooks, session commits, events.
//! What to do is never decided here; that is [`Run`](crate::run::Run)'s part.

mod ask;
mod fit;
mod model_call;
mod session;
mod setup;
mod span;
mod tool_call;
mod tool_round;
mod toolbox;

use std::sync::Arc;

use provost_core::{
    EventKind, LimitReached, Message, Role, RunId, RunSummary, StopReason, Timestamp,
};
use serde_json::Map;
use tracing::Instrument;

use self::fit::TokenLedger;
use self::session::BoundSession;
use self::setup::Cx;
use self::toolbox::Toolbox;
use crate::agent::AgentCore;
use crate::error::Error;
use crate::handle::{Control, UserInput};
use crate::hook::{Entry, RunEnd};
use crate::outcome::{Outcome, RunResult, Suspended};
use crate::request::{Begin, ContextPreview, RunOptions};
use crate::run::{Run, Step};
use crate::stream::EventQueue;

/// Everything that is known before a run starts.
pub(crate) struct Prepared {
    pub(crate) core: Arc<AgentCore>,
    pub(crate) run_id: RunId,
    pub(crate) begin: Begin,
    pub(crate) options: RunOptions,
    pub(crate) queue: Arc<EventQueue>,
    pub(crate) control: Arc<Control>,
}

/// Drives a run to its end. Ends with exactly one terminal event and, if it began, exactly one `after_run`.
pub(crate) async fn drive(prepared: Prepared) -> Result<Outcome, Error> {
    let span = span::invoke_agent(&prepared.core, prepared.run_id);
    async move {
        let (begin, cx) = setup::split(prepared);
        let started_at = cx.env.now();
        let input = setup::input_text(&begin);
        cx.hooks.before_run(&input).await;
        let outcome = live(&cx, begin, &input).await;
        let outcome = outcome.and_then(|outcome| cx.check_answer(outcome));
        let unanswered = cx.control.close();
        if unanswered > 0 {
            let message = format!(
                "the run ended before {unanswered} message(s) could be answered: say them again"
            );
            cx.queue.emit(EventKind::Warning { message });
        }
        let error = outcome.as_ref().err().map(Error::info);
        let summary = outcome.as_ref().ok().and_then(summary_of);
        let duration = cx.env.now().since(started_at);
        let end = RunEnd { input: &input, summary, error: error.as_ref(), duration };
        cx.hooks.after_run(&end).await;
        span::close_run(&outcome);
        cx.queue.emit(terminal_event(&outcome));
        outcome
    }
    .instrument(span)
    .await
}

/// The context of the first model call; commits the user's message only if asked to.
pub(crate) async fn preview(prepared: Prepared, commit: bool) -> Result<ContextPreview, Error> {
    let (begin, cx) = setup::split(prepared);
    let mut driver = setup::open(&cx, begin).await?;
    if commit {
        driver.save().await?;
    }
    Ok(ContextPreview { system: driver.system.clone(), messages: driver.run.context().to_vec() })
}

async fn live(cx: &Arc<Cx>, begin: Begin, input: &str) -> Result<Outcome, Error> {
    cx.queue.emit(EventKind::RunStarted { resumed: matches!(begin, Begin::Resume(_)) });
    let entered = tokio::select! {
        biased;
        entered = enter(cx, begin, input) => entered?,
        // A hook, a store or an instruction provider hangs: nothing has happened yet that must be kept.
        () = cx.control.cancel.cancelled() => {
            let summary = RunSummary { stop: StopReason::Cancelled, ..empty_summary(cx) };
            Entered::Over(Box::new(Outcome::Cancelled(summary)))
        }
    };
    match entered {
        Entered::Ready(driver) => driver.run().await,
        Entered::Over(outcome) => Ok(*outcome),
    }
}

/// How the way to the first step ended.
enum Entered {
    Ready(Box<Driver>),
    Over(Box<Outcome>),
}

async fn enter(cx: &Arc<Cx>, mut begin: Begin, input: &str) -> Result<Entered, Error> {
    let mut input = input.to_owned();
    if let Begin::Message(message) = &mut begin {
        cx.check_message(message).await?;
        input = message.text();
    }
    if !matches!(begin, Begin::Resume(_)) {
        match cx.hooks.before_agent(&input).await.map_err(hook_error("before_agent"))? {
            Entry::Go => {}
            Entry::Deny(reason) => {
                // Those who watch the end of agents see this one, too; there is nothing for them to change.
                let ignored = cx.hooks.after_agent(&mut empty_summary(cx)).await;
                drop(ignored);
                return Ok(Entered::Over(Box::new(Outcome::Denied { reason })));
            }
            Entry::Answer(text) => {
                return Ok(Entered::Over(Box::new(answer_at_once(cx, text).await)));
            }
        }
    }
    Ok(Entered::Ready(Box::new(setup::open(cx, begin).await?)))
}

async fn answer_at_once(cx: &Cx, text: String) -> Outcome {
    let summary = RunSummary { text: text.clone(), ..empty_summary(cx) };
    let ignored = cx.hooks.after_agent(&mut summary.clone()).await;
    drop(ignored);
    Outcome::Done(RunResult {
        output: text,
        run_id: cx.run_id,
        summary,
        messages: Vec::new(),
        state: Map::new(),
    })
}

fn empty_summary(cx: &Cx) -> RunSummary {
    RunSummary {
        text: String::new(),
        reasoning: String::new(),
        stop: StopReason::EndTurn,
        limit: None,
        pending_calls: Vec::new(),
        tool_results: Vec::new(),
        usage: provost_core::Usage::default(),
        cost: None,
        unpriced_calls: 0,
        turns: 0,
        tool_calls: 0,
        duration: std::time::Duration::ZERO,
        agent: cx.core.name.to_string(),
        response_id: None,
    }
}

fn summary_of(outcome: &Outcome) -> Option<&RunSummary> {
    match outcome {
        Outcome::Done(result) => Some(&result.summary),
        Outcome::Cancelled(summary) => Some(summary),
        Outcome::Suspended(_) | Outcome::Denied { .. } => None,
    }
}

fn terminal_event(outcome: &Result<Outcome, Error>) -> EventKind {
    match outcome {
        Ok(Outcome::Done(result)) => {
            EventKind::Finished { summary: Box::new(result.summary.clone()) }
        }
        Ok(Outcome::Suspended(suspended)) => {
            EventKind::Suspended { approvals: suspended.approvals().into_iter().cloned().collect() }
        }
        Ok(Outcome::Denied { reason }) => EventKind::Denied { reason: reason.clone() },
        Ok(Outcome::Cancelled(_)) => EventKind::Cancelled,
        Err(error) => EventKind::Failed { error: error.info() },
    }
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
    limit_told: bool,
}

impl Driver {
    async fn run(mut self) -> Result<Outcome, Error> {
        match self.steps().await {
            Ok(outcome) => Ok(outcome),
            Err(error) => {
                self.run.discard_unsaved();
                Err(error)
            }
        }
    }

    async fn steps(&mut self) -> Result<Outcome, Error> {
        loop {
            if self.cx.control.cancel.is_cancelled() {
                return self.cancel().await;
            }
            self.safe_point().await;
            let step = self.run.next_step(self.now());
            match step {
                Step::CallModel { turn, without_tools } => {
                    self.call_model(turn, without_tools).await?
                }
                Step::CallTools(tickets) => self.call_tools(tickets).await?,
                Step::AskLimit(question) => self.ask_limit(question).await?,
                Step::CheckOutput(raw) => self.check_output(&raw)?,
                Step::Wait(_) => return Ok(self.suspend()),
                Step::Done => {
                    if let Some(outcome) = self.finish().await? {
                        return Ok(outcome);
                    }
                }
            }
            if self.run.is_settled() {
                self.save().await?;
            }
        }
    }

    /// Where a run may be paused and where steering enters: never between a call and its result.
    async fn safe_point(&mut self) {
        self.cx.queue.taken().await;
        if self.cx.control.is_paused() {
            self.cx.queue.emit(EventKind::Paused);
            let deadline = self.deadline();
            tokio::select! {
                () = self.cx.control.cancel.cancelled() => return,
                // A pause does not stop the clock: the next step sees that the time is over.
                () = model_call::sleep_until(deadline) => {
                    self.run.stop(None, StopReason::Limit, self.now());
                }
                () = self.cx.control.unpaused() => {}
            }
            self.cx.queue.emit(EventKind::Unpaused);
        }
        if !self.run.can_hear() {
            return;
        }
        for input in self.cx.control.take_steering() {
            self.hear(input).await;
        }
    }

    /// Takes in what the user's side says while the run lives. Hooks see it like any message; a refused one is left out.
    async fn hear(&mut self, mut input: UserInput) {
        if let Err(error) = self.cx.check_message(&mut input).await {
            let message = format!("a message was refused: {error}");
            return self.cx.queue.emit(EventKind::Warning { message });
        }
        let message = Arc::new(Message::new(Role::User, input.0, self.now()));
        self.cx.queue.emit(EventKind::UserMessage { message: Arc::clone(&message) });
        self.run.user_said(message);
    }

    fn check_output(&mut self, raw: &str) -> Result<(), Error> {
        let spec = self.cx.core.output.as_ref();
        let check = spec.map_or(Ok(()), |spec| spec.check(raw));
        let problem = check.as_ref().err().cloned();
        let again = self.run.output_checked(check, self.now())?;
        if let (Some(reason), true) = (problem, again) {
            let retries_left = self.run.output_retries_left();
            self.cx.queue.emit(EventKind::OutputRejected { reason, retries_left });
        }
        Ok(())
    }

    /// The run ended by itself; `None` if something was said meanwhile and it goes on.
    async fn finish(&mut self) -> Result<Option<Outcome>, Error> {
        if self.run.ended_by_itself()
            && let Some(input) = self.cx.control.take_follow_up_or_close()
        {
            self.hear(input).await;
            return Ok(None);
        }
        self.save().await?;
        let mut summary = self.run.summary(self.now());
        if let Some(reached) = &summary.limit {
            self.tell_limit(reached.clone());
        }
        self.cx.hooks.after_agent(&mut summary).await.map_err(hook_error("after_agent"))?;
        Ok(Some(Outcome::Done(RunResult {
            output: summary.text.clone(),
            run_id: self.cx.run_id,
            summary,
            messages: self.run.produced().to_vec(),
            state: self.cx.state.snapshot(),
        })))
    }

    /// Tells about a limit, once.
    fn tell_limit(&mut self, reached: LimitReached) {
        if !std::mem::replace(&mut self.limit_told, true) {
            self.cx.queue.emit(EventKind::LimitReached(reached));
        }
    }

    fn suspend(&mut self) -> Outcome {
        self.run.set_state(self.cx.state.snapshot());
        let session = self.session.as_ref().map(BoundSession::point);
        Outcome::Suspended(Suspended { run: Box::new(self.run.clone()), session })
    }

    async fn cancel(&mut self) -> Result<Outcome, Error> {
        self.run.stop(None, StopReason::Cancelled, self.now());
        self.save().await?;
        Ok(Outcome::Cancelled(self.run.summary(self.now())))
    }

    fn now(&self) -> Timestamp {
        self.cx.env.now()
    }
}
