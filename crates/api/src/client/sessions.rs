//! Calls about conversations.

use http::Method;
use provost_core::scheduling::InputQueueOverride;

use super::stream::{EventStream, Watch};
use super::{ApiError, Call, Client};
use crate::{NewSession, Page, Paging, Session, SessionList, SessionMessage};

impl Client {
    /// Conversations, newest first.
    pub async fn sessions(&self, list: &SessionList) -> Result<Page<Session>, ApiError> {
        self.call(Call::get(self.path("sessions")).query(list)?).await
    }

    /// Creates a session, or finds the one that has the key.
    pub async fn create_session(&self, new: &NewSession) -> Result<Session, ApiError> {
        self.call(Call::post(self.path("sessions")).body(new)?).await
    }

    /// A conversation as it stands.
    pub async fn session(&self, id: &str) -> Result<Session, ApiError> {
        self.call(Call::get(self.named("sessions", id, "")?)).await
    }

    /// What was said, oldest first.
    pub async fn session_messages(
        &self,
        id: &str,
        list: &Paging,
    ) -> Result<Page<SessionMessage>, ApiError> {
        self.call(Call::get(self.named("sessions", id, "/messages")?).query(list)?).await
    }

    /// What happens in a conversation, whatever the connection does.
    pub fn watch_session(&self, id: &str, watch: Watch) -> Result<EventStream, ApiError> {
        let path = self.named("sessions", id, "/stream")?;
        Ok(EventStream::new(self.clone(), path, watch))
    }

    /// How messages wait in a conversation from now on.
    pub async fn set_session_queue(
        &self,
        id: &str,
        queue: &InputQueueOverride,
    ) -> Result<Session, ApiError> {
        let path = self.named("sessions", id, "/queue")?;
        self.call(Call::new(Method::PUT, path).body(queue)?).await
    }
}
