//! Differences between two resource sets.

use std::fmt;

use serde::Serialize;
use serde_json::json;

use crate::ResourceSet;
use crate::set::ResourceMap;

/// How a resource differs between two sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// The resource is new.
    Added,
    /// The resource has other content.
    Changed,
    /// The resource no longer exists.
    Removed,
}

/// A resource that was added, changed or removed between two sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Kind of the change.
    pub kind: ChangeKind,
    /// Kind of the resource, as manifests name it.
    pub resource_kind: &'static str,
    /// Namespace of the resource.
    pub namespace: String,
    /// Name of the resource in lower case.
    pub name: String,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self.kind {
            ChangeKind::Added => "added",
            ChangeKind::Changed => "changed",
            ChangeKind::Removed => "removed",
        };
        write!(f, "{verb} {} {}/{}", self.resource_kind, self.namespace, self.name)
    }
}

impl ResourceSet {
    /// Returns the resources that were added, changed or removed in `newer`. The location of a resource in its file is
    /// not compared. The result is ordered by kind: within a kind, added and changed resources come first, sorted by
    /// namespace and name, then removed resources.
    pub fn diff(&self, newer: &Self) -> Vec<Change> {
        let mut changes = Vec::new();
        compare("Agent", &self.agents, &newer.agents, &mut changes);
        compare("Tool", &self.tools, &newer.tools, &mut changes);
        compare("McpServer", &self.servers, &newer.servers, &mut changes);
        compare("AgentRole", &self.roles, &newer.roles, &mut changes);
        compare("ToolPermission", &self.permissions, &newer.permissions, &mut changes);
        compare("AgentPolicy", &self.policies, &newer.policies, &mut changes);
        changes
    }
}

/// Appends the changes of one resource kind to `changes`.
fn compare<T: Serialize>(
    resource_kind: &'static str,
    older: &ResourceMap<T>,
    newer: &ResourceMap<T>,
    changes: &mut Vec<Change>,
) {
    let mut push = |kind, (namespace, name): &(String, String)| {
        let (namespace, name) = (namespace.clone(), name.clone());
        changes.push(Change { kind, resource_kind, namespace, name });
    };
    for (key, after) in newer {
        match older.get(key) {
            None => push(ChangeKind::Added, key),
            // The location in the files does not matter.
            Some(before) if json!(before.resource) != json!(after.resource) => {
                push(ChangeKind::Changed, key);
            }
            Some(_) => {}
        }
    }
    for key in older.keys().filter(|key| !newer.contains_key(*key)) {
        push(ChangeKind::Removed, key);
    }
}
