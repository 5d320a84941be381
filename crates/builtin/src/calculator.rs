//! The `calculator` tool: arithmetic with exact decimals.
//!
//! Invariant: the length and nesting of an expression are limited before evaluation, and the size of every number
//! before it is computed, so that no input can exhaust the stack, the memory or the time of a call.

mod format;
mod number;
mod parse;

use provost_tool::{EffectClass, FnTool, ToolError, ToolSpecError, tool_fn};
use schemars::JsonSchema;
use serde::Deserialize;

const DESCRIPTION: &str = "Computes an arithmetic expression: + - * / % ^, parentheses, sqrt abs round floor ceil \
     min max ln log exp sin cos tan, pi, e. Fractions and decimals are exact; a result that had to be rounded \
     begins with ≈.";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CalculatorArguments {
    /// The expression, such as (2 + 3) * 4 or round(19.99 * 1.19, 2).
    expression: String,
}

/// Creates the `calculator` tool.
pub fn calculator() -> Result<FnTool, ToolSpecError> {
    let tool =
        tool_fn("calculator", DESCRIPTION, |_cx, arguments: CalculatorArguments| async move {
            evaluate(&arguments.expression).map_err(ToolError::Retry)
        })?;
    Ok(tool.with_spec(|spec| spec.effect(EffectClass::Pure)))
}

/// Evaluates an expression. Returns the value as text, or an error message for the model.
fn evaluate(expression: &str) -> Result<String, String> {
    parse::evaluate(expression).map(|number| format::format_number(&number))
}

#[cfg(test)]
mod tests;
