//! Tables of what is hidden and what is not, and properties over random texts, secrets and cuts.

mod corpus;
mod property;
mod table;

use provost_core::Secret;

use crate::Redactor;

fn taught(values: &[&str]) -> Redactor {
    let redactor = Redactor::new();
    for value in values {
        redactor.learn(&Secret::from(*value)).unwrap();
    }
    redactor
}
