//! A worker, and a voice that tells what it commits.

use std::collections::HashMap;
use std::time::Duration;

use provost_bus::{Message, Topic, Wakeup};
use provost_core::id::name::Namespace;
use provost_core::{EventKind, RunId};
use provost_engine::{Engine, EngineError};
use provost_store::Store;
use provost_store::table::work::run_event;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::command::Failure;
use crate::say;

/// Events read at once.
const PAGE: u64 = 1000;

/// Works until the input is closed, which is the end of the test, or until it is asked to end.
pub(crate) async fn work(engine: &Engine, patience_ms: u64) -> Result<(), Failure> {
    let mut term = signal(SignalKind::terminate())?;
    let voice = tokio::spawn(tell(engine.clone()));
    let worker = engine.start().await?;
    say(format!("ready {}", worker.id()));
    tokio::select! {
        _ = term.recv() => {
            say("draining");
            worker.stop(Duration::from_millis(patience_ms)).await;
            say("stopped");
        }
        _closed = input_closes() => drop(worker),
    }
    voice.abort();
    Ok(())
}

/// On a thread of its own: one that waits for input must not keep the program from ending.
async fn input_closes() {
    let (closing, closed) = oneshot::channel::<()>();
    std::thread::spawn(move || {
        let _broken = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink()).is_err();
        drop(closing);
    });
    let _closed = closed.await.is_err();
}

/// Prints every durable event that this process commits, after it was committed: `event <run> <seq> <epoch> <kind>`.
async fn tell(engine: Engine) {
    let store = engine.store().clone();
    let mut wakeups = store.bus().subscribe(Topic::Wakeups);
    let mut told: HashMap<RunId, u64> = HashMap::new();
    let mut drafts = JoinSet::new();
    loop {
        let Ok(Message::Wakeup(Wakeup::Events(run))) = wakeups.recv().await else { continue };
        let after = told.entry(run).or_insert_with(|| {
            drafts.spawn(tell_drafts(engine.clone(), run));
            0
        });
        *after = tell_run(&store, run, *after).await.unwrap_or(*after);
    }
}

/// Prints what a model says while it says it: `draft <text>`.
async fn tell_drafts(engine: Engine, run: RunId) {
    let mut live = engine.runs().follow(&Namespace::default(), run);
    while let Ok(Some(event)) = live.next().await {
        if let EventKind::TextDelta { text } = event.kind {
            say(format!("draft {text}"));
        }
    }
}

async fn tell_run(store: &Store, run: RunId, after: u64) -> Result<u64, EngineError> {
    let events = store.read(move |tx| run_event::after(tx, run, after, PAGE)).await;
    let mut last = after;
    for event in events? {
        say(format!("event {run} {} {} {}", event.seq, event.epoch, event.kind));
        last = event.seq;
    }
    Ok(last)
}
