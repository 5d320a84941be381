//! Tools without concrete types.

use provost_macros::tool;

/// Looks up the weather.
#[tool]
async fn generic<T>(city: T) -> T {
    city
}

/// Looks up the weather.
#[tool]
async fn of_a_trait(city: impl Into<String>) -> String {
    city.into()
}

/// Looks up the weather.
#[tool]
async fn inside(cities: Vec<impl Into<String>>) -> usize {
    cities.len()
}

fn main() {}
