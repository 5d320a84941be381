//! Requests for runs.

use std::time::Duration;

use provost_core::{InputId, RunId};

use super::stream::{EventStream, WatchOptions};
use super::tasks::EventQuery;
use super::wait::WaitQuery;
use super::{ApiError, Client, RequestBuilder};
use crate::{
    Attempt, CancelReceipt, Delivery, ForkReceipt, ForkRequest, InputReceipt, NewInput, Page,
    PageQuery, PendingInput, ReplayReport, Run, RunEvent, RunInteraction, RunQuery, RunTransition,
    Step, WaitResult,
};

impl Client {
    /// Lists runs, newest first.
    pub async fn runs(&self, query: &RunQuery) -> Result<Page<Run>, ApiError> {
        self.call(RequestBuilder::get(self.path("runs")).query(query)?).await
    }

    /// Returns a run.
    pub async fn run(&self, id: RunId) -> Result<Run, ApiError> {
        self.call(RequestBuilder::get(self.run_path(id, ""))).await
    }

    /// Requests the cancellation of a run and its children. The receipt states whether it was already over.
    pub async fn cancel_run(&self, id: RunId) -> Result<CancelReceipt, ApiError> {
        self.call(RequestBuilder::post(self.run_path(id, "/cancel"))).await
    }

    /// Resumes a run that waits for an operator.
    pub async fn resume_run(&self, id: RunId) -> Result<Run, ApiError> {
        self.call(RequestBuilder::post(self.run_path(id, "/resume"))).await
    }

    /// Sends a message to a run. If the run has ended, its task receives the message.
    pub async fn send_input_to_run(
        &self,
        id: RunId,
        input: &NewInput,
    ) -> Result<InputReceipt, ApiError> {
        let request = RequestBuilder::post(self.run_path(id, "/inputs"));
        self.call(request.idempotency_key(input.idempotency_key.as_deref())?.body(input)?).await
    }

    /// Lists the messages that a run has not read yet.
    pub async fn run_inputs(
        &self,
        id: RunId,
        query: &PageQuery,
    ) -> Result<Page<PendingInput>, ApiError> {
        self.call(RequestBuilder::get(self.run_path(id, "/inputs")).query(query)?).await
    }

    /// Deletes a message that the run has not read yet.
    pub async fn delete_input(&self, id: RunId, input: InputId) -> Result<(), ApiError> {
        let path = self.run_path(id, &format!("/inputs/{input}"));
        self.call_without_result(RequestBuilder::delete(path)).await
    }

    /// Returns whether a run accepts messages and what it waits for.
    pub async fn run_interaction(&self, id: RunId) -> Result<RunInteraction, ApiError> {
        self.call(RequestBuilder::get(self.run_path(id, "/interaction"))).await
    }

    /// Lists the steps of a run's journal, oldest first.
    pub async fn run_steps(&self, id: RunId, query: &PageQuery) -> Result<Page<Step>, ApiError> {
        self.call(RequestBuilder::get(self.run_path(id, "/steps")).query(query)?).await
    }

    /// Lists the attempts of a run, oldest first.
    pub async fn run_attempts(
        &self,
        id: RunId,
        query: &PageQuery,
    ) -> Result<Page<Attempt>, ApiError> {
        self.call(RequestBuilder::get(self.run_path(id, "/attempts")).query(query)?).await
    }

    /// Lists the state changes of a run, oldest first.
    pub async fn run_transitions(
        &self,
        id: RunId,
        query: &PageQuery,
    ) -> Result<Page<RunTransition>, ApiError> {
        self.call(RequestBuilder::get(self.run_path(id, "/snapshots")).query(query)?).await
    }

    /// Lists the durable events of a run after a cursor. The `next` value of the page is the next cursor.
    pub async fn run_events(
        &self,
        id: RunId,
        after: Option<&str>,
        limit: Option<u64>,
    ) -> Result<Page<RunEvent>, ApiError> {
        let request = RequestBuilder::get(self.run_path(id, "/events"));
        self.call(request.query(&EventQuery { after, limit })?).await
    }

    /// Opens the event stream of a run. The stream reconnects after a lost connection.
    pub fn watch_run(&self, id: RunId, options: WatchOptions) -> EventStream {
        EventStream::new(self.clone(), self.run_path(id, "/stream"), options)
    }

    /// Opens the event stream of the namespace. The stream reconnects after a lost connection.
    pub fn watch_namespace(&self, options: WatchOptions) -> EventStream {
        EventStream::new(self.clone(), self.path("stream"), options)
    }

    /// Waits in one request until a run ends or the timeout elapses. A timeout does not affect the run.
    pub async fn poll_run(&self, id: RunId, timeout: Duration) -> Result<WaitResult, ApiError> {
        let request = RequestBuilder::get(self.run_path(id, "/wait"));
        self.call(request.query(&WaitQuery::new(timeout))?).await
    }

    /// Creates a run that shares the first steps of another run.
    pub async fn fork_run(&self, id: RunId, fork: &ForkRequest) -> Result<ForkReceipt, ApiError> {
        let request = RequestBuilder::post(self.run_path(id, "/fork"));
        self.call(request.idempotency_key(fork.idempotency_key.as_deref())?.body(fork)?).await
    }

    /// Replays a run from its journal and compares the results. The replay has no effects.
    pub async fn replay_run(&self, id: RunId) -> Result<ReplayReport, ApiError> {
        self.call(RequestBuilder::get(self.run_path(id, "/replay"))).await
    }

    /// Lists the deliveries of a run's answer.
    pub async fn run_deliveries(
        &self,
        id: RunId,
        query: &PageQuery,
    ) -> Result<Page<Delivery>, ApiError> {
        self.call(RequestBuilder::get(self.run_path(id, "/deliveries")).query(query)?).await
    }

    /// Returns the path of a run, followed by `rest`.
    fn run_path(&self, id: RunId, rest: &str) -> String {
        self.path(&format!("runs/{id}{rest}"))
    }
}
