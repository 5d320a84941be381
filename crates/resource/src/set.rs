//! The set of all resources, validated together.

use std::collections::BTreeMap;
use std::path::Path;

use provost_core::hash::{canonical_json, sha256_hex};
use provost_core::policy::{CompiledPolicy, PolicySources, PolicySubject};
use provost_core::resource::{
    ALL_TOOLS, AgentPolicy, AgentRole, ApplyMode, DeclaredAgent, McpServerResource, Resource,
    ToolPermission, ToolResource, ToolType,
};
use serde::Serialize;
use serde_json::json;

use crate::load;
use crate::{ManifestError, SourceLocation};

/// Maximum number of resources in a set.
pub const RESOURCES_MAX: usize = 50_000;

/// Length of a revision in hexadecimal digits.
const REVISION_DIGITS: usize = 16;

/// Namespace and name of a resource. Names are in lower case, because rules compare them case-insensitively.
pub(crate) type Key = (String, String);

/// A resource with its source location.
#[derive(Debug, Clone)]
pub struct Located<T> {
    /// Location of the resource.
    pub location: SourceLocation,
    /// The resource.
    pub resource: T,
}

pub(crate) type ResourceMap<T> = BTreeMap<Key, Located<T>>;

/// All resources of all namespaces: agents, tools, MCP servers, roles, permissions and policies.
#[derive(Debug, Clone, Default)]
pub struct ResourceSet {
    pub(crate) agents: ResourceMap<DeclaredAgent>,
    pub(crate) tools: ResourceMap<ToolResource>,
    pub(crate) servers: ResourceMap<McpServerResource>,
    pub(crate) roles: ResourceMap<AgentRole>,
    pub(crate) permissions: ResourceMap<ToolPermission>,
    pub(crate) policies: ResourceMap<AgentPolicy>,
}

impl ResourceSet {
    /// Reads and validates a file, or every `.yaml`, `.yml` and `.json` file below a directory. This call blocks.
    /// Returns the first error.
    pub fn read(path: &Path) -> Result<Self, ManifestError> {
        Self::from_resources(load::read(path)?)
    }

    /// Parses and validates the manifests of a YAML or JSON text. Returns the first error.
    pub fn parse(text: &str) -> Result<Self, ManifestError> {
        Self::from_resources(load::parse(text, None)?)
    }

    pub(crate) fn from_resources(
        resources: Vec<(SourceLocation, Resource)>,
    ) -> Result<Self, ManifestError> {
        if resources.len() > RESOURCES_MAX {
            return Err(ManifestError::TooManyResources(format!(
                "{} resources are declared, the maximum is {RESOURCES_MAX}",
                resources.len()
            )));
        }
        let mut set = Self::default();
        for (location, resource) in resources {
            set.add(location, resource)?;
        }
        set.validate()?;
        Ok(set)
    }

    /// Adds a resource. Returns an error if a resource of this kind has the same namespace and name.
    fn add(&mut self, location: SourceLocation, resource: Resource) -> Result<(), ManifestError> {
        let (kind, namespace, name) =
            (resource.kind(), resource.namespace().to_owned(), resource.name().to_owned());
        let key = key(&namespace, &name);
        let existing = match resource {
            Resource::Agent(resource) => insert(&mut self.agents, key, location.clone(), *resource),
            Resource::AgentPolicy(resource) => {
                insert(&mut self.policies, key, location.clone(), resource)
            }
            Resource::AgentRole(resource) => {
                insert(&mut self.roles, key, location.clone(), resource)
            }
            Resource::McpServer(resource) => {
                insert(&mut self.servers, key, location.clone(), resource)
            }
            Resource::Tool(resource) => {
                insert(&mut self.tools, key, location.clone(), resource.tool)
            }
            Resource::ToolPermission(resource) => {
                insert(&mut self.permissions, key, location.clone(), resource)
            }
        };
        match existing {
            None => Ok(()),
            Some(first) => Err(ManifestError::Duplicate {
                kind,
                name: format!("{namespace}/{name}"),
                first: Box::new(first),
                second: Box::new(location),
            }),
        }
    }

    /// Checks that every reference names an existing resource, and that the policies compile. Returns the first error.
    fn validate(&self) -> Result<(), ManifestError> {
        for ((namespace, _), Located { location, resource }) in &self.tools {
            if let (ToolType::Mcp, Some(reference)) = (resource.kind, &resource.mcp) {
                let subject = || format!("tool `{}`", resource.name);
                require_exists(
                    &self.servers,
                    "MCP server",
                    &reference.server,
                    namespace,
                    location,
                    subject,
                )?;
            }
        }
        for ((namespace, _), Located { location, resource }) in &self.agents {
            let subject = || format!("agent `{}`", resource.name);
            let spec = &resource.spec;
            for tool in spec.declared_tools.iter().filter(|tool| *tool != ALL_TOOLS) {
                require_exists(&self.tools, "tool", tool, namespace, location, subject)?;
            }
            for server in spec.mcp_servers.iter().filter(|server| *server != ALL_TOOLS) {
                require_exists(&self.servers, "MCP server", server, namespace, location, subject)?;
            }
            for role in &spec.roles {
                require_exists(&self.roles, "role", role, namespace, location, subject)?;
            }
        }
        for namespace in self.namespaces() {
            let subject = PolicySubject::new(namespace, "");
            self.compile_policy(subject).map_err(|error| ManifestError::Resource {
                location: SourceLocation::default(),
                error,
            })?;
        }
        Ok(())
    }

