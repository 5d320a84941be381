//! Requests for schedules.

use http::Method;

use super::{ApiError, Client, RequestBuilder};
use crate::{Page, PageQuery, Schedule, ScheduleChange, SchedulePause};

impl Client {
    /// Lists schedules by id.
    pub async fn schedules(&self, query: &PageQuery) -> Result<Page<Schedule>, ApiError> {
        self.call(RequestBuilder::get(self.path("schedules")).query(query)?).await
    }

    /// Returns a schedule.
    pub async fn schedule(&self, id: &str) -> Result<Schedule, ApiError> {
        self.call(RequestBuilder::get(self.named_path("schedules", id, "")?)).await
    }

    /// Creates or replaces a schedule.
    pub async fn put_schedule(
        &self,
        id: &str,
        change: &ScheduleChange,
    ) -> Result<Schedule, ApiError> {
        let path = self.named_path("schedules", id, "")?;
        self.call(RequestBuilder::new(Method::PUT, path).body(change)?).await
    }

    /// Pauses or continues a schedule.
    pub async fn pause_schedule(&self, id: &str, paused: bool) -> Result<Schedule, ApiError> {
        let path = self.named_path("schedules", id, "/pause")?;
        self.call(RequestBuilder::post(path).body(&SchedulePause { paused })?).await
    }

    /// Deletes a schedule. Tasks that it submitted continue.
    pub async fn delete_schedule(&self, id: &str) -> Result<(), ApiError> {
        self.call_without_result(RequestBuilder::delete(self.named_path("schedules", id, "")?))
            .await
    }
}
