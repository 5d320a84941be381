//! Sample owners, records and embeddings for the checks.

use provost_core::Env;

use crate::memory::{Memory, NewMemory, Owner};
use crate::store::{ChangeSet, Embedding, MemoryChange, MemoryRecord};

/// Space of the sample embeddings.
const SPACE: &str = "conformance/words/64";
/// Space of embeddings that the store must reject.
pub(super) const OTHER_SPACE: &str = "conformance/other/64";
/// Number of components of a sample embedding.
const DIMENSIONS: usize = 64;

/// Creates an owner.
#[expect(clippy::expect_used, reason = "the sample names are valid")]
pub(super) fn owner(name: &str) -> Owner {
    Owner::new(format!("conformance {name}")).expect("a valid name")
}

/// Creates an embedding. Each name stands for a separate direction.
pub(super) fn vector(directions: &[(&str, f32)]) -> Embedding {
    let mut values = vec![0.0; DIMENSIONS];
    for (name, size) in directions {
        let sum: usize =
            name.bytes().enumerate().map(|(at, byte)| (at + 1) * usize::from(byte)).sum();
        values[sum % DIMENSIONS] += size;
    }
    Embedding { space: SPACE.to_owned(), values }
}

/// Creates an embedding of a query.
pub(super) fn unit(directions: &[(&str, f32)]) -> Embedding {
    vector(directions)
}

/// Creates a record with this text and embedding.
pub(super) fn record(
    env: &Env,
    owner: &Owner,
    new: NewMemory,
    directions: &[(&str, f32)],
) -> MemoryRecord {
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
    MemoryRecord { memory, vector: Some(vector(directions)) }
}

/// Creates a change set that adds records.
pub(super) fn add(records: impl IntoIterator<Item = MemoryRecord>) -> ChangeSet {
    let changes = records.into_iter().map(|record| MemoryChange::Add(Box::new(record))).collect();
    ChangeSet { changes, finished_job: None }
}
