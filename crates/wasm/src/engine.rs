//! The engine that runs modules: a Wasmtime engine, separate threads, and a ticker that preempts modules.
//!
//! The engine counts fuel and checks the epoch, which the ticker increments: fuel limits the work of a module, and the
//! epoch lets other modules run.
//!
//! Invariant: no module occupies a thread of the host program, or a thread of the engine for longer than a tick.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

use parking_lot::{Condvar, Mutex};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::Semaphore;
use wasmtime::{Config, Engine, OptLevel, PoolingAllocationConfig};

use crate::error::WasmError;
use crate::limits;

/// Wasmtime engine with its threads, slots and memory budget. All tools of a runtime share it.
pub(crate) struct WasmEngine {
    engine: Engine,
    threads: Option<Runtime>,
    ticker: EpochTicker,
    /// Slots of concurrent calls.
    pub(crate) slots: Arc<Semaphore>,
    /// Slots of concurrent compilations.
    pub(crate) compile_slots: Arc<Semaphore>,
    /// Memory budget of all calls together.
    pub(crate) memory: Arc<MemoryBudget>,
    running: AtomicUsize,
}

/// Limit on the memory of all calls together.
pub(crate) struct MemoryBudget {
    used: AtomicU64,
    bytes_max: u64,
}

impl MemoryBudget {
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self { used: AtomicU64::new(0), bytes_max }
    }

    /// Reserves bytes. Returns false and reserves nothing if the budget does not have them.
    pub(crate) fn reserve(&self, bytes: u64) -> bool {
        let fits = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= self.bytes_max);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
    }

    /// Ends a running call. The thread sleeps when no call runs.
    pub(crate) fn release(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Returns the number of reserved bytes.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}

impl WasmEngine {
    /// Creates the engine and starts its threads. The ticker thread sleeps while no module runs.
    pub(crate) fn start(memory_bytes_total: u64) -> Result<Arc<Self>, WasmError> {
        let engine = create_engine()?;
        let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let threads = Builder::new_multi_thread()
            .worker_threads(cores)
            .thread_name("provost-wasm")
            .enable_time()
            .build()
            .map_err(WasmError::io("cannot start the threads for modules"))?;
        let ticker = EpochTicker::start(engine.clone())?;
        Ok(Arc::new(Self {
            engine,
            threads: Some(threads),
            ticker,
            slots: Arc::new(Semaphore::new(limits::CALLS_MAX)),
            compile_slots: Arc::new(Semaphore::new(limits::COMPILES_MAX)),
            memory: Arc::new(MemoryBudget::new(memory_bytes_total)),
            running: AtomicUsize::new(0),
        }))
    }

    /// Creates an engine with a pool of memories and stacks, because mapping one per call takes longer than many calls.
    /// If the system does not permit that much address space, memories and stacks are mapped per call.
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Returns the threads that run modules. Returns an error after the engine was closed.
    pub(crate) fn threads(&self) -> Result<&Handle, WasmError> {
        self.threads.as_ref().map(Runtime::handle).ok_or(WasmError::Closed)
    }

    /// Counts an active call and keeps the ticker running until the returned value is dropped.
    pub(crate) fn begin_call(self: &Arc<Self>) -> ActiveCall {
        self.running.fetch_add(1, Ordering::SeqCst);
        self.ticker.hold();
        ActiveCall(Arc::clone(self))
    }

    /// Returns the number of active calls.
    pub(crate) fn active_calls(&self) -> usize {
        self.running.load(Ordering::SeqCst)
    }
}

impl Drop for WasmEngine {
    fn drop(&mut self) {
        if let Some(threads) = self.threads.take() {
            // The last call may end on one of these threads, which cannot wait for itself.
            threads.shutdown_background();
        }
    }
}

/// A call that is executing a module.
pub(crate) struct ActiveCall(Arc<WasmEngine>);

