//! The places as they act: one count for the process, rules from its environment.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal};

use crate::plan::{self, Action, Rule};
use crate::scenario::Scenario;

/// The exit code of a process that was ended by `exit`.
pub const EXIT_CODE: i32 = 86;

/// The exit code of a process whose rules cannot be followed.
pub const MISUSE_CODE: i32 = 87;

const RULES_VARIABLE: &str = "PROVOST_FAILPOINTS";
const TRACE_VARIABLE: &str = "PROVOST_FAILPOINTS_TRACE";

/// How often a paused thread looks for its file.
const PAUSE_LOOK: Duration = Duration::from_millis(2);

struct Process {
    rules: Vec<Rule>,
    places: Mutex<Places>,
}

struct Places {
    hits: BTreeMap<&'static str, u64>,
    trace: Option<File>,
}

/// Reaches a place that can only stop.
pub fn reach(name: &'static str) {
    if fails(name) {
        refuse(&format!("{name}=error: this place cannot fail, it has no value to return"));
    }
}

/// Reaches a place that can also fail; true means it does.
pub fn fails(name: &'static str) -> bool {
    let process = process();
    let hit = count(process, name);
    let action = match Scenario::of_thread() {
        Some(scenario) => scenario.decide(name),
        None => plan::decide(&process.rules, name, hit),
    };
    action.is_some_and(|action| act(name, action))
}

/// The names of all places that this process has reached, sorted.
pub fn reached() -> Vec<&'static str> {
    lock(&process().places).hits.keys().copied().collect()
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
        Process { rules, places: Mutex::new(Places { hits: BTreeMap::new(), trace }) }
    })
}

fn open(path: &Path) -> File {
    let file = OpenOptions::new().append(true).create(true).open(path);
    file.unwrap_or_else(|e| end(&format!("{TRACE_VARIABLE}: {}: {e}", path.display())))
}

fn count(process: &Process, name: &'static str) -> u64 {
    let mut places = lock(&process.places);
    let hits = places.hits.entry(name).or_default();
    *hits += 1;
    let hit = *hits;
    if let (1, Some(trace)) = (hit, &mut places.trace) {
        // One write, so that several processes can share the file.
        let written = trace.write_all(format!("{name}\n").as_bytes());
        written.unwrap_or_else(|e| end(&format!("{TRACE_VARIABLE}: {e}")));
    }
    hit
}

/// Does it; true if the place shall fail.
fn act(name: &str, action: Action) -> bool {
    match action {
        Action::Kill => signal(Signal::KILL),
        Action::Freeze => signal(Signal::STOP),
        Action::Exit => std::process::exit(EXIT_CODE),
        Action::Pause(path) => {
            while !path.exists() {
                std::thread::sleep(PAUSE_LOOK);
            }
        }
        Action::Panic => panic_at(name),
        Action::Error => return true,
    }
    false
}

/// Signals the process so that this thread does not get past this line before it takes effect.
fn signal(signal: Signal) {
    let sent = rustix::process::kill_process(this_thread(), signal);
    sent.unwrap_or_else(|e| end(&format!("the signal to itself: {e}")));
}

/// Linux gives a signal for the process to the thread whose id was used, if it can; with the id of the process that
/// would be the main thread, and this one would run on for a moment.
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

/// A test in this process fails alone; a process under test ends.
#[expect(clippy::panic, reason = "the test's own mistake")]
fn refuse(problem: &str) -> ! {
    match Scenario::of_thread() {
        Some(_) => panic!("failpoint: {problem}"),
        None => end(problem),
    }
}

fn end(problem: &str) -> ! {
    // If there is nobody to read it, the exit code still tells.
    let _unread = writeln!(std::io::stderr(), "failpoint: {problem}").is_err();
    std::process::exit(MISUSE_CODE)
}

fn lock(places: &Mutex<Places>) -> MutexGuard<'_, Places> {
    places.lock().unwrap_or_else(PoisonError::into_inner)
}
