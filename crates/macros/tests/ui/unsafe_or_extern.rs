//! Functions that a model must not call.

use provost_macros::tool;

/// Looks up the weather.
#[tool]
async unsafe fn get_weather(city: String) -> String {
    city
}

/// Looks up the weather.
#[tool]
extern "C" fn foreign(city: u32) -> u32 {
    city
}

fn main() {}
