//! Builds agents from their stored definitions.
//!
//! Invariant: a key is never stored. The process that builds the agent, for example after a crash, reads the key from
//! its own environment.

mod factory;
mod resolve;

use provost_core::ErrorKind;
use provost_core::hash::body_hash;
use provost_core::resource::{AgentSpec, TERMINAL_AGENT_PREFIX};

pub use self::factory::AgentFactory;
pub use self::resolve::{DEFAULT_WORKSPACE, HostDefaults, Workspaces};
use crate::error::HostError;

/// Name of terminal agents in events.
pub const AGENT: &str = "provost";

/// Number of hash digits after the prefix.
const NAME_DIGITS: usize = 16;

/// Default system prompt of agents in a terminal, and of agents without one.
pub const INSTRUCTIONS: &str = "You are a helpful assistant in a terminal. Answer briefly, in Markdown. \
     Use your tools when they help; if a call is not approved, say so and go on without it.";

/// Returns the name of the stored agent of a terminal. The name is a hash of the definition, so no other process can
/// change the agent.
pub fn terminal_agent_name(spec: &AgentSpec) -> Result<String, HostError> {
    let hash =
        body_hash(spec).map_err(|error| HostError::new(ErrorKind::Bug, error.to_string()))?;
    let digits: String = hash.chars().filter(char::is_ascii_hexdigit).take(NAME_DIGITS).collect();
    Ok(format!("{TERMINAL_AGENT_PREFIX}{digits}"))
}
