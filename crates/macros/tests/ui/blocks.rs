//! Blocks that give no tools.

use provost_macros::tool;

struct Weather<T>(T);

#[tool]
impl<T> Weather<T> {
    /// Looks up the weather.
    async fn get(&self, city: String) -> String {
        city
    }
}

struct Climate;

#[tool]
impl Climate {
    fn new() -> Self {
        Self
    }

    #[tool(skip)]
    fn skipped(&self) {}
}

#[tool]
impl std::fmt::Display for Climate {
    /// Shows it.
    fn fmt(&self, f: std::fmt::Formatter<'_>) -> std::fmt::Result {
        Ok(())
    }
}

fn main() {}
