//! Options that do not exist at their place.

use provost_macros::tool;

/// Looks up the weather.
#[tool(retry = 2)]
async fn get_weather(city: String) -> String {
    city
}

/// Looks up the weather.
#[tool(skip)]
async fn skipped(city: String) -> String {
    city
}

/// Looks up the weather.
#[tool]
async fn of_argument(#[tool(optional)] city: String) -> String {
    city
}

struct Weather;

#[tool(timeout = "2s")]
impl Weather {
    /// Looks up the weather.
    async fn get(&self, city: String) -> String {
        city
    }
}

fn main() {}
