//! Builds what a process runs agents with. Today: the guarded tools of what an operator declared.
//!
//! A [`Workshop`] makes tools of [`Declared`](provost_resource::Declared), with the runtimes, the credentials and the
//! connections that they need. [`Records`] writes audit and metering events to the database.

mod module;
mod program;
mod records;
mod workshop;

pub use module::{HAS_WASM, ModulePlaces, examine_modules};
pub use records::Records;
pub use workshop::{Workshop, WorkshopOptions};

#[cfg(test)]
mod tests;