    /// Returns true if the set has no resource.
    pub fn is_empty(&self) -> bool {
        self.agents.is_empty()
            && self.tools.is_empty()
            && self.servers.is_empty()
            && self.roles.is_empty()
            && self.permissions.is_empty()
            && self.policies.is_empty()
    }

    /// Returns the namespaces that have a resource, sorted and without duplicates.
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

    /// Returns the tools of a namespace, sorted by name.
    pub fn tools(&self, namespace: &str) -> impl Iterator<Item = &ToolResource> {
        of_namespace(&self.tools, namespace)
    }

    /// Returns the tools of all namespaces, each with its namespace.
    pub fn all_tools(&self) -> impl Iterator<Item = (&str, &Located<ToolResource>)> {
        self.tools.iter().map(|((namespace, _), tool)| (namespace.as_str(), tool))
    }

    /// Returns the MCP servers of all namespaces, each with its namespace.
    pub fn all_servers(&self) -> impl Iterator<Item = (&str, &Located<McpServerResource>)> {
        self.servers.iter().map(|((namespace, _), server)| (namespace.as_str(), server))
    }

    /// Returns the MCP servers of a namespace, sorted by name.
    pub fn servers(&self, namespace: &str) -> impl Iterator<Item = &McpServerResource> {
        of_namespace(&self.servers, namespace)
    }

    /// Returns the MCP server with this name, ignoring case. `None` if it is not declared.
    pub fn server(&self, namespace: &str, name: &str) -> Option<&McpServerResource> {
        self.servers.get(&key(namespace, name)).map(|located| &located.resource)
    }

    /// Returns the agents of all namespaces.
    pub fn agents(&self) -> impl Iterator<Item = &DeclaredAgent> {
        self.agents.values().map(|located| &located.resource)
    }

    /// Returns the agent with this name, ignoring case. `None` if it is not declared.
    pub fn agent(&self, namespace: &str, name: &str) -> Option<&DeclaredAgent> {
        self.agents.get(&key(namespace, name)).map(|located| &located.resource)
    }

    /// Compiles the policy of a subject from the roles, permissions and policies of its namespace. Returns an error if
    /// one of them is invalid.
    pub fn compile_policy(
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

    /// Returns true if the namespace has a policy that applies only to certain tasks or systems.
    pub(crate) fn has_scoped_policies(&self, namespace: &str) -> bool {
        of_namespace(&self.policies, namespace).any(|policy| policy.apply_mode == ApplyMode::Scoped)
    }

    /// Returns a hash of the subject's roles and allowed tools and of all rules in its namespace. It changes when the
    /// compiled policy can change.
    fn revision(&self, subject: &PolicySubject) -> String {
        fn values<T: Serialize>(map: &ResourceMap<T>, namespace: &str) -> Vec<serde_json::Value> {
            of_namespace(map, namespace).map(|resource| json!(resource)).collect()
        }
        let namespace = &subject.namespace;
        let content = json!({
            "roles": values(&self.roles, namespace),
            "permissions": values(&self.permissions, namespace),
            "policies": values(&self.policies, namespace),
            "subject": [subject.roles, subject.allowed_tools],
        });
        let mut revision = sha256_hex(canonical_json(&content).as_bytes());
        revision.truncate(REVISION_DIGITS);
        revision
    }

    /// Returns a description of each permission whose tool is not declared. Such a tool may be built in, come from an MCP
    /// server, or be misspelled.
    pub fn unmatched_permissions(&self) -> Vec<String> {
        let missing = |((namespace, _), located): (&Key, &Located<ToolPermission>)| {
            let tool = match located.resource.tool_ref.as_str() {
                "" => &located.resource.name,
                tool => tool,
            };
            (!self.tools.contains_key(&key(namespace, tool)) && tool != ALL_TOOLS).then(|| {
                format!(
                    "{}: permission `{}` refers to tool `{tool}`, which is not declared",
                    located.location, located.resource.name
                )
            })
        };
        self.permissions.iter().filter_map(missing).collect()
    }
}

fn key(namespace: &str, name: &str) -> Key {
    (namespace.trim().to_owned(), name.trim().to_lowercase())
}

/// Inserts a resource, replacing an existing one with the same key. Returns the location of the replaced resource.
fn insert<T>(
    map: &mut ResourceMap<T>,
    key: Key,
    location: SourceLocation,
    resource: T,
) -> Option<SourceLocation> {
    map.insert(key, Located { location, resource }).map(|existing| existing.location)
}

/// Returns the resources of a namespace, sorted by name.
fn of_namespace<'a, T>(map: &'a ResourceMap<T>, namespace: &str) -> impl Iterator<Item = &'a T> {
    let namespace = namespace.to_owned();
    let first = (namespace.clone(), String::new());
    map.range(first..)
        .take_while(move |((other, _), _)| *other == namespace)
        .map(|(_, located)| &located.resource)
}

/// Returns [`ManifestError::Missing`] if the map has no resource with this name.
fn require_exists<T>(
    map: &ResourceMap<T>,
    kind: &'static str,
    name: &str,
    namespace: &str,
    location: &SourceLocation,
    subject: impl Fn() -> String,
) -> Result<(), ManifestError> {
    if map.contains_key(&key(namespace, name)) {
        return Ok(());
    }
    Err(ManifestError::Missing {
        location: location.clone(),
        subject: subject(),
        kind,
        name: name.to_owned(),
        namespace: namespace.to_owned(),
    })
}
