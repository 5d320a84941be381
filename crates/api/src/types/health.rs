//! How a server is.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Scope;

/// Whether a server is well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Health {
    /// True if it is.
    pub ok: bool,
    /// What was looked at; only with `?verbose`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<Check>,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// What.
    pub name: String,
    /// True if it is well.
    pub ok: bool,
    /// What was seen.
    pub detail: String,
}

/// What runs here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Version {
    /// The version of Provost.
    pub version: String,
    /// The version of the API.
    pub api: String,
}

/// Whose token it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Who {
    /// The token's id; nothing for whoever is in the same process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Its name.
    pub name: String,
    /// What it may do.
    pub scopes: Vec<Scope>,
    /// Where: `*` is everywhere.
    pub namespaces: Vec<String>,
}