impl Drop for ActiveCall {
    fn drop(&mut self) {
        self.0.ticker.release();
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Creates an engine with a pool of memories and stacks, because mapping one per call takes longer than many calls. If
/// the system does not permit that much address space, memories and stacks are mapped per call.
fn create_engine() -> Result<Engine, WasmError> {
    let mut pooled = config();
    pooled.allocation_strategy(pool());
    if let Ok(engine) = Engine::new(&pooled) {
        return Ok(engine);
    }
    Engine::new(&config()).map_err(WasmError::engine)
}

/// Returns the sizes of the pools.
fn pool() -> PoolingAllocationConfig {
    let to_u32 = |limit: usize| u32::try_from(limit).unwrap_or(u32::MAX);
    let calls = to_u32(limits::CALLS_MAX);
    let mut pool = PoolingAllocationConfig::new();
    pool.total_stacks(calls)
        .total_component_instances(calls)
        .total_core_instances(limits::TABLES_TOTAL)
        .total_tables(limits::TABLES_TOTAL)
        .total_memories(limits::MEMORIES_TOTAL)
        .max_core_instances_per_component(to_u32(limits::INSTANCES_MAX))
        .max_memories_per_component(to_u32(limits::MEMORIES_MAX))
        .max_tables_per_component(to_u32(limits::TABLES_MAX))
        .max_memories_per_module(to_u32(limits::MEMORIES_MAX))
        .max_tables_per_module(to_u32(limits::TABLES_MAX))
        .max_core_instance_size(limits::INSTANCE_BYTES_MAX)
        .max_component_instance_size(limits::INSTANCE_BYTES_MAX)
        .max_memory_size(usize::try_from(limits::MEMORY_BYTES_MAX).unwrap_or(usize::MAX))
        .table_elements(limits::TABLE_ELEMENTS_MAX)
        .linear_memory_keep_resident(limits::RESIDENT_BYTES)
        .async_stack_keep_resident(limits::RESIDENT_BYTES)
        .table_keep_resident(limits::RESIDENT_TABLE_BYTES);
    pool
}

/// Returns the settings of the engine without a pool.
fn config() -> Config {
    let mut config = Config::new();
    config
        .consume_fuel(true)
        .epoch_interruption(true)
        .max_wasm_stack(limits::STACK_BYTES)
        .async_stack_size(limits::CALL_STACK_BYTES)
        .async_stack_zeroing(true)
        .cranelift_opt_level(OptLevel::Speed)
        // Backtraces are disabled, because function names of a module must not reach the model.
        .wasm_backtrace_max_frames(None)
        .wasm_component_model(true)
        .wasm_memory64(false);
    config
}

/// Thread that increments the epoch while a module runs, so that modules yield. Dropping the ticker ends the thread.
struct EpochTicker(Arc<TickerState>);

/// State that the ticker shares with its thread.
struct TickerState {
    status: Mutex<TickerStatus>,
    wake: Condvar,
}

/// Number of running calls, and whether the thread sleeps or must end.
#[derive(Default)]
struct TickerStatus {
    running: usize,
    is_sleeping: bool,
    is_closed: bool,
}

impl EpochTicker {
    /// Starts the thread.
    fn start(engine: Engine) -> Result<Self, WasmError> {
        let state = Arc::new(TickerState { status: Mutex::default(), wake: Condvar::new() });
        let ticker = Arc::clone(&state);
        thread::Builder::new()
            .name("provost-wasm-ticker".to_owned())
            .spawn(move || ticker.run(&engine))
            .map_err(WasmError::io("cannot start the ticker thread for modules"))?;
        Ok(Self(state))
    }

    /// Counts a running call, and wakes the thread.
    fn hold(&self) {
        let mut status = self.0.status.lock();
        status.running += 1;
        if status.is_sleeping {
            self.0.wake.notify_one();
        }
    }

    fn release(&self) {
        let mut status = self.0.status.lock();
        status.running = status.running.saturating_sub(1);
    }
}

impl Drop for EpochTicker {
    fn drop(&mut self) {
        self.0.status.lock().is_closed = true;
        self.0.wake.notify_one();
    }
}

impl TickerState {
    /// Increments the epoch at every tick until the ticker is closed. Sleeps while no call runs.
    fn run(&self, engine: &Engine) {
        let mut idle = 0;
        loop {
            {
                let mut status = self.status.lock();
                idle = if status.running == 0 { idle + 1 } else { 0 };
                while idle > limits::IDLE_TICKS && status.running == 0 && !status.is_closed {
                    status.is_sleeping = true;
                    self.wake.wait(&mut status);
                    status.is_sleeping = false;
                }
                if status.is_closed {
                    return;
                }
            }
            thread::sleep(limits::TICK);
            engine.increment_epoch();
        }
    }
}
