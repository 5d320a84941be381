//! Arguments by reference.

use provost_macros::tool;

/// Looks up the weather.
#[tool]
async fn text(city: &str) -> String {
    city.to_owned()
}

/// Looks up the weather.
#[tool]
async fn slice(cities: &[String]) -> usize {
    cities.len()
}

/// Looks up the weather.
#[tool]
async fn number(days: &u32) -> u32 {
    *days
}

/// Looks up the weather.
#[tool]
async fn changed(cx: &mut ToolContext) {}

fn main() {}
