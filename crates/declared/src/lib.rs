//! What an operator declares in files, and the guarded tools made of it.
//!
//! [`Declared`] is everything that was read: agents, tools, roles, permissions, policies and MCP servers, each in its
//! namespace, checked together. A [`Workshop`] makes tools of it, with the runtimes, the credentials and the connections they
//! need. A [`DeclaredGovernor`] tells the guard what counts for a run. [`Records`] keeps who did what in the database.
//!
//! ```
//! use provost_declared::Declared;
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
//! # Ok::<_, provost_declared::DeclareError>(())
//! ```
//!
//! Invariant: what cannot be read whole is not used at all. A rule that was mistyped is an error and never a rule less.

mod change;
mod error;
mod governor;
mod line;
mod load;
mod module;
mod program;
mod records;
mod set;
mod workshop;

pub use change::{Became, Change};
pub use error::{DeclareError, Place};
pub use governor::DeclaredGovernor;
pub use load::{DEPTH_MAX, FILE_BYTES_MAX, FILES_MAX};
pub use module::{HAS_WASM, ModulePlaces, examine_modules};
pub use records::Records;
pub use set::{Declared, RESOURCES_MAX};
pub use workshop::{Workshop, WorkshopOptions};

#[cfg(test)]
mod tests;
