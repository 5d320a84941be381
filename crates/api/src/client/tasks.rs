//! Calls about tasks.

use std::time::Duration;

use http::Method;
use provost_core::TaskId;
use serde::Serialize;

use super::stream::{EventStream, Watch};
use super::wait::Patience;
use super::{ApiError, Call, Client};
use crate::{
    Accepted, Cancelled, EventBatch, InputReceipt, LogEntry, NewInput, NewTask, Page, Paging,
    PendingInput, Run, Started, Task, TaskList, Waited,
};

/// Where to go on.
#[derive(Serialize)]
pub(super) struct After<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) after: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) limit: Option<u64>,
}

impl Client {
    /// Hands in a piece of work. When it returns, nothing can lose it.
    pub async fn submit(&self, task: &NewTask) -> Result<Accepted, ApiError> {
        let call = Call::post(self.path("tasks")).key(task.idempotency_key.as_deref())?;
        self.call(call.body(task)?).await
    }

    /// Tasks, newest first.
    pub async fn tasks(&self, list: &TaskList) -> Result<Page<Task>, ApiError> {
        self.call(Call::get(self.path("tasks")).query(list)?).await
    }

    /// A task as it stands.
    pub async fn task(&self, id: TaskId) -> Result<Task, ApiError> {
        self.call(Call::get(self.path(&format!("tasks/{id}")))).await
    }

    /// Ends a task and everything it started.
    pub async fn cancel_task(&self, id: TaskId) -> Result<Cancelled, ApiError> {
        self.call(Call::post(self.path(&format!("tasks/{id}/cancel")))).await
    }

    /// Puts a task away: lists leave it out unless they are asked.
    pub async fn archive_task(&self, id: TaskId) -> Result<Task, ApiError> {
        self.call(Call::post(self.path(&format!("tasks/{id}/archive")))).await
    }

    /// Answers a task that failed once more, with a new run.
    pub async fn retry_task(&self, id: TaskId) -> Result<Started, ApiError> {
        self.call(Call::post(self.path(&format!("tasks/{id}/retry")))).await
    }

    /// The runs of a task, newest first.
    pub async fn task_runs(&self, id: TaskId, list: &Paging) -> Result<Page<Run>, ApiError> {
        self.call(Call::get(self.path(&format!("tasks/{id}/runs"))).query(list)?).await
    }

    /// What was said in a task, behind a cursor; `next` of the page goes on.
    pub async fn task_logs(
        &self,
        id: TaskId,
        after: Option<&str>,
        limit: Option<u64>,
    ) -> Result<Page<LogEntry>, ApiError> {
        let path = self.path(&format!("tasks/{id}/logs"));
        self.call(Call::get(path).query(&After { after, limit })?).await
    }

    /// What is new about a task, for those who poll.
    pub async fn task_events(
        &self,
        id: TaskId,
        after: Option<&str>,
        limit: Option<u64>,
    ) -> Result<EventBatch, ApiError> {
        let path = self.path(&format!("tasks/{id}/events"));
        self.call(Call::get(path).query(&After { after, limit })?).await
    }

    /// What happens in a task from now on or behind a cursor, whatever the connection does.
    pub fn watch_task(&self, id: TaskId, watch: Watch) -> EventStream {
        EventStream::new(self.clone(), self.path(&format!("tasks/{id}/stream")), watch)
    }

    /// Waits until the run that answers for a task is over, but not longer than this. Waiting out never stops it.
    pub async fn wait_task(&self, id: TaskId, timeout: Duration) -> Result<Waited, ApiError> {
        let path = self.path(&format!("tasks/{id}/wait"));
        self.call(Call::get(path).query(&Patience::of(timeout))?).await
    }

    /// What was said to a task and nobody has read.
    pub async fn task_inputs(
        &self,
        id: TaskId,
        list: &Paging,
    ) -> Result<Page<PendingInput>, ApiError> {
        self.call(Call::get(self.path(&format!("tasks/{id}/inputs"))).query(list)?).await
    }

    /// Says something to a task, whatever it does now.
    pub async fn tell_task(&self, id: TaskId, input: &NewInput) -> Result<InputReceipt, ApiError> {
        let call = Call::new(Method::POST, self.path(&format!("tasks/{id}/inputs")));
        self.call(call.key(input.idempotency_key.as_deref())?.body(input)?).await
    }
}
