//! A tool without a description.

use provost_macros::tool;

#[tool]
async fn get_weather(city: String) -> String {
    city
}

///
#[tool]
async fn blank(city: String) -> String {
    city
}

#[tool(description = "  ")]
async fn blank_option(city: String) -> String {
    city
}

fn main() {}
