//! WASM modules and components as tools: in this process, with limits on every resource, and without access to the
//! machine except what a manifest declares.
//!
//! [`WasmRuntime`] runs tools of type `wasm`. A module reads a request of the module contract from its standard input
//! and writes a response to its standard output ([`ModuleRequest`], [`ModuleResponse`]). It has clocks, random numbers,
//! arguments and environment variables, but no files, sockets or processes. Declared host functions (HTTP requests,
//! key-value storage, log messages) are linked; a module that imports anything else is rejected before it runs.
//!
//! Fuel, memory, tables, stack, time and output are limited, and all calls share one memory budget. Modules run on
//! separate threads and yield regularly. An endless loop therefore blocks no other work, and dropping a call ends it.

mod call;
mod contract;
mod engine;
mod error;
mod host;
pub mod limits;
mod module;
mod private_dir;
mod runtime;
mod self_test;
mod wasi;

pub use contract::{MODULE_CONTRACT_VERSION, ModuleBounds, ModuleRequest, ModuleResponse};
pub use error::WasmError;

pub use host::key_value::{
    FileKeyValueStore, InMemoryKeyValueStore, KeyValueError, KeyValueScope, KeyValueStore,
};
pub use runtime::{WasmOptions, WasmRuntime};
pub use self_test::self_test;
