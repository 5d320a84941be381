//! Methods that cannot be shared, and methods out of place.

use provost_macros::tool;

struct Weather {
    calls: u32,
}

#[tool]
impl Weather {
    /// Looks up the weather.
    async fn owned(self, city: String) -> String {
        city
    }

    /// Looks up the weather.
    async fn changed(&mut self, city: String) -> String {
        self.calls += 1;
        city
    }

    /// Looks up the weather.
    #[tool]
    async fn without(city: String) -> String {
        city
    }

    /// Looks up the weather.
    async fn itself(&self, other: Option<Self>) {}
}

struct Climate;

impl Climate {
    /// Looks up the climate.
    #[tool]
    async fn alone(&self, city: String) -> String {
        city
    }
}

fn main() {}
