//! The stored form of a resource set.

use provost_core::hash::{canonical_json, sha256_hex};
use provost_core::resource::{
    AgentPolicy, AgentRole, DeclaredAgent, McpServerResource, NamespacedTool, Resource,
    ToolPermission,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::set::ResourceMap;
use crate::{ManifestError, ResourceSet, SourceLocation};

/// All resources of a set in their normal form, without the locations of their manifests.
#[derive(Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Document {
    agents: Vec<DeclaredAgent>,
    tools: Vec<NamespacedTool>,
    servers: Vec<McpServerResource>,
    roles: Vec<AgentRole>,
    permissions: Vec<ToolPermission>,
    policies: Vec<AgentPolicy>,
}

impl ResourceSet {
    /// Returns the set as JSON. Equal sets have equal texts.
    pub fn to_document(&self) -> String {
        let tools = self.tools.iter().map(|((namespace, _), located)| NamespacedTool {
            namespace: namespace.clone(),
            tool: located.resource.clone(),
        });
        let document = Document {
            agents: resources(&self.agents),
            tools: tools.collect(),
            servers: resources(&self.servers),
            roles: resources(&self.roles),
            permissions: resources(&self.permissions),
            policies: resources(&self.policies),
        };
        canonical_json(&json!(document))
    }

    /// Returns the hash of a document, which identifies the set.
    pub fn hash_of(document: &str) -> String {
        sha256_hex(document.as_bytes())
    }

    /// Reads a document.
    pub fn from_document(document: &str) -> Result<Self, ManifestError> {
        let nowhere = SourceLocation::default();
        let document: Document = serde_json::from_str(document).map_err(|error| {
            ManifestError::cannot_build(&nowhere, "the stored resource set".to_owned(), error)
        })?;
        let agents = document.agents.into_iter().map(|agent| Resource::Agent(Box::new(agent)));
        let tools = document.tools.into_iter().map(|tool| Resource::Tool(Box::new(tool)));
        let all = agents
            .chain(tools)
            .chain(document.servers.into_iter().map(Resource::McpServer))
            .chain(document.roles.into_iter().map(Resource::AgentRole))
            .chain(document.permissions.into_iter().map(Resource::ToolPermission))
            .chain(document.policies.into_iter().map(Resource::AgentPolicy));
        Self::from_resources(all.map(|resource| (SourceLocation::default(), resource)).collect())
    }
}

fn resources<T: Clone>(map: &ResourceMap<T>) -> Vec<T> {
    map.values().map(|located| located.resource.clone()).collect()
}
