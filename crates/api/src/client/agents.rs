//! Requests for agents.

use http::Method;
use http::header::IF_MATCH;

use super::{ApiError, Client, RequestBuilder};
use crate::{Agent, AgentChange, NewAgent, Page, PageQuery};
use provost_core::resource::AgentSpec;

impl Client {
    /// Creates an agent.
    pub async fn create_agent(&self, agent: &NewAgent) -> Result<Agent, ApiError> {
        self.call(RequestBuilder::post(self.path("agents")).body(agent)?).await
    }

    /// Lists agents by name.
    pub async fn agents(&self, query: &PageQuery) -> Result<Page<Agent>, ApiError> {
        self.call(RequestBuilder::get(self.path("agents")).query(query)?).await
    }

    /// Returns an agent.
    pub async fn agent(&self, name: &str) -> Result<Agent, ApiError> {
        self.call(RequestBuilder::get(self.named_path("agents", name, "")?)).await
    }

    /// Changes an agent. If `revision` is given and the agent has another revision, the server rejects the change.
    pub async fn update_agent(
        &self,
        name: &str,
        change: &AgentChange,
        revision: Option<u64>,
    ) -> Result<Agent, ApiError> {
        let path = self.named_path("agents", name, "")?;
        let mut request = RequestBuilder::new(Method::PATCH, path).body(change)?;
        if let Some(revision) = revision {
            request = request.header(IF_MATCH, &format!("\"{revision}\""))?;
        }
        self.call(request).await
    }

    /// Deletes an agent. Its runs are not affected.
    pub async fn delete_agent(&self, name: &str) -> Result<(), ApiError> {
        self.call_without_result(RequestBuilder::delete(self.named_path("agents", name, "")?)).await
    }

    /// Returns the default configuration of an agent with this name.
    pub async fn agent_default_config(&self, name: &str) -> Result<AgentSpec, ApiError> {
        let path = self.named_path("agents", name, "/default-config")?;
        self.call(RequestBuilder::get(path)).await
    }
}
