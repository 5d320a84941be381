//! Tokens: who may call.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Scope, Time};

/// A token to make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewToken {
    /// A name for people: it is shown as the author of answers.
    pub name: String,
    /// What it may do.
    pub scopes: Vec<Scope>,
    /// Where; `*` is everywhere.
    pub namespaces: Vec<String>,
    /// When it ends; never, if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Time>,
}

/// A token as it stands, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Token {
    /// The id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// What it may do.
    pub scopes: Vec<Scope>,
    /// Where.
    pub namespaces: Vec<String>,
    /// When it was made.
    pub created: Time,
    /// When it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Time>,
    /// When it was taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<Time>,
    /// When it was last used, give or take a minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used: Option<Time>,
}

/// A token that was made; its secret is shown this once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TokenCreated {
    /// The token.
    pub token: Token,
    /// What goes behind `Authorization: Bearer`. It is not stored and cannot be shown again.
    pub secret: String,
}
