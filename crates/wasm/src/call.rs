//! One call of a module, from instantiation to its end.

pub(crate) mod error_excerpt;
pub(crate) mod store_data;

use std::sync::Arc;

use tokio::time::timeout_at;
use wasmtime::{PoolConcurrencyLimitError, Store, Trap, UpdateDeadline};

use crate::call::store_data::{HaltReason, StoreData};
use crate::engine::WasmEngine;
use crate::module::loaded::{INITIALIZE, LoadedModule};

/// How a call ended: finished, stopped with an exit code, or stopped by a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CallOutcome {
    /// The module returned, or exited with code 0.
    Finished,
    /// The module exited with another code.
    Exit(i32),
    /// The module consumed its fuel.
    OutOfFuel,
    /// The time limit was reached.
    Timeout,
    /// The output limit was exceeded.
    OutputLimit,
    /// The call did not start, because other calls use all memories and tables.
    NoCapacity,
    /// The module trapped. Contains the message of the engine.
    Trapped(String),
}

/// Outcome of a call with its output and its use of resources.
pub(crate) struct CallResult {
    pub(crate) outcome: CallOutcome,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    /// True if the call may have changed something outside of the module.
    pub(crate) has_side_effects: bool,
    /// Resource whose limit was reached, if any.
    pub(crate) refused: Option<&'static str>,
    /// Consumed fuel. `None` if fuel is not counted.
    pub(crate) fuel_used: Option<u64>,
    pub(crate) memory_bytes: u64,
}

/// Runs a module to its end. The future yields regularly, so that it can be dropped and its time limit applies.
pub(crate) async fn run(
    wasm_engine: Arc<WasmEngine>,
    module: Arc<LoadedModule>,
    data: StoreData,
    fuel: Option<u64>,
) -> CallResult {
    let _active_call = wasm_engine.begin_call();
    let deadline = data.deadline;
    let mut store = Store::new(module.engine(), data);
    let result = configure(&mut store, fuel);
    let result = match result {
        Ok(()) => {
            match timeout_at(deadline.into(), instantiate_and_call(&mut store, &module)).await {
                Ok(result) => result,
                Err(_) => Err(HaltReason::Timeout.into()),
            }
        }
        Err(error) => Err(error),
    };
    let fuel_left = store.get_fuel().unwrap_or_default();
    let data = store.into_data();
    let (has_side_effects, refused) = (data.host.usage.has_side_effects, data.limiter.refused);
    let memory_bytes = data.limiter.bytes();
    let (stdout, stderr) = data.into_outputs();
    let outcome = result.map_or_else(
        |error| outcome_of_error(&error),
        |code| match code {
            0 => CallOutcome::Finished,
            code => CallOutcome::Exit(code),
        },
    );
    let fuel_used = fuel.map(|fuel| fuel.saturating_sub(fuel_left));
    CallResult { outcome, stdout, stderr, has_side_effects, refused, fuel_used, memory_bytes }
}

/// Sets the limits of the store, and makes the module yield at every tick.
fn configure(store: &mut Store<StoreData>, fuel: Option<u64>) -> wasmtime::Result<()> {
    store.limiter(|data| &mut data.limiter);
    store.set_fuel(fuel.unwrap_or(u64::MAX))?;
    store.set_epoch_deadline(1);
    store.epoch_deadline_callback(|_| Ok(UpdateDeadline::Yield(1)));
    Ok(())
}

/// Instantiates the module and calls its entry function. Returns the exit code, or an error if the function traps, a
/// limit stops it, or its signature is not supported.
async fn instantiate_and_call(
    store: &mut Store<StoreData>,
    module: &LoadedModule,
) -> wasmtime::Result<i32> {
    match module {
        LoadedModule::Core { pre, entry, has_initializer } => {
            let instance = pre.instantiate_async(&mut *store).await?;
            if *has_initializer {
                let setup = instance.get_typed_func::<(), ()>(&mut *store, INITIALIZE)?;
                setup.call_async(&mut *store, ()).await?;
            }
            let not_exported = || HaltReason::Misuse("it does not export the function");
            let entry = instance.get_func(&mut *store, entry).ok_or_else(not_exported)?;
            if let Ok(entry) = entry.typed::<(), ()>(&*store) {
                return entry.call_async(&mut *store, ()).await.map(|()| 0);
            }
            if let Ok(entry) = entry.typed::<(), i32>(&*store) {
                return entry.call_async(&mut *store, ()).await;
            }
            Err(HaltReason::Misuse(
                "its entry function must have no parameters and return nothing or an exit code",
            )
            .into())
        }
        LoadedModule::Component { pre, entry } => entry.instantiate_and_call(store, pre).await,
    }
}

/// Converts the error that ended a call to its outcome.
fn outcome_of_error(error: &wasmtime::Error) -> CallOutcome {
    if let Some(halt) = error.downcast_ref::<HaltReason>() {
        return match halt {
            HaltReason::Exit(0) => CallOutcome::Finished,
            HaltReason::Exit(code) => CallOutcome::Exit(*code),
            HaltReason::OutputLimit => CallOutcome::OutputLimit,
            HaltReason::Timeout => CallOutcome::Timeout,
            HaltReason::Misuse(what) => CallOutcome::Trapped((*what).to_owned()),
        };
    }
    if error.is::<PoolConcurrencyLimitError>() {
        return CallOutcome::NoCapacity;
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::OutOfFuel) => CallOutcome::OutOfFuel,
        Some(trap) => CallOutcome::Trapped(trap.to_string()),
        None => CallOutcome::Trapped(error.root_cause().to_string()),
    }
}
