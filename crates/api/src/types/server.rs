//! The server: its health, its version and the identity of the caller.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Scope;

/// Health of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HealthReport {
    /// True if all checks passed.
    pub ok: bool,
    /// Results of the checks. Present only with the query parameter `verbose`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<HealthCheck>,
}

/// Result of one health check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HealthCheck {
    /// Name of the check.
    pub name: String,
    /// True if the check passed.
    pub ok: bool,
    /// Observed value or error.
    pub detail: String,
}

/// Versions of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Version {
    /// Version of Provost.
    pub version: String,
    /// Version of the API.
    pub api: String,
}

/// Identity of the caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Identity {
    /// Id of the token. Absent for a caller in the same process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Name of the token.
    pub name: String,
    /// Scopes of the token.
    pub scopes: Vec<Scope>,
    /// Namespaces that the token can access. `*` means all namespaces.
    pub namespaces: Vec<String>,
}
