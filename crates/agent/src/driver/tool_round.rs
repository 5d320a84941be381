//! The tool calls of one turn: how many at once, in which order, and what ends them early.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::stream::{self, StreamExt};
use provost_core::{EventKind, ToolResult};
use tracing::Instrument;

use super::Driver;
use super::tool_call::{CallEnd, CallOutcome};
use crate::driver::telemetry;
use crate::error::Error;
use crate::run::{CallTicket, Feed};

/// The result of a call that was not started because the user's side said something first.
const SKIPPED_RESULT: &str = "This call was skipped: the user said something before it started. Read that first; call it again \
     if it is still needed.";

impl Driver {
    /// Runs calls and feeds each result back as it comes; history keeps call order by itself.
    ///
    /// What is said meanwhile never stops a call that runs; calls that wait for their turn are not run any more.
    pub(super) async fn call_tools(&mut self, tickets: Vec<CallTicket>) -> Result<(), Error> {
        let span = telemetry::execute_tools(tickets.len());
        let mut batches = self.batches(tickets).into_iter();
        let Some(first) = batches.next() else { return Ok(()) };
        self.call_batch(first).instrument(span.clone()).await?;
        while let Some(batch) = batches.next() {
            if self.hears_news().await? {
                let unstarted = std::iter::once(batch).chain(batches).flatten();
                return self.skip(unstarted);
            }
            self.call_batch(batch).instrument(span.clone()).await?;
        }
        Ok(())
    }

    /// Takes in what was said since the last boundary; true if there was something.
    async fn hears_news(&mut self) -> Result<bool, Error> {
        let before = self.run.unheard();
        self.hear_all().await?;
        Ok(self.run.unheard() > before)
    }

    /// Gives a result to calls that are not run.
    fn skip(&mut self, unstarted: impl Iterator<Item = CallTicket>) -> Result<(), Error> {
        for ticket in unstarted {
            let result = ToolResult::error(&ticket.call, SKIPPED_RESULT);
            self.cx.queue.emit(EventKind::ToolFinished {
                result: Box::new(result.clone()),
                duration: Duration::ZERO,
            });
            let result = Box::new(result);
            self.feed(Feed::ToolFinished { result, fault: false, at: self.now() })?;
        }
        Ok(())
    }

    /// Calls that may run together; one that must run alone is a batch of its own.
    fn batches(&self, tickets: Vec<CallTicket>) -> Vec<Vec<CallTicket>> {
        let mut batches: Vec<Vec<CallTicket>> = Vec::new();
        let mut open = false;
        let one_by_one = self.cx.core.parallel_tools == 1;
        for ticket in tickets {
            let alone = one_by_one
                || self.toolbox.find(&ticket.call.name).is_some_and(|tool| tool.spec().exclusive);
            match batches.last_mut() {
                Some(batch) if open && !alone => batch.push(ticket),
                _ => batches.push(vec![ticket]),
            }
            open = !alone;
        }
        batches
    }

    /// Runs one batch. Dropping the future stops the tools.
    async fn call_batch(&mut self, mut batch: Vec<CallTicket>) -> Result<(), Error> {
        // Nearly always there is one, and that one needs no crowd.
        if batch.len() == 1
            && let Some(only) = batch.pop()
        {
            let outcome = self.cx.call(&self.toolbox, only).await;
            return self.take(outcome);
        }
        let (cx, toolbox) = (Arc::clone(&self.cx), self.toolbox.clone());
        // Boxed, because a call is a large future and is moved three times before it runs.
        let calls: Vec<_> =
            batch.into_iter().map(|ticket| cx.call(&toolbox, ticket).boxed()).collect();
        let mut running = stream::iter(calls).buffer_unordered(cx.core.parallel_tools);
        while let Some(outcome) = running.next().await {
            self.take(outcome)?;
        }
        Ok(())
    }

    fn take(&mut self, outcome: CallOutcome) -> Result<(), Error> {
        let CallOutcome { effective, fault, end } = outcome;
        self.note_state()?;
        self.count_children()?;
        match end {
            CallEnd::Result(result) => {
                let result = Box::new(result);
                self.feed(Feed::ToolFinished { result, fault, at: self.now() })?;
            }
            CallEnd::NeedsApproval(request) => {
                let (effective, request) = (Box::new(effective), Box::new(request));
                self.feed(Feed::ApprovalNeeded { effective, request })?;
            }
            CallEnd::Stopped(error) => return Err(error.into()),
            CallEnd::Fatal(error) => {
                return Err(Error::Tool { tool: effective.name, error });
            }
        }
        Ok(())
    }
}
