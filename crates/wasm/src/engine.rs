//! The machine that modules run on: engines, threads of its own, and a clock that takes modules off them.
//!
//! There are two engines. One counts what a module uses up, at every turn of a loop, and takes it off its thread by that count;
//! the other does not count and goes by the clock: looking at both would cost a tight loop a fifth of its speed. It is there
//! from the first module on that wants it. Time, memory, tables, stack and output are bounded by both in the same way.
//!
//! Invariant: no module holds a thread of the program that uses this, nor a thread of the machine for longer than a tick or
//! [`limits::LOOK_FUEL`].

pub(crate) mod scheduler;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread;

use provost_core::resource::WasmSpec;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::Semaphore;
use wasmtime::{Config, Engine, OptLevel, PoolingAllocationConfig};

use crate::error::WasmError;
use crate::limits;

/// The machine. Shared by all tools of a runtime.
pub(crate) struct Machine {
    engines: Arc<Engines>,
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

/// Whether what a module uses up is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fuel {
    Counted,
    Off,
}

impl Fuel {
    /// As a manifest wants it.
    pub(crate) fn of(spec: &WasmSpec) -> Self {
        Self::bound_by(spec.fuel_bound())
    }

    /// For a module that may use up so much, if that is counted.
    pub(crate) fn bound_by(fuel: Option<u64>) -> Self {
        if fuel.is_some() { Self::Counted } else { Self::Off }
    }
}

/// One engine that counts, and one that does not.
struct Engines {
    counting: Engine,
    /// Places for its memories are another 8 TiB of addresses: whoever never needs them never has them.
    free: OnceLock<Engine>,
}

impl Engines {
    fn get(&self, fuel: Fuel) -> Result<&Engine, WasmError> {
        match (fuel, self.free.get()) {
            (Fuel::Counted, _) => Ok(&self.counting),
            (Fuel::Off, Some(engine)) => Ok(engine),
            (Fuel::Off, None) => {
                let made = engine(fuel)?;
                // Of two that are made at once the first one is used, by both.
                Ok(self.free.get_or_init(|| made))
            }
        }
    }

    /// Takes every module off its thread that is not counted.
    fn tick(&self) {
        if let Some(engine) = self.free.get() {
            engine.increment_epoch();
        }
    }
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
        let engines = Engines { counting: engine(Fuel::Counted)?, free: OnceLock::new() };
        let engines = Arc::new(engines);
        let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let threads = Builder::new_multi_thread()
            .worker_threads(cores)
            .thread_name("provost-wasm")
            .enable_time()
            .build()
            .map_err(WasmError::io("the threads for modules cannot be started"))?;
        let clock = Clock::start(Arc::clone(&engines))?;
        Ok(Arc::new(Self {
            engines,
            threads: Some(threads),
            clock,
            room: Arc::new(Semaphore::new(limits::CALLS_MAX)),
            compiling: Arc::new(Semaphore::new(limits::COMPILES_MAX)),
            memory: Arc::new(Pool::new(memory_bytes_total)),
            running: AtomicUsize::new(0),
        }))
    }

    /// The engine for modules that are counted, or for those that are not.
    pub(crate) fn engine(&self, fuel: Fuel) -> Result<&Engine, WasmError> {
        self.engines.get(fuel)
    }

    /// The threads that modules run on.
    pub(crate) fn threads(&self) -> Result<&Handle, WasmError> {
        self.threads.as_ref().map(Runtime::handle).ok_or(WasmError::Closed)
    }

    /// Counts a call in, and keeps the clock going while it lasts, if it needs one.
    pub(crate) fn enter(self: &Arc<Self>, fuel: Fuel) -> Running {
        self.running.fetch_add(1, Ordering::SeqCst);
        if fuel == Fuel::Off {
            self.clock.hold();
        }
        Running(Arc::clone(self), fuel)
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
pub(crate) struct Running(Arc<Machine>, Fuel);

impl Drop for Running {
    fn drop(&mut self) {
        if self.1 == Fuel::Off {
            self.0.clock.release();
        }
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

/// An engine that keeps places for the memories and stacks of calls: to map one for each call takes longer than many calls do.
/// Where the system does not give that much of the address space, they are mapped for each call.
fn engine(fuel: Fuel) -> Result<Engine, WasmError> {
    let mut places = config(fuel);
    places.allocation_strategy(pool());
    if let Ok(engine) = Engine::new(&places) {
        return Ok(engine);
    }
    Engine::new(&config(fuel)).map_err(WasmError::engine)
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

fn config(fuel: Fuel) -> Config {
    let mut config = Config::new();
    config
        .consume_fuel(fuel == Fuel::Counted)
        .epoch_interruption(fuel == Fuel::Off)
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

/// Moves the epoch on while something runs that is not counted.
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
    fn start(engines: Arc<Engines>) -> Result<Self, WasmError> {
        let state = Arc::new(ClockState { hands: Mutex::default(), wake: Condvar::new() });
        let ticking = Arc::clone(&state);
        thread::Builder::new()
            .name("provost-wasm-clock".to_owned())
            .spawn(move || ticking.tick(&engines))
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
    fn tick(&self, engines: &Engines) {
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
            engines.tick();
        }
    }
}
