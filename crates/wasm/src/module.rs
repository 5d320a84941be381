//! Modules, from the reference in a manifest to linked code.

pub(crate) mod compiled_cache;
pub(crate) mod inspect;
pub(crate) mod loaded;
pub(crate) mod source;
