//! The tool calls of one turn: how many at once, in which order, and what ends them early.

use futures::FutureExt;
use futures::stream::{self, StreamExt};
use provost_core::StopReason;

use super::Driver;
use super::model_call::sleep_until;
use super::span;
use super::tool_call::{CallEnd, CallOutcome};
use crate::error::Error;
use crate::run::CallTicket;
use tracing::Instrument;

impl Driver {
    /// Runs calls and feeds each result back as it comes; history keeps call order by itself.
    pub(super) async fn call_tools(&mut self, tickets: Vec<CallTicket>) -> Result<(), Error> {
        let span = span::execute_tools(tickets.len());
        for batch in self.batches(tickets) {
            match self.call_batch(batch).instrument(span.clone()).await {
                Ok(None) => {}
                Ok(Some(reason)) => {
                    self.run.stop(None, reason, self.now());
                    return Ok(());
                }
                Err(error) => {
                    self.run.stop(None, StopReason::Cancelled, self.now());
                    return Err(error);
                }
            }
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

    /// Runs one batch. `Some` says that the run was stopped; dropping the calls stops the tools.
    async fn call_batch(&mut self, batch: Vec<CallTicket>) -> Result<Option<StopReason>, Error> {
        let (cx, toolbox) = (std::sync::Arc::clone(&self.cx), self.toolbox.clone());
        let deadline = self.deadline();
        // Boxed, because a call is a large future and is moved three times before it runs.
        let calls: Vec<_> =
            batch.into_iter().map(|ticket| cx.call(&toolbox, ticket).boxed()).collect();
        let mut running = stream::iter(calls).buffer_unordered(cx.core.parallel_tools);
        let cancelled = cx.control.cancel.cancelled();
        let out_of_time = sleep_until(deadline);
        tokio::pin!(cancelled, out_of_time);
        loop {
            let next = tokio::select! {
                biased;
                () = &mut cancelled => return Ok(Some(StopReason::Cancelled)),
                () = &mut out_of_time => return Ok(Some(StopReason::Limit)),
                next = running.next() => next,
            };
            let Some(outcome) = next else { return Ok(None) };
            self.take(outcome)?;
        }
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
