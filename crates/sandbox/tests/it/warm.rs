//! A sandbox that was set up before its job is known is as good as one that was not.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use provost_core::resource::IsolationMode;
use provost_sandbox::{
    Bubblewrap, ExitReason, Guarantee, GuaranteeStatus, IsolationProfile, ResourceLimits,
    SandboxBackend as _, SandboxCommand, SandboxRegistry, Stdin, WorkspaceMount,
};

use crate::stage::{launcher, output_of, run, sh, try_run};

/// Jobs until one is in a sandbox that has waited: the third mostly is.
const TRIES_MAX: usize = 200;

fn profile() -> IsolationProfile {
    IsolationProfile::new(IsolationMode::Process)
}

/// The backend, if its sandboxes can wait: where control groups count processes.
async fn opened() -> Option<SandboxRegistry> {
    let backend = Bubblewrap::open(Some(launcher())).await.ok()?;
    let by_group = |held: &GuaranteeStatus| {
        held.guarantee == Guarantee::Pids && held.mechanism == "a control group"
    };
    if !backend.guarantees().iter().any(by_group) {
        eprintln!("nothing counts processes here: no sandbox waits");
        return None;
    }
    let mut backends = SandboxRegistry::default();
    backends.add(Arc::new(backend));
    Some(backends)
}

/// Runs jobs of a kind until one finds itself in a sandbox that has waited.
async fn warm(backends: &SandboxRegistry, profile: &IsolationProfile) {
    let mut is_found = false;
    for _ in 0..TRIES_MAX {
        is_found = output_of(backends, "ls /run", profile.clone()).await == "provost\n";
        if is_found {
            break;
        }
    }
    assert!(is_found, "no sandbox waits");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_in_a_sandbox_that_waited_is_like_any_other() {
    let Some(backends) = opened().await else { return };
    warm(&backends, &profile()).await;
    // Each of these is in one that waited, or was the first after it: what comes is the same.
    for turn in 0..4 {
        let job = sh("cat; echo $COLOUR; echo no >&2; exit 7", profile())
            .input(Stdin::Bytes(format!("{turn} ").into_bytes()))
            .env("COLOUR", "blue");
        let done = run(&backends, job).await;
        assert_eq!((done.out, done.ended.code), (format!("{turn} blue\n"), 7));
        assert_eq!(done.err, "no\n");
        // Nothing of ours, nothing of whoever came before, and nobody else.
        let script = "tr '\\0' '\\n' < /proc/1/environ | grep -vE '^(HOME|LANG|PATH|TMPDIR)='; ls /tmp; echo /proc/[0-9]*; ls /proc/self/fd | wc -l; touch /tmp/x";
        let said = output_of(&backends, script, profile()).await;
        assert_eq!(said, "/proc/1 /proc/2\n4\n", "turn {turn}");
        let done = run(&backends, sh("kill -9 $$", profile())).await;
        assert_eq!((done.ended.reason, done.ended.code), (ExitReason::Exited, 137));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_started_and_what_does_not_end_is_told_there_too() {
    let Some(backends) = opened().await else { return };
    warm(&backends, &profile()).await;
    for _ in 0..3 {
        let job = SandboxCommand::new("/nowhere/at-all", [] as [&str; 0], profile());
        let error = try_run(&backends, job).await.err().expect("there is no such program");
        assert!(error.to_string().contains("No such file"), "{error}");
        let limits =
            ResourceLimits { time: Duration::from_millis(200), ..ResourceLimits::default() };
        let slow = IsolationProfile { limits, ..profile() };
        assert_eq!(run(&backends, sh("sleep 60", slow)).await.ended.reason, ExitReason::TimedOut);
        let limits = ResourceLimits { output_bytes: 1000, ..ResourceLimits::default() };
        let loud = IsolationProfile { limits, ..profile() };
        assert_eq!(run(&backends, sh("yes", loud)).await.ended.reason, ExitReason::OutputLimit);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_of_the_same_name_is_another_one() {
    let Some(backends) = opened().await else { return };
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("files");
    for turn in 0..4 {
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("a"), turn.to_string()).unwrap();
        let profile = profile().workspace(WorkspaceMount::ReadWrite(dir.clone()));
        warm(&backends, &profile).await;
        assert_eq!(output_of(&backends, "cat a; echo b > b", profile).await, turn.to_string());
        assert_eq!(fs::read_to_string(dir.join("b")).unwrap(), "b\n");
        fs::rename(&dir, home.path().join(turn.to_string())).unwrap();
    }
}
