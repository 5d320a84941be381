//! What is different between two sets of declarations.

use std::fmt;

use serde::Serialize;
use serde_json::json;

use crate::Declared;
use crate::set::Kind;

/// What became of a declaration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Became {
    /// It was not there before.
    Added,
    /// It says something else.
    Changed,
    /// It is not there any more.
    Removed,
}

/// One declaration that is not what it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// What became of it.
    pub became: Became,
    /// Its kind, as manifests write it.
    pub kind: &'static str,
    /// Where it belongs.
    pub namespace: String,
    /// Its name, in lower case.
    pub name: String,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let became = match self.became {
            Became::Added => "added",
            Became::Changed => "changed",
            Became::Removed => "removed",
        };
        write!(f, "{became} {} {}/{}", self.kind, self.namespace, self.name)
    }
}

impl Declared {
    /// What is different in a newer set, kind by kind in the order of names.
    pub fn changes_to(&self, newer: &Self) -> Vec<Change> {
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

fn compare<T: Serialize>(
    kind: &'static str,
    older: &Kind<T>,
    newer: &Kind<T>,
    changes: &mut Vec<Change>,
) {
    let mut push = |became, (namespace, name): &(String, String)| {
        changes.push(Change { became, kind, namespace: namespace.clone(), name: name.clone() });
    };
    for (key, after) in newer {
        match older.get(key) {
            None => push(Became::Added, key),
            // Where it stands in which file does not matter.
            Some(before) if json!(before.what) != json!(after.what) => push(Became::Changed, key),
            Some(_) => {}
        }
    }
    for key in older.keys().filter(|key| !newer.contains_key(*key)) {
        push(Became::Removed, key);
    }
}
