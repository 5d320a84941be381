//! Calls about agents.

use http::Method;
use http::header::IF_MATCH;

use super::{ApiError, Call, Client};
use crate::{Agent, AgentChange, AgentConfig, NewAgent, Page, Paging};

impl Client {
    /// Makes an agent.
    pub async fn create_agent(&self, agent: &NewAgent) -> Result<Agent, ApiError> {
        self.call(Call::post(self.path("agents")).body(agent)?).await
    }

    /// Agents, by name.
    pub async fn agents(&self, list: &Paging) -> Result<Page<Agent>, ApiError> {
        self.call(Call::get(self.path("agents")).query(list)?).await
    }

    /// An agent as it stands.
    pub async fn agent(&self, name: &str) -> Result<Agent, ApiError> {
        self.call(Call::get(self.named("agents", name, "")?)).await
    }

    /// Changes an agent. With a revision it is refused if somebody else has changed the agent since.
    pub async fn update_agent(
        &self,
        name: &str,
        change: &AgentChange,
        revision: Option<u64>,
    ) -> Result<Agent, ApiError> {
        let mut call = Call::new(Method::PATCH, self.named("agents", name, "")?).body(change)?;
        if let Some(revision) = revision {
            call = call.header(IF_MATCH, &format!("\"{revision}\""))?;
        }
        self.call(call).await
    }

    /// Removes an agent; its runs keep what they need.
    pub async fn delete_agent(&self, name: &str) -> Result<(), ApiError> {
        self.done(Call::delete(self.named("agents", name, "")?)).await
    }

    /// How an agent would be configured if nothing had been said.
    pub async fn default_config(&self, name: &str) -> Result<AgentConfig, ApiError> {
        self.call(Call::get(self.named("agents", name, "/default-config")?)).await
    }
}
