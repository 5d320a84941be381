//! Calls about runs.

use std::time::Duration;

use provost_core::{InputId, RunId};

use super::stream::{EventStream, Watch};
use super::tasks::After;
use super::wait::Patience;
use super::{ApiError, Call, Client};
use crate::{
    Attempt, Cancelled, Delivery, Fork, Forked, InputReceipt, Interaction, NewInput, Page, Paging,
    PendingInput, Replay, Run, RunEvent, RunList, Snapshot, Step, Waited,
};

impl Client {
    /// Runs, newest first.
    pub async fn runs(&self, list: &RunList) -> Result<Page<Run>, ApiError> {
        self.call(Call::get(self.path("runs")).query(list)?).await
    }

    /// A run as it stands.
    pub async fn run(&self, id: RunId) -> Result<Run, ApiError> {
        self.call(Call::get(self.run_path(id, ""))).await
    }

    /// Ends a run.
    pub async fn cancel_run(&self, id: RunId) -> Result<Cancelled, ApiError> {
        self.call(Call::post(self.run_path(id, "/cancel"))).await
    }

    /// Lets a run go on that waits for an operator.
    pub async fn resume_run(&self, id: RunId) -> Result<Run, ApiError> {
        self.call(Call::post(self.run_path(id, "/resume"))).await
    }

    /// Says something to a run.
    pub async fn tell_run(&self, id: RunId, input: &NewInput) -> Result<InputReceipt, ApiError> {
        let call = Call::post(self.run_path(id, "/inputs"));
        self.call(call.key(input.idempotency_key.as_deref())?.body(input)?).await
    }

    /// What was said to a run and nobody has read.
    pub async fn run_inputs(
        &self,
        id: RunId,
        list: &Paging,
    ) -> Result<Page<PendingInput>, ApiError> {
        self.call(Call::get(self.run_path(id, "/inputs")).query(list)?).await
    }

    /// Takes back what was said, if nobody has read it.
    pub async fn withdraw_input(&self, id: RunId, input: InputId) -> Result<(), ApiError> {
        self.done(Call::delete(self.run_path(id, &format!("/inputs/{input}")))).await
    }

    /// What can be said to a run now.
    pub async fn interaction(&self, id: RunId) -> Result<Interaction, ApiError> {
        self.call(Call::get(self.run_path(id, "/interaction"))).await
    }

    /// The journal of a run, oldest step first.
    pub async fn steps(&self, id: RunId, list: &Paging) -> Result<Page<Step>, ApiError> {
        self.call(Call::get(self.run_path(id, "/steps")).query(list)?).await
    }

    /// The tries of a run, oldest first.
    pub async fn attempts(&self, id: RunId, list: &Paging) -> Result<Page<Attempt>, ApiError> {
        self.call(Call::get(self.run_path(id, "/attempts")).query(list)?).await
    }

    /// How a run changed and how it stood then.
    pub async fn snapshots(&self, id: RunId, list: &Paging) -> Result<Page<Snapshot>, ApiError> {
        self.call(Call::get(self.run_path(id, "/snapshots")).query(list)?).await
    }

    /// The durable events of a run behind a cursor; `next` of the page goes on.
    pub async fn run_events(
        &self,
        id: RunId,
        after: Option<&str>,
        limit: Option<u64>,
    ) -> Result<Page<RunEvent>, ApiError> {
        self.call(Call::get(self.run_path(id, "/events")).query(&After { after, limit })?).await
    }

    /// What happens in a run from its beginning or behind a cursor, whatever the connection does.
    pub fn watch_run(&self, id: RunId, watch: Watch) -> EventStream {
        EventStream::new(self.clone(), self.run_path(id, "/stream"), watch)
    }

    /// What happens in the whole namespace.
    pub fn watch_all(&self, watch: Watch) -> EventStream {
        EventStream::new(self.clone(), self.path("stream"), watch)
    }

    /// Waits until a run is over, but not longer than this. Waiting out never stops it.
    pub async fn wait_run(&self, id: RunId, timeout: Duration) -> Result<Waited, ApiError> {
        self.call(Call::get(self.run_path(id, "/wait")).query(&Patience::of(timeout))?).await
    }

    /// Makes a new run that shares the first steps of this one.
    pub async fn fork(&self, id: RunId, fork: &Fork) -> Result<Forked, ApiError> {
        let call = Call::post(self.run_path(id, "/fork"));
        self.call(call.key(fork.idempotency_key.as_deref())?.body(fork)?).await
    }

    /// Reads a run once more from its journal, without doing anything, and says whether everything fits together.
    pub async fn replay(&self, id: RunId) -> Result<Replay, ApiError> {
        self.call(Call::get(self.run_path(id, "/replay"))).await
    }

    /// Where the answers of a run go.
    pub async fn run_deliveries(
        &self,
        id: RunId,
        list: &Paging,
    ) -> Result<Page<Delivery>, ApiError> {
        self.call(Call::get(self.run_path(id, "/deliveries")).query(list)?).await
    }

    fn run_path(&self, id: RunId, rest: &str) -> String {
        self.path(&format!("runs/{id}{rest}"))
    }
}
