//! Owners, entries and vectors for the checks.

use provost_core::Env;

use crate::memory::{Memory, NewMemory, Owner};
use crate::store::{Batch, Change, Entry, Vector};

/// The space of the vectors of the checks.
const SPACE: &str = "conformance/words/64";
/// Another space.
pub(super) const OTHER_SPACE: &str = "conformance/other/64";
/// Numbers of a vector of the checks.
const DIMENSIONS: usize = 64;

/// An owner.
///
/// # Panics
/// Never: the names are good.
#[expect(clippy::expect_used, reason = "a check panics where something is wrong")]
pub(super) fn owner(name: &str) -> Owner {
    Owner::new(format!("conformance {name}")).expect("a name")
}

/// A vector in which each name is a direction of its own.
pub(super) fn vector(directions: &[(&str, f32)]) -> Vector {
    let mut values = vec![0.0; DIMENSIONS];
    for (name, size) in directions {
        let sum: usize =
            name.bytes().enumerate().map(|(at, byte)| (at + 1) * usize::from(byte)).sum();
        values[sum % DIMENSIONS] += size;
    }
    Vector { space: SPACE.to_owned(), values }
}

/// The same, for queries.
pub(super) fn unit(directions: &[(&str, f32)]) -> Vector {
    vector(directions)
}

/// A new entry.
pub(super) fn entry(env: &Env, owner: &Owner, new: NewMemory, directions: &[(&str, f32)]) -> Entry {
    let now = env.now();
    let memory = Memory {
        id: env.id(),
        owner: owner.clone(),
        text: new.text,
        category: new.category,
        metadata: new.metadata,
        sources: new.sources,
        created_at: now,
        updated_at: now,
        valid_from: new.valid_from.unwrap_or(now),
        superseded_by: None,
    };
    Entry { memory, vector: Some(vector(directions)) }
}

/// A batch that adds.
pub(super) fn add(entries: impl IntoIterator<Item = Entry>) -> Batch {
    let changes = entries.into_iter().map(|entry| Change::Add(Box::new(entry))).collect();
    Batch { changes, done: None }
}
