//! More of a context than there is.

use provost_macros::tool;

/// Looks up the weather.
#[tool]
async fn get_weather(cx: &ToolContext, city: String, again: ToolContext) -> String {
    city
}

/// Looks up the weather.
#[tool]
async fn defaulted(#[tool(default)] cx: &ToolContext) {}

fn main() {}
