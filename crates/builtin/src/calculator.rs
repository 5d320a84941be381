//! `calculator`: arithmetic with exact decimals.
//!
//! Invariant: the length and nesting of an expression are bounded before anything is computed, and the size of every number
//! before it is made, so no input can exhaust the stack, the memory or the time of a call.

mod number;
mod parse;
mod show;

use provost_tool::{EffectClass, FnTool, SpecError, ToolError, tool_fn};
use schemars::JsonSchema;
use serde::Deserialize;

const DESCRIPTION: &str = "Computes an arithmetic expression: + - * / % ^, parentheses, sqrt abs round floor ceil \
     min max ln log exp sin cos tan, pi, e. Fractions and decimals are exact; a result that had to be rounded \
     begins with ≈.";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The expression, such as (2 + 3) * 4 or round(19.99 * 1.19, 2).
    expression: String,
}

/// The tool `calculator`.
pub fn calculator() -> Result<FnTool, SpecError> {
    let tool = tool_fn("calculator", DESCRIPTION, |_cx, arguments: Arguments| async move {
        evaluate(&arguments.expression).map_err(ToolError::Retry)
    })?;
    Ok(tool.with_spec(|spec| spec.effect(EffectClass::Pure)))
}

/// The value of an expression as text, or a sentence about what is wrong with it.
fn evaluate(expression: &str) -> Result<String, String> {
    parse::evaluate(expression).map(|number| show::show(&number))
}

#[cfg(test)]
mod tests;
