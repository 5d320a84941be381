//! Requests for sessions.

use http::Method;
use provost_core::scheduling::InputQueueOverride;

use super::stream::{EventStream, WatchOptions};
use super::{ApiError, Client, RequestBuilder};
use crate::{NewSession, Page, PageQuery, Session, SessionMessage, SessionQuery};

impl Client {
    /// Lists sessions by id, in descending order.
    pub async fn sessions(&self, query: &SessionQuery) -> Result<Page<Session>, ApiError> {
        self.call(RequestBuilder::get(self.path("sessions")).query(query)?).await
    }

    /// Creates a session, or returns the session that has the key.
    pub async fn create_session(&self, new: &NewSession) -> Result<Session, ApiError> {
        self.call(RequestBuilder::post(self.path("sessions")).body(new)?).await
    }

    /// Returns a session.
    pub async fn session(&self, id: &str) -> Result<Session, ApiError> {
        self.call(RequestBuilder::get(self.named_path("sessions", id, "")?)).await
    }

    /// Lists the messages of a session, oldest first.
    pub async fn session_messages(
        &self,
        id: &str,
        query: &PageQuery,
    ) -> Result<Page<SessionMessage>, ApiError> {
        let path = self.named_path("sessions", id, "/messages")?;
        self.call(RequestBuilder::get(path).query(query)?).await
    }

    /// Opens the event stream of all runs of a session. The stream reconnects after a lost connection.
    pub fn watch_session(&self, id: &str, options: WatchOptions) -> Result<EventStream, ApiError> {
        let path = self.named_path("sessions", id, "/stream")?;
        Ok(EventStream::new(self.clone(), path, options))
    }

    /// Sets the input queue of a session.
    pub async fn set_session_queue(
        &self,
        id: &str,
        queue: &InputQueueOverride,
    ) -> Result<Session, ApiError> {
        let path = self.named_path("sessions", id, "/queue")?;
        self.call(RequestBuilder::new(Method::PUT, path).body(queue)?).await
    }
}
