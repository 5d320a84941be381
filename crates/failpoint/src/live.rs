//! Enabled failpoints: the hit counts of the process, and the rules from its environment.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Pid, Signal};

use crate::plan::{self, Action, Rule};
use crate::scenario::Scenario;

/// Exit code of a process that the action `exit` ended.
pub const EXIT_CODE: i32 = 86;

/// Exit code of a process with invalid rules.
pub const MISUSE_CODE: i32 = 87;

const RULES_VARIABLE: &str = "PROVOST_FAILPOINTS";
const TRACE_VARIABLE: &str = "PROVOST_FAILPOINTS_TRACE";

/// Interval at which a paused thread checks for its file.
const PAUSE_POLL_INTERVAL: Duration = Duration::from_millis(2);

struct Process {
    rules: Vec<Rule>,
    hit_counts: Mutex<HitCounts>,
}

struct HitCounts {
    hits: BTreeMap<&'static str, u64>,
    trace: Option<File>,
}

/// Reaches a failpoint that has no value to return.
pub fn reach(name: &'static str) {
    if fails(name) {
        reject(&format!(
            "{name}=error: this failpoint cannot fail, because it has no value to return"
        ));
    }
}

/// Reaches a failpoint with a value. Returns true if the function must return that value.
pub fn fails(name: &'static str) -> bool {
    let process = process();
    let hit = count(process, name);
    let action = match Scenario::of_thread() {
        Some(scenario) => scenario.decide(name),
        None => plan::decide(&process.rules, name, hit),
    };
    action.is_some_and(|action| act(name, action))
}

/// Returns the names of all failpoints that this process has reached, sorted.
pub fn reached() -> Vec<&'static str> {
    process().hit_counts.lock().hits.keys().copied().collect()
}

fn process() -> &'static Process {
    static PROCESS: OnceLock<Process> = OnceLock::new();
    PROCESS.get_or_init(|| {
        let text = std::env::var_os(RULES_VARIABLE).unwrap_or_default();
        let rules = text.to_str().ok_or_else(|| "it is not UTF-8".to_owned());
        let rules = rules.and_then(|text| plan::parse(text).map_err(|e| e.to_string()));
        let rules = rules.unwrap_or_else(|e| end(&format!("{RULES_VARIABLE}: {e}")));
        let trace = std::env::var_os(TRACE_VARIABLE).filter(|path| !path.is_empty());
        let trace = trace.map(|path| open(Path::new(&path)));
        Process { rules, hit_counts: Mutex::new(HitCounts { hits: BTreeMap::new(), trace }) }
    })
}

fn open(path: &Path) -> File {
    let file = OpenOptions::new().append(true).create(true).open(path);
    file.unwrap_or_else(|e| end(&format!("{TRACE_VARIABLE}: {}: {e}", path.display())))
}

fn count(process: &Process, name: &'static str) -> u64 {
    let mut hit_counts = process.hit_counts.lock();
    let hits = hit_counts.hits.entry(name).or_default();
    *hits += 1;
    let hit = *hits;
    if let (1, Some(trace)) = (hit, &mut hit_counts.trace) {
        // One write, so that several processes can share the file.
        let written = trace.write_all(format!("{name}\n").as_bytes());
        written.unwrap_or_else(|e| end(&format!("{TRACE_VARIABLE}: {e}")));
    }
    hit
}

/// Performs the action. Returns true if the failpoint must fail.
fn act(name: &str, action: Action) -> bool {
    match action {
        Action::Kill => signal(Signal::KILL),
        Action::Freeze => signal(Signal::STOP),
        Action::Exit => std::process::exit(EXIT_CODE),
        Action::Pause(path) => {
            while !path.exists() {
                std::thread::sleep(PAUSE_POLL_INTERVAL);
            }
        }
        Action::Panic => panic_at(name),
        Action::Error => return true,
    }
    false
}

/// Signals the process. This thread does not continue before the signal takes effect.
fn signal(signal: Signal) {
    let sent = rustix::process::kill_process(this_thread(), signal);
    sent.unwrap_or_else(|e| end(&format!("the signal to itself: {e}")));
}

/// Linux delivers a signal to the thread whose id was used, if possible. With the id of the process, the main thread
/// would receive it, and this thread would continue for a moment.
#[cfg(target_os = "linux")]
fn this_thread() -> Pid {
    rustix::thread::gettid()
}

#[cfg(not(target_os = "linux"))]
fn this_thread() -> Pid {
    rustix::process::getpid()
}

#[expect(clippy::panic, reason = "a test asked for it")]
fn panic_at(name: &str) -> ! {
    panic!("failpoint {name}")
}

/// Fails the test inside a scenario. Otherwise ends the process.
#[expect(clippy::panic, reason = "the test's own mistake")]
fn reject(problem: &str) -> ! {
    match Scenario::of_thread() {
        Some(_) => panic!("failpoint: {problem}"),
        None => end(problem),
    }
}

fn end(problem: &str) -> ! {
    // The exit code reports the misuse even if standard error is closed.
    let _unread = writeln!(std::io::stderr(), "failpoint: {problem}").is_err();
    std::process::exit(MISUSE_CODE)
}
