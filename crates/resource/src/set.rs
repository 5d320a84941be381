//! Everything that was declared, checked together.

use std::collections::BTreeMap;
use std::path::Path;

use provost_core::hash::{canonical_json, sha256_hex};
use provost_core::policy::{CompiledPolicy, PolicySources, PolicySubject};
use provost_core::resource::{
    ALL_TOOLS, AgentPolicy, AgentResource, AgentRole, ApplyMode, McpServerResource, Resource,
    ToolPermission, ToolResource, ToolType,
};
use serde::Serialize;
use serde_json::json;

use crate::load;
use crate::{DeclareError, Place};

/// Resources of one program.
pub const RESOURCES_MAX: usize = 50_000;

/// Digits of a revision.
const REVISION_DIGITS: usize = 16;

/// Namespace and name. Names are compared as rules compare them: without regard to case.
pub(crate) type Key = (String, String);

/// A resource and where it was declared.
#[derive(Debug, Clone)]
pub struct At<T> {
    /// Where.
    pub place: Place,
    /// The resource.
    pub what: T,
}

pub(crate) type Kind<T> = BTreeMap<Key, At<T>>;

/// Everything that was declared.
#[derive(Debug, Clone, Default)]
pub struct Declared {
    pub(crate) agents: Kind<AgentResource>,
    pub(crate) tools: Kind<ToolResource>,
    pub(crate) servers: Kind<McpServerResource>,
    pub(crate) roles: Kind<AgentRole>,
    pub(crate) permissions: Kind<ToolPermission>,
    pub(crate) policies: Kind<AgentPolicy>,
}

impl Declared {
    /// Reads a file, or every `.yaml`, `.yml` and `.json` file below a directory. Blocks.
    pub fn read(path: &Path) -> Result<Self, DeclareError> {
        Self::of(load::read(path)?)
    }

    /// Reads a text.
    pub fn parse(text: &str) -> Result<Self, DeclareError> {
        Self::of(load::parse(text, None)?)
    }

    fn of(resources: Vec<(Place, Resource)>) -> Result<Self, DeclareError> {
        if resources.len() > RESOURCES_MAX {
            return Err(DeclareError::TooMuch(format!(
                "{} resources are declared, at most {RESOURCES_MAX} are read",
                resources.len()
            )));
        }
        let mut declared = Self::default();
        for (place, resource) in resources {
            declared.add(place, resource)?;
        }
        declared.check()?;
        Ok(declared)
    }

    fn add(&mut self, place: Place, resource: Resource) -> Result<(), DeclareError> {
        let (kind, namespace, name) =
            (resource.kind(), resource.namespace().to_owned(), resource.name().to_owned());
        let key = key(&namespace, &name);
        let before = match resource {
            Resource::Agent(what) => put(&mut self.agents, key, place.clone(), what),
            Resource::AgentPolicy(what) => put(&mut self.policies, key, place.clone(), what),
            Resource::AgentRole(what) => put(&mut self.roles, key, place.clone(), what),
            Resource::McpServer(what) => put(&mut self.servers, key, place.clone(), what),
            Resource::Tool(what) => put(&mut self.tools, key, place.clone(), what.tool),
            Resource::ToolPermission(what) => put(&mut self.permissions, key, place.clone(), what),
        };
        match before {
            None => Ok(()),
            Some(first) => Err(DeclareError::Duplicate {
                kind,
                name: format!("{namespace}/{name}"),
                first: Box::new(first),
                second: Box::new(place),
            }),
        }
    }

    /// What names another must name one that is there.
    fn check(&self) -> Result<(), DeclareError> {
        for ((namespace, _), At { place, what }) in &self.tools {
            if let (ToolType::Mcp, Some(reference)) = (what.kind, &what.mcp) {
                let by = || format!("tool `{}`", what.name);
                found(&self.servers, "MCP server", &reference.server, namespace, place, by)?;
            }
        }
        for ((namespace, _), At { place, what }) in &self.agents {
            let agent = || format!("agent `{}`", what.name);
            for tool in what.tools.iter().filter(|tool| *tool != ALL_TOOLS) {
                found(&self.tools, "tool", tool, namespace, place, agent)?;
            }
            for server in &what.mcp_servers {
                found(&self.servers, "MCP server", server, namespace, place, agent)?;
            }
            for role in &what.roles {
                found(&self.roles, "role", role, namespace, place, agent)?;
            }
        }
        for namespace in self.namespaces() {
            let subject = PolicySubject::new(namespace, "");
            self.governance(subject)
                .map_err(|error| DeclareError::Resource { place: Place::default(), error })?;
        }
        Ok(())
    }

    /// True if nothing is declared.
    pub fn is_empty(&self) -> bool {
        self.namespaces().next().is_none()
    }

    fn namespaces(&self) -> impl Iterator<Item = &str> {
        let mut names: Vec<&str> = self
            .agents
            .keys()
            .chain(self.tools.keys())
            .chain(self.servers.keys())
            .chain(self.roles.keys())
            .chain(self.permissions.keys())
            .chain(self.policies.keys())
            .map(|(namespace, _)| namespace.as_str())
            .collect();
        names.sort_unstable();
        names.dedup();
        names.into_iter()
    }

