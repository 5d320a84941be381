//! What a transaction function sees: statements, values and filters, without a backend.

pub(crate) mod filter;
pub(crate) mod text;
pub(crate) mod tx;
pub(crate) mod value;
