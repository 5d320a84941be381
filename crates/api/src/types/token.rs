//! API tokens.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{DateTime, Scope};

/// An API token to create.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewToken {
    /// Name of the token. Decisions and records show it as their author.
    pub name: String,
    /// Scopes of the token.
    pub scopes: Vec<Scope>,
    /// Namespaces that the token can access. `*` means all namespaces.
    pub namespaces: Vec<String>,
    /// Expiry time. If absent, the token does not expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<DateTime>,
}

/// An API token without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Token {
    /// Id of the token.
    pub id: String,
    /// Name of the token.
    pub name: String,
    /// Scopes of the token.
    pub scopes: Vec<Scope>,
    /// Namespaces that the token can access. `*` means all namespaces.
    pub namespaces: Vec<String>,
    /// Creation time.
    pub created: DateTime,
    /// Expiry time. Absent if the token does not expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<DateTime>,
    /// Time at which the token was revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<DateTime>,
    /// Time of the last use, accurate to about one minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used: Option<DateTime>,
}

/// A created API token and its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CreatedToken {
    /// The token.
    pub token: Token,
    /// Value for the header `Authorization: Bearer`. The server does not store it and cannot show it again.
    pub secret: String,
}
