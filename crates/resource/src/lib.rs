//! Manifests: what an operator declares in files.
//!
//! [`Declared`] is everything that was read: agents, tools, roles, permissions, policies and MCP servers, each in its
//! namespace, checked together. A [`DeclaredGovernor`] tells the guard which rules apply to a run.
//!
//! ```
//! use provost_resource::Declared;
//!
//! let declared = Declared::parse(
//!     "kind: Tool\n\
//!      metadata: {name: search}\n\
//!      spec: {endpoint: 'https://api.example.com/search', effect: pure}\n\
//!      ---\n\
//!      kind: AgentRole\n\
//!      metadata: {name: reader}\n\
//!      spec: {permissions: ['tool:search:invoke']}\n",
//! )?;
//! assert_eq!(declared.tools("default").count(), 1);
//! let wrong = Declared::parse("kind: Tool\nmetadata: {name: search}\nspec:\n  endpiont: x\n").unwrap_err();
//! assert!(wrong.to_string().contains("line 4: spec.endpiont"));
//! # Ok::<_, provost_resource::DeclareError>(())
//! ```
//!
//! Invariant: what cannot be read whole is not used at all. A rule that was mistyped is an error and never a rule less.

mod diff;
mod error;
mod load;
mod locate;
mod policy;
mod set;

pub use diff::{Became, Change};
pub use error::{DeclareError, Place};
pub use load::{DEPTH_MAX, FILE_BYTES_MAX, FILES_MAX};
pub use policy::DeclaredGovernor;
pub use set::{At, Declared, RESOURCES_MAX};

#[cfg(test)]
mod tests;
