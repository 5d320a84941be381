//! What this program can do: for people and clients who want to know before they ask for it.

use provost_core::{Env, Timestamp};
use serde::Serialize;

/// One thing that this program can do, or knows and cannot do here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Capability {
    /// Its stable name, such as `tool.http`.
    pub id: String,
    /// True if it can be used.
    pub enabled: bool,
    /// What it is.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Who says so.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub source: String,
}

/// Tells what a part of the program can do.
pub trait CapabilityProvider: Send + Sync {
    /// What it can do now.
    fn capabilities(&self) -> Vec<Capability>;
}

/// What the program can do at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CapabilitySnapshot {
    /// When.
    pub generated_at: Timestamp,
    /// What, sorted by id. Of two with one id the one that can be used counts.
    pub capabilities: Vec<Capability>,
}

impl CapabilitySnapshot {
    /// Asks every part of the program.
    pub fn collect(env: &Env, parts: &[&dyn CapabilityProvider]) -> Self {
        let mut capabilities: Vec<Capability> =
            parts.iter().flat_map(|part| part.capabilities()).collect();
        capabilities.sort_by(|one, two| one.id.cmp(&two.id).then(two.enabled.cmp(&one.enabled)));
        capabilities.dedup_by(|later, first| later.id == first.id);
        Self { generated_at: env.now(), capabilities }
    }

    /// True if something can be used.
    pub fn has(&self, id: &str) -> bool {
        self.capabilities.iter().any(|capability| capability.enabled && capability.id == id)
    }
}
