//! Builds what a process runs agents with: models, tools with their oversight, and agents made of both.
//!
//! An [`AgentFactory`] turns a stored agent into a runnable one. It takes its model from [`Models`](model::Models), and its tools
//! and their oversight from a [`ToolProvider`](tool::ToolProvider). A [`Workshop`] makes tools of
//! [`Declared`](provost_resource::Declared), with the runtimes, the credentials and the connections that they need.
//! [`Records`] writes audit and metering events to the database.

pub mod agent;
mod error;
pub mod model;
mod module;
mod program;
mod records;
pub mod tool;
mod workshop;

pub use agent::AgentFactory;
pub use error::HostError;
pub use module::{HAS_WASM, ModulePlaces, examine_modules};
pub use records::Records;
pub use workshop::{Workshop, WorkshopOptions};

#[cfg(test)]
mod tests;
