//! Additional instructions of a request, for the runs of its task only.

use std::fmt::Write as _;
use std::sync::Arc;

use async_trait::async_trait;
use provost_agent::hook::{Hook, HookError};
use provost_model::ChatRequest;
use provost_tool::RunContext;

/// Heading between the agent's instructions and the additional ones.
const HEADING: &str = "# Additional instructions for this task";

/// Appends instructions to those of the agent in every model call. Each attempt adds the hook again, so a resumed run
/// keeps the instructions.
pub(super) struct AdditionalInstructions(pub(super) Arc<str>);

#[async_trait]
impl Hook for AdditionalInstructions {
    async fn before_model_call(
        &self,
        _: &RunContext,
        request: &mut ChatRequest,
    ) -> Result<(), HookError> {
        let mut system = request.system.as_deref().unwrap_or_default().to_owned();
        if !system.is_empty() {
            system.push_str("\n\n");
        }
        write!(system, "{HEADING}\n\n{}", self.0).map_err(HookError::new)?;
        request.system = Some(system.into());
        Ok(())
    }
}
