//! `clock`: the time now, in UTC.

use provost_core::Env;
use provost_tool::{EffectClass, FnTool, SpecError, ToolError, tool_fn};
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

/// The tool.
pub(crate) fn tool(env: Env) -> Result<FnTool, SpecError> {
    let describe = "Tells the current date and time in UTC, in RFC 3339 form.";
    let tool = tool_fn("clock", describe, move |_cx, _: Nothing| {
        let now = env.now().to_rfc3339();
        async move { Ok::<_, ToolError>(now) }
    })?;
    Ok(tool.with_spec(|spec| spec.effect(EffectClass::Pure)))
}
