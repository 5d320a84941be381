//! Attempts to get out, each in every sandbox of this machine.
//!
//! An attempt has got out if it ends with code 42, if what it says has the canary in it, or if somebody outside noticed it.
//! `scripts/stress sandbox` prints the table of verdicts.

mod attempts;
mod module;
mod outside;

use std::fmt::Write as _;
use std::time::Duration;

use futures::StreamExt as _;
use provost_sandbox::{
    ExitReason, IsolationError, ResourceLimits, SandboxCommand, SandboxRegistry, WorkspaceMount,
};

use self::attempts::{ATTEMPTS, Attempt, Tongue};
use self::outside::Outside;
use crate::engines::Engines;
use crate::stage::{QUIET, everything, launcher, profile_for, try_run};

/// The code with which an attempt says that it has got out.
const OUT: i32 = 42;
/// Attempts at the same time.
const AT_ONCE: usize = 4;
/// Attempts that there are at least.
const ATTEMPTS_MIN: usize = 100;

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
enum AttackOutcome {
    Contained,
    Refused,
    Escaped(String),
}

async fn run_attempt(backends: &SandboxRegistry, attempt: &Attempt) -> AttackOutcome {
    let outside = Outside::open();
    let script = outside.filled(attempt.script);
    let limits = ResourceLimits {
        time: Duration::from_secs(if attempt.group == "exhaustion" { 3 } else { 15 }),
        pids: 48,
        memory_bytes: 96 << 20,
        file_bytes: 4 << 20,
        tmp_bytes: 8 << 20,
        output_bytes: 256 * 1024,
        ..ResourceLimits::default()
    };
    let workspace = WorkspaceMount::ReadWrite(outside.workspace().to_owned());
    let profile = profile_for(backends).limits(limits).workspace(workspace);
    let job = match attempt.tongue {
        Tongue::Shell => SandboxCommand::new("sh", ["-c", &script], profile),
        Tongue::Perl => SandboxCommand::new("perl", ["-e", &script], profile),
    };
    let started = std::time::Instant::now();
    let done = match try_run(backends, job).await {
        Ok(done) => done,
        Err(IsolationError::Unavailable { .. }) => return AttackOutcome::Refused,
        Err(error) => return AttackOutcome::Escaped(format!("it did not run: {error}")),
    };
    if done.ended.reason == ExitReason::Exited && done.ended.code == OUT {
        return AttackOutcome::Escaped(format!("it says so: {} {}", done.out, done.err));
    }
    if done.out.contains(outside.canary()) || done.err.contains(outside.canary()) {
        return AttackOutcome::Escaped("it has seen the canary".to_owned());
    }
    if started.elapsed() > Duration::from_secs(40) {
        return AttackOutcome::Escaped(format!("it took {:?}", started.elapsed()));
    }
    if attempt.name.contains("daemon") {
        // One that had stayed would show itself in this time; that nothing comes has no event.
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    match outside.noticed() {
        Some(what) => AttackOutcome::Escaped(what),
        None => AttackOutcome::Contained,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_gets_out() {
    let _alone = QUIET.lock().await;
    assert!(ATTEMPTS.len() >= ATTEMPTS_MIN, "{}", ATTEMPTS.len());
    let engines = Engines::here();
    let stages = everything(&engines).await;
    let mut table = format!("{:<12} {:<44}", "group", "attempt");
    for (name, _) in &stages {
        write!(table, " {name:>24}").unwrap();
    }
    let mut escaped = Vec::new();
    let plays = ATTEMPTS.iter().map(|attempt| {
        let each = stages.iter().map(async |(_, backends)| run_attempt(backends, attempt).await);
        async move { (attempt, futures::future::join_all(each).await) }
    });
    let mut plays = futures::stream::iter(plays).buffered(AT_ONCE);
    while let Some((attempt, verdicts)) = plays.next().await {
        write!(table, "\n{:<12} {:<44}", attempt.group, attempt.name).unwrap();
        for ((name, _), verdict) in stages.iter().zip(verdicts) {
            let word = match &verdict {
                AttackOutcome::Contained => "contained",
                AttackOutcome::Refused => "refused",
                AttackOutcome::Escaped(why) => {
                    escaped.push(format!("{name}: {}: {}: {why}", attempt.group, attempt.name));
                    "ESCAPED"
                }
            };
            write!(table, " {word:>24}").unwrap();
        }
    }
    drop(plays);
    println!("{table}\n{} attempts", ATTEMPTS.len());
    assert!(escaped.is_empty(), "{}", escaped.join("\n"));
}

/// Attempts that work where nothing holds: what shows that the suite can fail.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_sandbox_attempts_do_get_out() {
    use provost_core::resource::IsolationMode;
    let backends = SandboxRegistry::detect(Some(launcher())).await;
    let mut got_out = 0;
    // Only those that aim at what this test has put there.
    let aims = ["{out}", "{tcp}", "{udp}", "{abstract}", "{pid}"];
    let harmless = |attempt: &&Attempt| {
        ["files", "network", "environment"].contains(&attempt.group)
            && aims.iter().any(|aim| attempt.script.contains(aim))
    };
    for attempt in ATTEMPTS.iter().filter(harmless) {
        let outside = Outside::open();
        let script = outside.filled(attempt.script);
        let mut profile = provost_sandbox::IsolationProfile::new(IsolationMode::None);
        profile.limits.time = Duration::from_secs(10);
        let job = match attempt.tongue {
            Tongue::Shell => SandboxCommand::new("sh", ["-c", &script], profile),
            Tongue::Perl => SandboxCommand::new("perl", ["-e", &script], profile),
        };
        let done = try_run(&backends, job).await.unwrap();
        let is_out = done.ended.code == OUT
            || done.out.contains(outside.canary())
            || outside.noticed().is_some();
        got_out += usize::from(is_out);
    }
    assert!(got_out >= 20, "only {got_out} attempts would notice a way out");
}
