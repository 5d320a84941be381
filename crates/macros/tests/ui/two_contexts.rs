//! More of a context than there is.

use provost_macros::tool;

/// Looks up the weather.
#[tool]
async fn get_weather(cx: &ToolCx, city: String, again: ToolCx) -> String {
    city
}

/// Looks up the weather.
#[tool]
async fn defaulted(#[tool(default)] cx: &ToolCx) {}

fn main() {}
