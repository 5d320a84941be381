//! One compile shows everything.

use provost_macros::tool;

#[tool(timeout = "soon")]
async fn get_weather<'a>(city: &'a str, (a, b): (u32, u32)) -> String {
    city.to_owned()
}

fn main() {}
