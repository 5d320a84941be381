//! Requests for tasks.

use std::time::Duration;

use provost_core::TaskId;
use serde::Serialize;

use super::stream::{EventStream, WatchOptions};
use super::wait::WaitQuery;
use super::{ApiError, Client, RequestBuilder};
use crate::{
    CancelReceipt, EventBatch, InputReceipt, LogEntry, NewInput, NewTask, Page, PageQuery,
    PendingInput, RetryReceipt, Run, Task, TaskQuery, TaskReceipt, WaitResult,
};

/// Selects a page of events or log entries.
#[derive(Serialize)]
pub(super) struct EventQuery<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) after: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) limit: Option<u64>,
}

impl Client {
    /// Submits a task. When this method returns, the task is stored durably. A task with a known idempotency key is
    /// not submitted again; the receipt names the stored one.
    pub async fn submit(&self, task: &NewTask) -> Result<TaskReceipt, ApiError> {
        let request = RequestBuilder::post(self.path("tasks"));
        self.call(request.idempotency_key(task.idempotency_key.as_deref())?.body(task)?).await
    }

    /// Lists tasks, newest first.
    pub async fn tasks(&self, query: &TaskQuery) -> Result<Page<Task>, ApiError> {
        self.call(RequestBuilder::get(self.path("tasks")).query(query)?).await
    }

    /// Returns a task.
    pub async fn task(&self, id: TaskId) -> Result<Task, ApiError> {
        self.call(RequestBuilder::get(self.task_path(id, ""))).await
    }

    /// Requests the cancellation of a task and its children.
    pub async fn cancel_task(&self, id: TaskId) -> Result<CancelReceipt, ApiError> {
        self.call(RequestBuilder::post(self.task_path(id, "/cancel"))).await
    }

    /// Archives a task. Lists contain archived tasks only on request.
    pub async fn archive_task(&self, id: TaskId) -> Result<Task, ApiError> {
        self.call(RequestBuilder::post(self.task_path(id, "/archive"))).await
    }

    /// Retries a task that failed or was dropped with a new run.
    pub async fn retry_task(&self, id: TaskId) -> Result<RetryReceipt, ApiError> {
        self.call(RequestBuilder::post(self.task_path(id, "/retry"))).await
    }

    /// Lists the runs of a task, newest first.
    pub async fn task_runs(&self, id: TaskId, query: &PageQuery) -> Result<Page<Run>, ApiError> {
        self.call(RequestBuilder::get(self.task_path(id, "/runs")).query(query)?).await
    }

    /// Lists the log entries of a task after a cursor. The `next` value of the page is the next cursor.
    pub async fn task_logs(
        &self,
        id: TaskId,
        after: Option<&str>,
        limit: Option<u64>,
    ) -> Result<Page<LogEntry>, ApiError> {
        let request = RequestBuilder::get(self.task_path(id, "/logs"));
        self.call(request.query(&EventQuery { after, limit })?).await
    }

    /// Returns the state of a task and its events after a cursor, for clients that poll.
    pub async fn task_events(
        &self,
        id: TaskId,
        after: Option<&str>,
        limit: Option<u64>,
    ) -> Result<EventBatch, ApiError> {
        let request = RequestBuilder::get(self.task_path(id, "/events"));
        self.call(request.query(&EventQuery { after, limit })?).await
    }

    /// Opens the event stream of all runs of a task. The stream reconnects after a lost connection.
    pub fn watch_task(&self, id: TaskId, options: WatchOptions) -> EventStream {
        EventStream::new(self.clone(), self.task_path(id, "/stream"), options)
    }

    /// Waits in one request until the current run of a task ends or the timeout elapses. A timeout does not affect the run.
    pub async fn poll_task(&self, id: TaskId, timeout: Duration) -> Result<WaitResult, ApiError> {
        let request = RequestBuilder::get(self.task_path(id, "/wait"));
        self.call(request.query(&WaitQuery::new(timeout))?).await
    }

    /// Lists the messages of a task that no run has read yet.
    pub async fn task_inputs(
        &self,
        id: TaskId,
        query: &PageQuery,
    ) -> Result<Page<PendingInput>, ApiError> {
        self.call(RequestBuilder::get(self.task_path(id, "/inputs")).query(query)?).await
    }

    /// Sends a message to a task in any state.
    pub async fn send_input_to_task(
        &self,
        id: TaskId,
        input: &NewInput,
    ) -> Result<InputReceipt, ApiError> {
        let request = RequestBuilder::post(self.task_path(id, "/inputs"));
        self.call(request.idempotency_key(input.idempotency_key.as_deref())?.body(input)?).await
    }

    /// Returns the path of a task, followed by `rest`.
    fn task_path(&self, id: TaskId, rest: &str) -> String {
        self.path(&format!("tasks/{id}{rest}"))
    }
}