    /// The tools of a namespace.
    pub fn tools(&self, namespace: &str) -> impl Iterator<Item = &ToolResource> {
        of_namespace(&self.tools, namespace)
    }

    /// The tools of all namespaces, each with its namespace.
    pub fn all_tools(&self) -> impl Iterator<Item = (&str, &At<ToolResource>)> {
        self.tools.iter().map(|((namespace, _), tool)| (namespace.as_str(), tool))
    }

    /// The MCP servers of all namespaces, each with its namespace.
    pub fn all_servers(&self) -> impl Iterator<Item = (&str, &At<McpServerResource>)> {
        self.servers.iter().map(|((namespace, _), server)| (namespace.as_str(), server))
    }

    /// The MCP servers of a namespace.
    pub fn servers(&self, namespace: &str) -> impl Iterator<Item = &McpServerResource> {
        of_namespace(&self.servers, namespace)
    }

    /// An MCP server of a namespace.
    pub fn server(&self, namespace: &str, name: &str) -> Option<&McpServerResource> {
        self.servers.get(&key(namespace, name)).map(|at| &at.what)
    }

    /// Every agent.
    pub fn agents(&self) -> impl Iterator<Item = &AgentResource> {
        self.agents.values().map(|at| &at.what)
    }

    /// An agent.
    pub fn agent(&self, namespace: &str, name: &str) -> Option<&AgentResource> {
        self.agents.get(&key(namespace, name)).map(|at| &at.what)
    }

    /// What governs somebody, compiled. The roles and the allowed tools are those that the subject names.
    pub fn governance(
        &self,
        subject: PolicySubject,
    ) -> Result<CompiledPolicy, provost_core::resource::ResourceError> {
        let namespace = subject.namespace.clone();
        let mut parts = PolicySources::new(self.revision(&subject), subject);
        parts.roles = of_namespace(&self.roles, &namespace).cloned().collect();
        parts.permissions = of_namespace(&self.permissions, &namespace).cloned().collect();
        parts.policies = of_namespace(&self.policies, &namespace).cloned().collect();
        CompiledPolicy::compile(parts)
    }

    /// True if a policy of the namespace is for tasks or systems that it names.
    pub(crate) fn has_scoped_policies(&self, namespace: &str) -> bool {
        of_namespace(&self.policies, namespace).any(|policy| policy.apply_mode == ApplyMode::Scoped)
    }

    /// Changes when anything changes that decides about the subject.
    fn revision(&self, subject: &PolicySubject) -> String {
        fn words<T: Serialize>(kind: &Kind<T>, namespace: &str) -> Vec<serde_json::Value> {
            of_namespace(kind, namespace).map(|what| json!(what)).collect()
        }
        let namespace = &subject.namespace;
        let whole = json!({
            "roles": words(&self.roles, namespace),
            "permissions": words(&self.permissions, namespace),
            "policies": words(&self.policies, namespace),
            "subject": [subject.roles, subject.allowed_tools],
        });
        let mut revision = sha256_hex(canonical_json(&whole).as_bytes());
        revision.truncate(REVISION_DIGITS);
        revision
    }

    /// Rules about tools that are declared nowhere: maybe built in, maybe of an MCP server, maybe mistyped.
    pub fn loose_rules(&self) -> Vec<String> {
        let missing = |((namespace, _), at): (&Key, &At<ToolPermission>)| {
            let tool = match at.what.tool_ref.as_str() {
                "" => &at.what.name,
                tool => tool,
            };
            (!self.tools.contains_key(&key(namespace, tool)) && tool != ALL_TOOLS).then(|| {
                format!(
                    "{}: rule `{}` is about `{tool}`, which is not declared",
                    at.place, at.what.name
                )
            })
        };
        self.permissions.iter().filter_map(missing).collect()
    }
}

fn key(namespace: &str, name: &str) -> Key {
    (namespace.trim().to_owned(), name.trim().to_lowercase())
}

fn put<T>(kind: &mut Kind<T>, key: Key, place: Place, what: T) -> Option<Place> {
    kind.insert(key, At { place, what }).map(|before| before.place)
}

fn of_namespace<'a, T>(kind: &'a Kind<T>, namespace: &str) -> impl Iterator<Item = &'a T> {
    let namespace = namespace.to_owned();
    let first = (namespace.clone(), String::new());
    kind.range(first..)
        .take_while(move |((other, _), _)| *other == namespace)
        .map(|(_, at)| &at.what)
}

fn found<T>(
    kind: &Kind<T>,
    word: &'static str,
    name: &str,
    namespace: &str,
    place: &Place,
    what: impl Fn() -> String,
) -> Result<(), DeclareError> {
    if kind.contains_key(&key(namespace, name)) {
        return Ok(());
    }
    Err(DeclareError::Missing {
        place: place.clone(),
        what: what(),
        kind: word,
        name: name.to_owned(),
        namespace: namespace.to_owned(),
    })
}
