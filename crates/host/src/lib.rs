//! Builds the agents of a process with their models and tools.
//!
//! An [`AgentFactory`] turns a stored agent into a runnable one. It takes its model from [`Models`](model::Models), and
//! its tools and guard services from a [`ToolProvider`](tool::ToolProvider). A [`ToolRegistry`] builds the tools of
//! [`ResourceSet`](provost_resource::ResourceSet), with their runtimes, credentials and connections.
//! [`Records`](provost_engine::Records) writes their audit and usage records to the database.

pub mod agent;
mod error;
pub mod model;
mod registry;
mod resources;
mod sandbox;
pub mod tool;
mod wasm;

pub use agent::AgentFactory;
pub use error::HostError;
pub use registry::{ToolRegistry, ToolRegistryOptions};
pub use resources::StoredPolicy;
pub use wasm::{HAS_WASM, ModuleDirs, examine_modules};

#[cfg(test)]
mod tests;
