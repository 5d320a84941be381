//! Neither a function nor a block.

use provost_macros::tool;

/// The weather.
#[tool]
struct Weather {
    city: String,
}

#[tool]
mod inner {}

fn main() {}
