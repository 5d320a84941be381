//! Names that a vendor would refuse.

use provost_macros::tool;

/// Looks up the weather.
#[tool(name = "get weather")]
async fn get_weather(city: String) -> String {
    city
}

/// Looks up the weather.
#[tool]
async fn météo(city: String) -> String {
    city
}

fn main() {}
