//! Options with values that make no sense.

use provost_macros::tool;

/// Looks up the weather.
#[tool(timeout = "20 seconds")]
async fn wordy(city: String) -> String {
    city
}

/// Looks up the weather.
#[tool(timeout = 20)]
async fn unitless(city: String) -> String {
    city
}

/// Looks up the weather.
#[tool(timeout = "0s")]
async fn instant(city: String) -> String {
    city
}

/// Looks up the weather.
#[tool(timeout = "99999999999999999999h")]
async fn endless(city: String) -> String {
    city
}

/// Looks up the weather.
#[tool(retries = -1)]
async fn retried(city: String) -> String {
    city
}

/// Looks up the weather.
#[tool(approval = "sometimes")]
async fn approved(city: String) -> String {
    city
}

/// Looks up the weather.
#[tool(exclusive = true)]
async fn exclusive(city: String) -> String {
    city
}

/// Looks up the weather.
#[tool(retries)]
async fn valueless(city: String) -> String {
    city
}

/// Looks up the weather.
#[tool(retries = 1, retries = 2)]
async fn twice(city: String) -> String {
    city
}

fn main() {}
