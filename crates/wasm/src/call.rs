//! One call of a module, from its first instruction to its last.

pub(crate) mod error_excerpt;
pub(crate) mod store_data;

use std::sync::Arc;

use tokio::time::timeout_at;
use wasmtime::{PoolConcurrencyLimitError, Store, Trap, UpdateDeadline};

use crate::call::store_data::{Guest, Halt};
use crate::engine::Machine;
use crate::module::loaded::{INITIALIZE, Ready};

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It came to its end.
    Finished,
    /// It ended itself with a code that is none of success.
    Exit(i32),
    /// It used up what one call may.
    OutOfFuel,
    /// Its time was over.
    Late,
    /// It wrote too much.
    Flooded,
    /// It was not begun: others have all the places for memories and tables.
    Crowded,
    /// It went wrong, in the words of the machine.
    Trapped(String),
}

/// What came of a call.
pub(crate) struct Done {
    pub(crate) ending: Ending,
    pub(crate) answer: Vec<u8>,
    pub(crate) words: Vec<u8>,
    /// True if something outside may have been changed.
    pub(crate) has_acted: bool,
    /// What it wanted more of than it may have.
    pub(crate) refused: Option<&'static str>,
    /// Nothing where it was not counted.
    pub(crate) fuel_used: Option<u64>,
    pub(crate) memory_bytes: u64,
}

/// Runs a module to its end. It gives way to others again and again, so it can be dropped then, and its time is looked at.
pub(crate) async fn run(
    machine: Arc<Machine>,
    ready: Arc<Ready>,
    guest: Guest,
    fuel: Option<u64>,
) -> Done {
    let _running = machine.enter();
    let deadline = guest.deadline;
    let mut store = Store::new(ready.engine(), guest);
    let ran = set_up(&mut store, fuel);
    let ran = match ran {
        Ok(()) => match timeout_at(deadline.into(), enter(&mut store, &ready)).await {
            Ok(came) => came,
            Err(_) => Err(Halt::Late.into()),
        },
        Err(error) => Err(error),
    };
    let fuel_left = store.get_fuel().unwrap_or_default();
    let guest = store.into_data();
    let (has_acted, refused) = (guest.host.used.has_acted, guest.meter.refused);
    let memory_bytes = guest.meter.bytes();
    let (answer, words) = guest.into_written();
    let ending = ran.map_or_else(
        |error| ending(&error),
        |code| match code {
            0 => Ending::Finished,
            code => Ending::Exit(code),
        },
    );
    let fuel_used = fuel.map(|fuel| fuel.saturating_sub(fuel_left));
    Done { ending, answer, words, has_acted, refused, fuel_used, memory_bytes }
}

/// Bounds what a module uses up, and lets others run at every tick of the clock.
fn set_up(store: &mut Store<Guest>, fuel: Option<u64>) -> wasmtime::Result<()> {
    store.limiter(|guest| &mut guest.meter);
    store.set_fuel(fuel.unwrap_or(u64::MAX))?;
    store.set_epoch_deadline(1);
    store.epoch_deadline_callback(|_| Ok(UpdateDeadline::Yield(1)));
    Ok(())
}

/// Goes in. The number is the code of its end.
async fn enter(store: &mut Store<Guest>, ready: &Ready) -> wasmtime::Result<i32> {
    match ready {
        Ready::Core { pre, entry, wants_setup } => {
            let instance = pre.instantiate_async(&mut *store).await?;
            if *wants_setup {
                let setup = instance.get_typed_func::<(), ()>(&mut *store, INITIALIZE)?;
                setup.call_async(&mut *store, ()).await?;
            }
            let missing = || Halt::Misuse("it exports no such function");
            let entry = instance.get_func(&mut *store, entry).ok_or_else(missing)?;
            if let Ok(entry) = entry.typed::<(), ()>(&*store) {
                return entry.call_async(&mut *store, ()).await.map(|()| 0);
            }
            if let Ok(entry) = entry.typed::<(), i32>(&*store) {
                return entry.call_async(&mut *store, ()).await;
            }
            Err(Halt::Misuse(
                "its entry takes something: it must take nothing and give nothing or a code",
            )
            .into())
        }
        Ready::Component { pre, entry } => entry.enter(store, pre).await,
    }
}

fn ending(error: &wasmtime::Error) -> Ending {
    if let Some(halt) = error.downcast_ref::<Halt>() {
        return match halt {
            Halt::Exit(0) => Ending::Finished,
            Halt::Exit(code) => Ending::Exit(*code),
            Halt::Flooded => Ending::Flooded,
            Halt::Late => Ending::Late,
            Halt::Misuse(what) => Ending::Trapped((*what).to_owned()),
        };
    }
    if error.is::<PoolConcurrencyLimitError>() {
        return Ending::Crowded;
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::OutOfFuel) => Ending::OutOfFuel,
        Some(trap) => Ending::Trapped(trap.to_string()),
        None => Ending::Trapped(error.root_cause().to_string()),
    }
}
