//! The tool calls of one turn: concurrency, order and early end.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::stream::{self, StreamExt};
use provost_core::{EventKind, ToolResult};
use tracing::Instrument;

use super::Driver;
use super::tool_call::{CallEnd, ToolCallOutcome};
use crate::driver::telemetry;
use crate::error::Error;
use crate::run::{JournalEntry, ToolCallRequest};

/// The result of a call that was skipped because a user message arrived first.
const SKIPPED_RESULT: &str = "This call was skipped: the user said something before it started. Read that first; call it again \
     if it is still needed.";

impl Driver {
    /// Runs the calls and applies each result when it arrives. The conversation keeps the order of the calls.
    ///
    /// A user message that arrives meanwhile never stops a running call. Batches that have not started are skipped.
    pub(super) async fn call_tools(&mut self, requests: Vec<ToolCallRequest>) -> Result<(), Error> {
        let span = telemetry::execute_tools(requests.len());
        let mut batches = self.split_batches(requests).into_iter();
        let Some(first) = batches.next() else { return Ok(()) };
        self.call_batch(first).instrument(span.clone()).await?;
        while let Some(batch) = batches.next() {
            if self.take_new_messages().await? {
                let unstarted = std::iter::once(batch).chain(batches).flatten();
                return self.skip_calls(unstarted);
            }
            self.call_batch(batch).instrument(span.clone()).await?;
        }
        Ok(())
    }

    /// Adds the messages that arrived since the last batch. Returns true if there were any.
    async fn take_new_messages(&mut self) -> Result<bool, Error> {
        let before = self.run.queued_message_count();
        self.add_pending_messages().await?;
        Ok(self.run.queued_message_count() > before)
    }

    /// Records an error result for calls that are not run.
    fn skip_calls(
        &mut self,
        unstarted: impl Iterator<Item = ToolCallRequest>,
    ) -> Result<(), Error> {
        for request in unstarted {
            let result = ToolResult::error(&request.call, SKIPPED_RESULT);
            self.cx.events.emit(EventKind::ToolFinished {
                result: Box::new(result.clone()),
                duration: Duration::ZERO,
            });
            let result = Box::new(result);
            self.apply_entry(JournalEntry::ToolFinished {
                result,
                invalid_arguments: false,
                at: self.now(),
            })?;
        }
        Ok(())
    }

    /// Groups calls that may run concurrently. An exclusive call forms its own batch.
    fn split_batches(&self, requests: Vec<ToolCallRequest>) -> Vec<Vec<ToolCallRequest>> {
        let mut batches: Vec<Vec<ToolCallRequest>> = Vec::new();
        let mut open = false;
        let one_by_one = self.cx.definition.parallel_tools == 1;
        for request in requests {
            let alone = one_by_one
                || self
                    .offered_tools
                    .find(&request.call.name)
                    .is_some_and(|tool| tool.spec().exclusive);
            match batches.last_mut() {
                Some(batch) if open && !alone => batch.push(request),
                _ => batches.push(vec![request]),
            }
            open = !alone;
        }
        batches
    }

    /// Runs the calls of one batch concurrently and applies their results. Dropping the future stops the tools.
    async fn call_batch(&mut self, mut batch: Vec<ToolCallRequest>) -> Result<(), Error> {
        // A single call is the common case and needs no concurrent stream.
        if batch.len() == 1
            && let Some(only) = batch.pop()
        {
            let outcome = self.cx.call(&self.offered_tools, only).await;
            return self.apply_outcome(outcome);
        }
        let (cx, offered_tools) = (Arc::clone(&self.cx), self.offered_tools.clone());
        // Boxed, because the future of a call is large and is moved three times before it runs.
        let calls: Vec<_> =
            batch.into_iter().map(|request| cx.call(&offered_tools, request).boxed()).collect();
        let mut running = stream::iter(calls).buffer_unordered(cx.definition.parallel_tools);
        while let Some(outcome) = running.next().await {
            self.apply_outcome(outcome)?;
        }
        Ok(())
    }

    /// Applies the outcome of one call to the run. Returns an error if the outcome ends the run.
    fn apply_outcome(&mut self, outcome: ToolCallOutcome) -> Result<(), Error> {
        let ToolCallOutcome { effective, fault, end } = outcome;
        self.record_state()?;
        self.count_children()?;
        match end {
            CallEnd::Result(result) => {
                let result = Box::new(result);
                self.apply_entry(JournalEntry::ToolFinished {
                    result,
                    invalid_arguments: fault,
                    at: self.now(),
                })?;
            }
            CallEnd::NeedsApproval(request) => {
                let (effective, request) = (Box::new(effective), Box::new(request));
                self.apply_entry(JournalEntry::ApprovalNeeded {
                    prepared_call: effective,
                    request,
                })?;
            }
            CallEnd::Stopped(error) => return Err(error.into()),
            CallEnd::Fatal(error) => {
                return Err(Error::Tool { tool: effective.name, error });
            }
        }
        Ok(())
    }
}
