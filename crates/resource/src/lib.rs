//! Manifests: reading, validation and policies.
//!
//! A [`ResourceSet`] holds the agents, tools, roles, permissions, policies and MCP servers of all namespaces, validated
//! together. [`ManifestPolicy`] compiles the policy of each run from it.
//!
//! ```
//! use provost_resource::ResourceSet;
//!
//! let resources = ResourceSet::parse(
//!     "kind: Tool\n\
//!      metadata: {name: search}\n\
//!      spec: {endpoint: 'https://api.example.com/search', effect: pure}\n\
//!      ---\n\
//!      kind: AgentRole\n\
//!      metadata: {name: reader}\n\
//!      spec: {permissions: ['tool:search:invoke']}\n",
//! )?;
//! assert_eq!(resources.tools("default").count(), 1);
//! let wrong = ResourceSet::parse("kind: Tool\nmetadata: {name: search}\nspec:\n  endpiont: x\n").unwrap_err();
//! assert!(wrong.to_string().contains("line 4: spec.endpiont"));
//! # Ok::<_, provost_resource::ManifestError>(())
//! ```
//!
//! Invariant: a set is either valid as a whole or rejected. A misspelled rule is an error and is never skipped.

mod diff;
mod document;
mod error;
mod line_number;
mod load;
mod policy;
mod set;

pub use diff::{Change, ChangeKind};
pub use error::{ManifestError, SourceLocation};
pub use load::{DEPTH_MAX, FILE_BYTES_MAX, FILES_MAX};
pub use policy::ManifestPolicy;
pub use set::{Located, RESOURCES_MAX, ResourceSet};

#[cfg(test)]
mod tests;
