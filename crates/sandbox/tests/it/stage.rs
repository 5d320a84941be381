//! The backends of this machine, and programs to run in them.

use std::fs;
use std::sync::Arc;

use provost_core::resource::IsolationMode;
use provost_sandbox::{
    Bubblewrap, ExitInfo, ExitReason, IsolationError, IsolationProfile, LandlockBackend, Launcher,
    SandboxBackend, SandboxCommand, SandboxRegistry, StdStream,
};
use tokio_util::sync::CancellationToken;

use crate::engines::Engines;

/// The launcher that is built with these tests.
pub(crate) fn launcher() -> Launcher {
    Launcher::at(env!("CARGO_BIN_EXE_provost-sandbox"))
}

/// A profile as a tool has it that says nothing.
pub(crate) fn profile() -> IsolationProfile {
    IsolationProfile::new(IsolationMode::Process)
}

type Opened = Result<Arc<dyn SandboxBackend>, IsolationError>;

/// Every way to keep a process in that works here, with its name.
pub(crate) async fn all() -> Vec<(&'static str, SandboxRegistry)> {
    let mut found: Vec<(&'static str, Opened)> = Vec::new();
    let shared =
        |backend: Result<Bubblewrap, _>| backend.map(|it| Arc::new(it) as Arc<dyn SandboxBackend>);
    found.push(("bubblewrap", shared(Bubblewrap::open(Some(launcher())).await)));
    let shared = |backend: Result<LandlockBackend, _>| {
        backend.map(|it| Arc::new(it) as Arc<dyn SandboxBackend>)
    };
    found.push(("landlock", shared(LandlockBackend::open(launcher()).await)));
    let bare = LandlockBackend::without_namespaces(launcher()).await;
    found.push(("landlock, no name spaces", shared(bare)));
    let mut all = Vec::new();
    for (name, backend) in found {
        match backend {
            Ok(backend) => {
                let mut backends = SandboxRegistry::default();
                backends.add(backend);
                all.push((name, backends));
            }
            Err(error) => eprintln!("{name} is refused here: {error}"),
        }
    }
    assert!(!all.is_empty(), "no backend works on this machine");
    all
}

/// Held by tests that look what is left on the machine, and by those whose jobs stay long.
pub(crate) static QUIET: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Every sandbox of this machine, with the containers of all engines.
pub(crate) async fn everything(engines: &Engines) -> Vec<(&'static str, SandboxRegistry)> {
    let mut all = all().await;
    let containers = engines.with_machine(/*warm*/ 0).await.into_iter();
    all.extend(containers.map(|opened| (opened.name, opened.backends)));
    all
}

/// A profile for the only backend there is.
pub(crate) fn profile_for(backends: &SandboxRegistry) -> IsolationProfile {
    let mode = backends.all().next().map_or(IsolationMode::Process, |backend| backend.mode());
    IsolationProfile::new(mode)
}

/// What came of a job.
pub(crate) struct Done {
    pub(crate) ended: ExitInfo,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Runs a job to its end.
pub(crate) async fn run(backends: &SandboxRegistry, job: SandboxCommand) -> Done {
    try_run(backends, job).await.unwrap()
}

/// Runs a job to its end, or says why it did not run.
pub(crate) async fn try_run(
    backends: &SandboxRegistry,
    job: SandboxCommand,
) -> Result<Done, IsolationError> {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let each = |channel, bytes: &[u8]| match channel {
        StdStream::Out => out.extend_from_slice(bytes),
        StdStream::Err => err.extend_from_slice(bytes),
    };
    let ended = backends.run(job, &CancellationToken::new(), each).await?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok(Done { ended, out: text(out), err: text(err) })
}

/// A shell with a script.
pub(crate) fn sh(script: &str, profile: IsolationProfile) -> SandboxCommand {
    SandboxCommand::new("sh", ["-c", script], profile)
}

/// Runs a script that must succeed. Returns its output.
pub(crate) async fn output_of(
    backends: &SandboxRegistry,
    script: &str,
    profile: IsolationProfile,
) -> String {
    let done = run(backends, sh(script, profile)).await;
    assert_eq!(done.ended.reason, ExitReason::Exited, "{script}: {}", done.err);
    assert_eq!(done.ended.code, 0, "{script}: {} {}", done.out, done.err);
    done.out
}

/// The processes of this machine whose command line has a mark in it.
pub(crate) fn marked(mark: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().filter_map(Result::ok) {
        let Ok(line) = fs::read(entry.path().join("cmdline")) else { continue };
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        let is_own = entry.file_name().to_string_lossy() == std::process::id().to_string();
        if line.contains(mark) && !is_own {
            found.push(format!("{} {line}", entry.file_name().to_string_lossy()));
        }
    }
    found
}

/// Waits until something holds. What happens soon after an end has no event to wait for.
pub(crate) async fn until(what: &str, holds: impl Fn() -> bool) {
    let patience = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !holds() {
        assert!(std::time::Instant::now() < patience, "{what} does not come");
        tokio::task::yield_now().await;
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}
