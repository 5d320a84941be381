//! The worker, and the output of its durable events.

use std::collections::HashMap;
use std::time::Duration;

use provost_bus::{BusMessage, Subscription, Topic, Wakeup};
use provost_core::{EventKind, RunId};
use provost_engine::{Engine, EngineError};
use provost_store::Store;
use provost_store::table::work::run_event;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

use crate::command::Failure;
use crate::print_line;

/// Events per query.
const PAGE: u64 = 1000;

/// Runs a worker until the input is closed, which is the end of the test, or until SIGTERM arrives.
pub(crate) async fn work(engine: &Engine, drain_timeout_ms: u64) -> Result<(), Failure> {
    let mut term = signal(SignalKind::terminate())?;
    let printers = [
        tokio::spawn(print_events(engine.store().clone())),
        tokio::spawn(print_deltas(engine.store().bus().subscribe(Topic::LiveEvents))),
    ];
    let worker = engine.start().await?;
    print_line(format!("ready {}", worker.id()));
    tokio::select! {
        _ = term.recv() => {
            print_line("draining");
            worker.stop(Duration::from_millis(drain_timeout_ms)).await;
            print_line("stopped");
        }
        _closed = wait_for_input_end() => drop(worker),
    }
    for printer in printers {
        printer.abort();
    }
    Ok(())
}

/// Reads on a separate thread, because a blocked read must not keep the program from ending.
async fn wait_for_input_end() {
    let (closing, closed) = oneshot::channel::<()>();
    std::thread::spawn(move || {
        let _broken = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink()).is_err();
        drop(closing);
    });
    let _closed = closed.await.is_err();
}

/// Prints every durable event that this process commits, after its commit: `event <run> <seq> <epoch> <kind>`.
async fn print_events(store: Store) {
    let mut wakeups = store.bus().subscribe(Topic::Wakeups);
    let mut printed: HashMap<RunId, u64> = HashMap::new();
    loop {
        let Ok(BusMessage::Wakeup(Wakeup::Events(run))) = wakeups.recv().await else { continue };
        let after = printed.entry(run).or_default();
        *after = print_run_events(&store, run, *after).await.unwrap_or(*after);
    }
}

/// Prints the text deltas of all runs: `draft <text>`.
async fn print_deltas(mut live: Subscription) {
    loop {
        let Ok(BusMessage::Live(live)) = live.recv().await else { continue };
        if let EventKind::TextDelta { text } = &live.event.kind {
            print_line(format!("draft {text}"));
        }
    }
}

async fn print_run_events(store: &Store, run: RunId, after: u64) -> Result<u64, EngineError> {
    let events = store.read(move |tx| run_event::after(tx, run, after, PAGE)).await;
    let mut last = after;
    for event in events? {
        print_line(format!("event {run} {} {} {}", event.seq, event.epoch, event.kind));
        last = event.seq;
    }
    Ok(last)
}
