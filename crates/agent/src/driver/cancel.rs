//! Cancellation and timeout of a run. Both drop the future that the run waits for.

use std::time::Duration;

use provost_core::{EventKind, Role, StopReason};
use provost_model::{ModelResponse, ResponseAccumulator};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Driver;
use crate::error::Error;
use crate::outcome::RunOutcome;
use crate::run::JournalEntry;

/// Runs `work` until it completes, the run is cancelled or the deadline passes. If several happen at once, completed
/// work wins.
pub(super) async fn run_until<T>(
    cancel: &CancellationToken,
    deadline: Option<Instant>,
    work: impl Future<Output = T>,
) -> Result<T, StopReason> {
    tokio::select! {
        biased;
        done = work => Ok(done),
        () = cancel.cancelled() => Err(StopReason::Cancelled),
        () = wait_until(deadline) => Err(StopReason::Limit),
    }
}

/// Waits until the deadline. Never returns without one.
async fn wait_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

impl Driver {
    /// Ends the run at once, keeps a partial response, and emits the results of unfinished calls.
    pub(super) fn interrupt(&mut self, reason: StopReason) -> Result<(), Error> {
        let open = self.run.unfinished_calls();
        let produced = self.run.new_messages().len();
        let unheard = self.run.queued_message_count()
            + usize::from(std::mem::take(&mut self.is_reviewing_input));
        let partial = self.accumulator.take().map(ResponseAccumulator::into_interrupted);
        // A response that hooks have not accepted is discarded, but its usage counts.
        let unseen = self.unreviewed_usage.take().map(|used| ModelResponse {
            usage: used.unwrap_or_default(),
            usage_known: used.is_some(),
            ..ModelResponse::text("")
        });
        let partial = partial.or(unseen);
        let usage = partial.as_ref().map(|partial| partial.usage).unwrap_or_default();
        let cost = partial.as_ref().and_then(|partial| self.price(partial));
        let partial = partial.map(Box::new);
        self.apply_entry(JournalEntry::Stopped {
            partial,
            cost,
            reason,
            limit: None,
            at: self.now(),
        })?;
        for message in self.run.new_messages()[produced..].iter().cloned() {
            let finished = message.tool_results().filter(|result| open.contains(&result.call_id));
            for result in finished.cloned() {
                self.cx.events.emit(EventKind::ToolFinished {
                    result: Box::new(result),
                    duration: Duration::ZERO,
                });
            }
            if message.role == Role::Assistant {
                let turn = self.run.turns() + 1;
                self.cx.events.emit(EventKind::TurnFinished { turn, message, stop: reason, usage });
            }
        }
        if unheard > 0 {
            let message = format!("{unheard} message(s) came too late to be answered");
            self.cx.events.emit(EventKind::Warning { message });
        }
        Ok(())
    }

    /// Cancels the run: stops the children, saves the session, and returns the outcome.
    pub(super) async fn cancel(&mut self) -> Result<RunOutcome, Error> {
        self.interrupt(StopReason::Cancelled)?;
        self.close_children().await?;
        self.save().await?;
        Ok(RunOutcome::Cancelled(self.run.summary(self.now())))
    }
}
