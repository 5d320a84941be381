//! A module, from the name in a manifest to code that is ready to run.

pub(crate) mod compiled_cache;
pub(crate) mod inspect;
pub(crate) mod loaded;
pub(crate) mod source;
