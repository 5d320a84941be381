//! Tables of redacted and unchanged texts, and properties over random texts, secrets and chunks.

mod corpus;
mod property;
mod table;

use provost_core::Secret;

use crate::Redactor;

fn redactor_with(values: &[&str]) -> Redactor {
    let redactor = Redactor::new();
    for value in values {
        redactor.register(&Secret::from(*value)).unwrap();
    }
    redactor
}
