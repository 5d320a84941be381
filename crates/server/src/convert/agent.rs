//! Converts agents.

use provost_api::Agent;
use provost_engine::AgentRevision;

/// Converts an agent.
pub(crate) fn view(profile: AgentRevision) -> Agent {
    let AgentRevision { name, revision, title, config } = profile;
    Agent { name, revision, title, config }
}
