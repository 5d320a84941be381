//! What a command adds to the agent's instructions, for the runs of its task only.

use std::fmt::Write as _;
use std::sync::Arc;

use async_trait::async_trait;
use provost_agent::hook::{Hook, HookError};
use provost_model::ChatRequest;
use provost_tool::RunContext;

/// Comes between the agent's own instructions and what is added.
const MARK: &str = "# Additional instructions for this task";

/// Adds instructions behind the agent's own, in every model call. It is asked anew in each attempt, so a run that was
/// cut off goes on with the same instructions.
pub(super) struct ExtraInstructions(pub(super) Arc<str>);

#[async_trait]
impl Hook for ExtraInstructions {
    async fn pre_model_call(
        &self,
        _: &RunContext,
        request: &mut ChatRequest,
    ) -> Result<(), HookError> {
        let mut system = request.system.as_deref().unwrap_or_default().to_owned();
        if !system.is_empty() {
            system.push_str("\n\n");
        }
        write!(system, "{MARK}\n\n{}", self.0).map_err(HookError::new)?;
        request.system = Some(system.into());
        Ok(())
    }
}
