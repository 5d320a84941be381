//! Arguments without a name.

use provost_macros::tool;

/// Looks up the weather.
#[tool]
async fn pair((city, days): (String, u32)) -> String {
    format!("{city} {days}")
}

/// Looks up the weather.
#[tool]
async fn nameless(_: String) {}

fn main() {}
