//! The machine that modules run on: an engine, threads of its own, and a clock that takes modules off them.
//!
//! The engine counts fuel and looks at the epoch, which the clock moves on: fuel bounds what a module uses up, the epoch lets
//! other modules run.
//!
//! Invariant: no module holds a thread of the program that uses this, nor a thread of the machine for longer than a tick.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::Semaphore;
use wasmtime::{Config, Engine, OptLevel, PoolingAllocationConfig};

use crate::error::WasmError;
use crate::limits;

/// The machine. Shared by all tools of a runtime.
pub(crate) struct Machine {
    engine: Engine,
    threads: Option<Runtime>,
    clock: Clock,
    /// Room for calls.
    pub(crate) room: Arc<Semaphore>,
    /// Room for compiling.
    pub(crate) compiling: Arc<Semaphore>,
    /// Bytes of memory that all calls have together.
    pub(crate) memory: Arc<Pool>,
    running: AtomicUsize,
}

/// Bytes that are shared by all calls.
pub(crate) struct Pool {
    used: AtomicU64,
    bytes_max: u64,
}

impl Pool {
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self { used: AtomicU64::new(0), bytes_max }
    }

    /// Takes so many bytes, if they are there.
    pub(crate) fn take(&self, bytes: u64) -> bool {
        let fits = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= self.bytes_max);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
    }

    /// Gives them back.
    pub(crate) fn give(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Bytes that are taken.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}

impl Machine {
    /// Sets it up; its threads sleep until there is something to run.
    pub(crate) fn start(memory_bytes_total: u64) -> Result<Arc<Self>, WasmError> {
        let engine = engine()?;
        let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let threads = Builder::new_multi_thread()
            .worker_threads(cores)
            .thread_name("provost-wasm")
            .enable_time()
            .build()
            .map_err(WasmError::io("the threads for modules cannot be started"))?;
        let clock = Clock::start(engine.clone())?;
        Ok(Arc::new(Self {
            engine,
            threads: Some(threads),
            clock,
            room: Arc::new(Semaphore::new(limits::CALLS_MAX)),
            compiling: Arc::new(Semaphore::new(limits::COMPILES_MAX)),
            memory: Arc::new(Pool::new(memory_bytes_total)),
            running: AtomicUsize::new(0),
        }))
    }

    /// The engine of all modules.
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The threads that modules run on.
    pub(crate) fn threads(&self) -> Result<&Handle, WasmError> {
        self.threads.as_ref().map(Runtime::handle).ok_or(WasmError::Closed)
    }

    /// Counts a call in, and keeps the clock going while it lasts.
    pub(crate) fn enter(self: &Arc<Self>) -> Running {
        self.running.fetch_add(1, Ordering::SeqCst);
        self.clock.hold();
        Running(Arc::clone(self))
    }

    /// Calls that are in a module right now.
    pub(crate) fn running(&self) -> usize {
        self.running.load(Ordering::SeqCst)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if let Some(threads) = self.threads.take() {
            // The last call may end on one of these threads, which cannot wait for itself.
            threads.shutdown_background();
        }
    }
}

/// A call that is in a module.
pub(crate) struct Running(Arc<Machine>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.clock.release();
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

/// An engine that keeps places for the memories and stacks of calls: to map one for each call takes longer than many calls do.
/// Where the system does not give that much of the address space, they are mapped for each call.
fn engine() -> Result<Engine, WasmError> {
    let mut places = config();
    places.allocation_strategy(pool());
    if let Ok(engine) = Engine::new(&places) {
        return Ok(engine);
    }
    Engine::new(&config()).map_err(WasmError::engine)
}

fn pool() -> PoolingAllocationConfig {
    let each = |limit: usize| u32::try_from(limit).unwrap_or(u32::MAX);
    let calls = each(limits::CALLS_MAX);
    let mut pool = PoolingAllocationConfig::new();
    pool.total_stacks(calls)
        .total_component_instances(calls)
        .total_core_instances(limits::TABLES_TOTAL)
        .total_tables(limits::TABLES_TOTAL)
        .total_memories(limits::MEMORIES_TOTAL)
        .max_core_instances_per_component(each(limits::INSTANCES_MAX))
        .max_memories_per_component(each(limits::MEMORIES_MAX))
        .max_tables_per_component(each(limits::TABLES_MAX))
        .max_memories_per_module(each(limits::MEMORIES_MAX))
        .max_tables_per_module(each(limits::TABLES_MAX))
        .max_core_instance_size(limits::INSTANCE_BYTES_MAX)
        .max_component_instance_size(limits::INSTANCE_BYTES_MAX)
        .max_memory_size(usize::try_from(limits::MEMORY_BYTES_MAX).unwrap_or(usize::MAX))
        .table_elements(limits::TABLE_ELEMENTS_MAX)
        .linear_memory_keep_resident(limits::KEPT_BYTES)
        .async_stack_keep_resident(limits::KEPT_BYTES)
        .table_keep_resident(limits::KEPT_TABLE_BYTES);
    pool
}

fn config() -> Config {
    let mut config = Config::new();
    config
        .consume_fuel(true)
        .epoch_interruption(true)
        .max_wasm_stack(limits::STACK_BYTES)
        .async_stack_size(limits::CALL_STACK_BYTES)
        .async_stack_zeroing(true)
        .cranelift_opt_level(OptLevel::Speed)
        // A fault of a module is told by what it was, not by where: names of its functions are no business of a model.
        .wasm_backtrace_max_frames(None)
        .wasm_component_model(true)
        .wasm_memory64(false);
    config
}

/// Moves the epoch on while a module runs.
struct Clock(Arc<ClockState>);

struct ClockState {
    hands: Mutex<Hands>,
    wake: Condvar,
}

#[derive(Default)]
struct Hands {
    running: usize,
    sleeps: bool,
    closed: bool,
}

impl Clock {
    fn start(engine: Engine) -> Result<Self, WasmError> {
        let state = Arc::new(ClockState { hands: Mutex::default(), wake: Condvar::new() });
        let ticking = Arc::clone(&state);
        thread::Builder::new()
            .name("provost-wasm-clock".to_owned())
            .spawn(move || ticking.tick(&engine))
            .map_err(WasmError::io("the clock for modules cannot be started"))?;
        Ok(Self(state))
    }

    fn hold(&self) {
        let mut hands = self.0.hands.lock().unwrap_or_else(PoisonError::into_inner);
        hands.running += 1;
        if hands.sleeps {
            self.0.wake.notify_one();
        }
    }

    fn release(&self) {
        let mut hands = self.0.hands.lock().unwrap_or_else(PoisonError::into_inner);
        hands.running = hands.running.saturating_sub(1);
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        self.0.hands.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        self.0.wake.notify_one();
    }
}

impl ClockState {
    fn tick(&self, engine: &Engine) {
        let mut idle = 0;
        loop {
            {
                let mut hands = self.hands.lock().unwrap_or_else(PoisonError::into_inner);
                idle = if hands.running == 0 { idle + 1 } else { 0 };
                while idle > limits::IDLE_TICKS && hands.running == 0 && !hands.closed {
                    hands.sleeps = true;
                    hands = self.wake.wait(hands).unwrap_or_else(PoisonError::into_inner);
                    hands.sleeps = false;
                }
                if hands.closed {
                    return;
                }
            }
            thread::sleep(limits::TICK);
            engine.increment_epoch();
        }
    }
}
