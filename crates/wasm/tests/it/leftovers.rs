//! After many calls that were ended at random nothing is left.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use provost_core::Env;
use provost_core::resource::{HumanDuration, ToolResource};
use provost_tool::ToolRuntime as _;
use tokio::task::{JoinError, JoinSet};

use crate::stage::{PATIENCE, Room, answering, assembled, declared, nothing};

/// Calls; `WASM_CALLS` says another number.
const CALLS_DEFAULT: usize = 200;
/// Calls at the same time.
const AT_ONCE: usize = 32;
/// The latest moment of a call at which it is ended.
const LATEST_US: u64 = 20_000;
/// What the memory of this process may grow by after the first tenth of many calls: there are buffers that fill up by and by.
const GROWTH_BYTES_MAX: u64 = 64 << 20;

/// Modules that never end in several ways, and some that do.
fn tools(room: &Room) -> Vec<ToolResource> {
    let grown = answering("", "(drop (memory.grow (i32.const 64)))");
    let grows = "(drop (memory.grow (i32.const 64))) (loop $l (br $l))";
    let sleeps = answering(
        r#"(import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))"#,
        r#"(i32.store (i32.const 2064) (i32.const 1)) (i64.store (i32.const 2072) (i64.const 9000000000000000))
           (drop (call $poll (i32.const 2048) (i32.const 3072) (i32.const 1) (i32.const 4096)))"#,
    );
    let keeps = answering(
        r#"(import "provost" "kv_set" (func $set (param i32 i32 i32 i32) (result i32)))"#,
        "(loop $l (drop (call $set (i32.const 1024) (i32.const 8) (i32.const 1024) (i32.const 32))) (br $l))",
    );
    let modules = [
        ("quick", answering("", "")),
        ("grown", grown),
        ("grows", answering("", grows)),
        ("traps", answering("", "(drop (memory.grow (i32.const 64))) unreachable")),
        ("sleeps", sleeps),
        ("keeps", keeps),
    ];
    let tool = |fuel: u64, (name, text): &(&str, String)| {
        let tool = room.tool(&format!("{name}.wasm"), &assembled(text));
        declared(tool, |spec| {
            spec.fuel = fuel;
            spec.kv = *name == "keeps";
        })
    };
    // Where fuel is counted, and where it is off.
    let both = [u64::MAX, 0].into_iter();
    both.flat_map(|fuel| modules.iter().map(move |module| tool(fuel, module))).collect()
}

/// True if its module comes to an end, well or not.
fn ends_by_itself(tool: &ToolResource) -> bool {
    let module = tool.wasm.as_ref().map_or("", |spec| spec.module.as_str());
    ["quick.wasm", "grown.wasm", "traps.wasm"].contains(&module)
}

#[tokio::test(flavor = "multi_thread")]
async fn after_random_kills_no_call_thread_file_or_memory_is_left() {
    let asked = std::env::var("WASM_CALLS").ok().and_then(|text| text.parse().ok());
    let calls: usize = asked.unwrap_or(CALLS_DEFAULT);
    let (room, env) = (Arc::new(Room::open()), Env::simulated(8));
    let tools = tools(&room);
    // A thread has its name once it has run; and on a busy machine compiling takes longer than a call has.
    for tool in tools.iter().filter(|tool| ends_by_itself(tool)) {
        drop(room.call(tool, nothing()).await);
    }
    let threads = own_threads();
    let (mut running, mut early, mut ends) = (JoinSet::new(), None, BTreeMap::new());
    for turn in 0..calls {
        if running.len() >= AT_ONCE {
            count(&mut ends, running.join_next().await);
        }
        if turn == calls / 10 {
            early = resident_bytes();
        }
        let pick = usize::try_from(env.random() % tools.len() as u64).unwrap();
        let moment = Duration::from_micros(env.random() % LATEST_US);
        running.spawn(end_at(Arc::clone(&room), tools[pick].clone(), turn % 4, moment));
    }
    while let Some(end) = running.join_next().await {
        count(&mut ends, Some(end));
    }
    // They were really ended in every way.
    for how in ["answered", "execution_failed", "timeout", "canceled", "dropped"] {
        assert!(ends.contains_key(how), "{how}: {ends:?}");
    }
    let gone = async {
        while room.runtime.active_calls() > 0 || room.runtime.memory_bytes() > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.expect("a module goes on");
    // Nobody is held up by what went before.
    assert_eq!(room.call(&tools[0], nothing()).await.unwrap().to_text(), "done");
    assert_eq!(drafts(room.dir.path()), Vec::<String>::new());
    let Some(calls) = asked else { return };
    // No other test runs then, so what this process has is ours.
    let grown = resident_bytes().zip(early).map(|(now, early)| now.saturating_sub(early));
    println!("{calls} calls ended so: {ends:?}");
    println!(
        "{calls} calls: {threads} threads before, {} after, {grown:?} bytes more",
        own_threads()
    );
    assert!(own_threads() <= threads);
    assert!(grown.is_none_or(|grown| grown <= GROWTH_BYTES_MAX), "{grown:?}");
    drop(room);
    let ended = async {
        while own_threads() > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, ended).await.expect("threads of modules stay");
}

/// Makes one call and ends it at a moment: by its deadline, by its token, or by dropping it; or lets it run to its deadline.
async fn end_at(
    room: Arc<Room>,
    mut tool: ToolResource,
    how: usize,
    moment: Duration,
) -> &'static str {
    let time = if how == 1 { moment } else { Duration::from_micros(LATEST_US) };
    tool.runtime.timeout = HumanDuration(time);
    let attempt = room.attempt(&tool, nothing());
    let cancel = attempt.cancel.clone();
    let call = room.runtime.invoke(attempt);
    let came = match how {
        2 => {
            let stop = async {
                tokio::time::sleep(moment).await;
                cancel.cancel();
            };
            Some(tokio::join!(call, stop).0)
        }
        3 => tokio::time::timeout(moment, call).await.ok(),
        _ => Some(call.await),
    };
    match came {
        Some(Ok(_)) => "answered",
        Some(Err(fault)) => fault.code.as_str(),
        None => "dropped",
    }
}

fn count(ends: &mut BTreeMap<&'static str, usize>, end: Option<Result<&'static str, JoinError>>) {
    let end = end.unwrap().unwrap();
    *ends.entry(end).or_default() += 1;
}

/// The threads of machines for modules in this process.
fn own_threads() -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap().flatten();
    let names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.starts_with("provost-wasm")).count()
}

/// Files that somebody began to write and did not put in place.
fn drafts(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => found.extend(drafts(&path)),
            false if path.extension().is_some_and(|end| end == "new") => {
                found.push(path.display().to_string());
            }
            false => {}
        }
    }
    found
}

/// Bytes of memory that this process really has.
fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib << 10)
}
