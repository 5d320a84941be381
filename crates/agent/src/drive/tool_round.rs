//! The tool calls of one turn: how many at once, in which order, and what ends them early.

use std::sync::Arc;

use futures::FutureExt;
use futures::stream::{self, StreamExt};
use tracing::Instrument;

use super::tool_call::{CallEnd, CallOutcome};
use super::{Driver, span};
use crate::error::Error;
use crate::run::CallTicket;

impl Driver {
    /// Runs calls and feeds each result back as it comes; history keeps call order by itself.
    pub(super) async fn call_tools(&mut self, tickets: Vec<CallTicket>) -> Result<(), Error> {
        let span = span::execute_tools(tickets.len());
        for batch in self.batches(tickets) {
            self.call_batch(batch).instrument(span.clone()).await?;
        }
        Ok(())
    }

    /// Calls that may run together; one that must run alone is a batch of its own.
    fn batches(&self, tickets: Vec<CallTicket>) -> Vec<Vec<CallTicket>> {
        let mut batches: Vec<Vec<CallTicket>> = Vec::new();
        let mut open = false;
        for ticket in tickets {
            let alone =
                self.toolbox.find(&ticket.call.name).is_some_and(|tool| tool.spec().exclusive);
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
        if fault {
            self.run.argument_fault(&effective.name);
        }
        match end {
            CallEnd::Result(result) => self.run.tool_finished(result, self.now())?,
            CallEnd::NeedsApproval(request) => {
                self.run.tool_prepared(&effective.id, effective.clone())?;
                self.run.tool_needs_approval(request)?;
            }
            CallEnd::Fatal(error) => {
                return Err(Error::Tool { tool: effective.name, error });
            }
        }
        Ok(())
    }
}
