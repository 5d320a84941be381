//! Verifies the guarantees of the backends on this machine by trying to break them.

use std::net::TcpListener;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::backend::{GuaranteeStatus, SandboxBackend, SandboxRegistry};
use crate::command::{SandboxCommand, Stdin};
use crate::error::IsolationError;
use crate::profile::{Guarantee, IsolationProfile, ResourceLimits};

/// Result of one test case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SelfTestResult {
    /// The guarantee held.
    Passed,
    /// The guarantee did not hold. Contains the observation.
    Failed(String),
    /// The case was skipped. Contains the reason.
    Skipped(&'static str),
}

/// One guarantee of one sandbox. Guarantees are named by strings, because WASM modules have limits that processes do
/// not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelfTestCase {
    /// Name of the backend.
    pub backend: &'static str,
    /// Name of the guarantee.
    pub name: &'static str,
    /// True if the backend claims to enforce the guarantee.
    pub is_enforced: bool,
    /// Mechanism that enforces the guarantee, or the reason why it is not enforced.
    pub mechanism: String,
    /// Result. A guarantee that the backend does not claim is skipped.
    pub result: SelfTestResult,
}

/// Time limit of one case.
const CASE_TIMEOUT: Duration = Duration::from_secs(10);
/// Memory limit, and the memory that the test allocates.
const MEMORY_LIMIT: u64 = 64 << 20;
const MEMORY_ALLOCATED: u64 = 192 << 20;

/// Tests every guarantee that each backend claims to enforce, by running scripts in sandboxes.
pub async fn self_test(backends: &SandboxRegistry) -> Vec<SelfTestCase> {
    let mut cases = Vec::new();
    for backend in backends.all() {
        for status in backend.guarantees() {
            let result = match status.is_enforced {
                false => SelfTestResult::Skipped("the backend does not enforce it"),
                true => run_case(backend.as_ref(), status.guarantee).await,
            };
            let GuaranteeStatus { guarantee, is_enforced, mechanism } = status;
            cases.push(SelfTestCase {
                backend: backend.name(),
                name: guarantee.as_str(),
                is_enforced,
                mechanism,
                result,
            });
        }
    }
    cases
}

/// Tests one guarantee of a backend. An error counts as a failure.
async fn run_case(backend: &dyn SandboxBackend, guarantee: Guarantee) -> SelfTestResult {
    let result = match guarantee {
        Guarantee::Files => files(backend).await,
        Guarantee::Network => network(backend).await,
        Guarantee::Environment => environment(backend).await,
        Guarantee::Tree => tree(backend).await,
        Guarantee::Processes => processes(backend).await,
        Guarantee::Kernel => kernel(backend).await,
        Guarantee::Pids => pids(backend).await,
        Guarantee::Memory => memory(backend).await,
        Guarantee::Tmp => tmp(backend).await,
        Guarantee::AllowList => Ok(SelfTestResult::Skipped("it needs a reachable host")),
        Guarantee::Cpu => {
            Ok(SelfTestResult::Skipped("a processor share is measurable only over a long time"))
        }
    };
    result.unwrap_or_else(|error| SelfTestResult::Failed(error.to_string()))
}

/// Runs a shell script in a sandbox without a workspace and network. Returns its exit code and its output.
async fn run_script(
    backend: &dyn SandboxBackend,
    script: &str,
    limits: ResourceLimits,
) -> Result<(i32, String), IsolationError> {
    let limits = ResourceLimits { time: limits.time.min(CASE_TIMEOUT), ..limits };
    let job = SandboxCommand::new(
        "sh",
        ["-c", script],
        IsolationProfile::new(backend.mode()).limits(limits),
    );
    let mut text = Vec::new();
    let running = backend.start(job).await?;
    let each = |_, bytes: &[u8]| text.extend_from_slice(bytes);
    let ended = running.wait_with_output(Stdin::Empty, &CancellationToken::new(), each).await?;
    Ok((ended.code, String::from_utf8_lossy(&text).into_owned()))
}

/// Returns a failure with the mechanism that is broken, or a success.
fn result(is_broken: bool, mechanism: &str) -> SelfTestResult {
    match is_broken {
        true => SelfTestResult::Failed(mechanism.to_owned()),
        false => SelfTestResult::Passed,
    }
}

/// Tests that a program can neither read, change nor create files outside.
async fn files(backend: &dyn SandboxBackend) -> Result<SelfTestResult, IsolationError> {
    const CANARY: &str = "canary-of-the-doctor";
    let outside = crate::linux::scratch_dir::ScratchDir::open()
        .map_err(IsolationError::io("cannot create a directory"))?;
    let file = outside.path().join("canary");
    std::fs::write(&file, CANARY).map_err(IsolationError::io("cannot create the canary file"))?;
    let script = format!("cat {0}; echo changed > {0}; echo made > {0}.new", file.display());
    let (_, text) = run_script(backend, &script, ResourceLimits::default()).await?;
    let is_same = std::fs::read_to_string(&file).is_ok_and(|text| text == CANARY);
    let is_created = file.with_extension("new").exists();
    Ok(match (text.contains(CANARY), is_same && !is_created) {
        (true, _) => result(true, "a file outside was read"),
        (false, false) => result(true, "a file outside was changed or created"),
        (false, true) => SelfTestResult::Passed,
    })
}

/// Tests that a program cannot connect to a port of this machine.
async fn network(backend: &dyn SandboxBackend) -> Result<SelfTestResult, IsolationError> {
    let listener =
        TcpListener::bind("127.0.0.1:0").map_err(IsolationError::io("cannot open a port"))?;
    listener.set_nonblocking(true).map_err(IsolationError::io("cannot open a port"))?;
    let address = listener.local_addr().map_err(IsolationError::io("cannot open a port"))?;
    let script = format!(
        "command -v bash >/dev/null || exit 9; bash -c 'exec 3<>/dev/tcp/127.0.0.1/{}' 2>/dev/null",
        address.port()
    );
    let (code, _) = run_script(backend, &script, ResourceLimits::default()).await?;
    Ok(match (listener.accept().is_ok(), code) {
        (true, _) => result(true, "a port of this machine was reached"),
        (false, 9) => SelfTestResult::Skipped("the sandbox has no bash"),
        (false, code) => result(code == 0, "a connection was made"),
    })
}

/// Tests that a program sees no variable of this process.
async fn environment(backend: &dyn SandboxBackend) -> Result<SelfTestResult, IsolationError> {
    const SHARED: [&str; 9] =
        ["PATH", "HOME", "TMPDIR", "LANG", "PWD", "OLDPWD", "SHLVL", "_", "HOSTNAME"];
    let script = "env; cat /proc/1/environ /proc/self/environ 2>/dev/null | tr '\\0' '\\n'";
    let (_, text) = run_script(backend, script, ResourceLimits::default()).await?;
    let is_ours = |line: &str| {
        let name = line.split('=').next().unwrap_or(line);
        line.contains('=') && !SHARED.contains(&name) && std::env::var_os(name).is_some()
    };
    let leaked = text.lines().find(|line| is_ours(line));
    let name = leaked.and_then(|line| line.split('=').next());
    Ok(match name {
        Some(name) => result(true, &format!("the variable `{name}` of this process was visible")),
        None => SelfTestResult::Passed,
    })
}

/// Tests that no process survives the end of the program.
async fn tree(backend: &dyn SandboxBackend) -> Result<SelfTestResult, IsolationError> {
    let mark = format!("86399.{}", std::process::id());
    let script = format!(
        "(setsid sleep {mark} >/dev/null 2>&1 &); sh -c '(sleep {mark} >/dev/null 2>&1 &)'"
    );
    run_script(backend, &script, ResourceLimits::default()).await?;
    let entries = std::fs::read_dir("/proc").map_err(IsolationError::io("there is no /proc"))?;
    let mut lines =
        entries.flatten().filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let is_left = lines.any(|line| line.windows(mark.len()).any(|part| part == mark.as_bytes()));
    Ok(result(is_left, "a process survived"))
}

/// Tests that a program sees no process of this machine.
async fn processes(backend: &dyn SandboxBackend) -> Result<SelfTestResult, IsolationError> {
    let pid = std::process::id();
    let script =
        format!("cat /proc/{pid}/cmdline 2>/dev/null; kill -0 {pid} 2>/dev/null && echo reached");
    let (_, text) = run_script(backend, &script, ResourceLimits::default()).await?;
    let own = std::fs::read_to_string("/proc/self/cmdline").unwrap_or_default();
    let is_seen = !own.is_empty() && text.contains(own.trim_end_matches('\0'));
    Ok(result(
        is_seen || text.contains("reached"),
        "this process was visible or could be signalled",
    ))
}

/// Tests that dangerous system calls are denied.
async fn kernel(backend: &dyn SandboxBackend) -> Result<SelfTestResult, IsolationError> {
    // The script must be harmless even without isolation: it mounts on its own directory and writes a setting with its
    // current value.
    let script = "unshare -U true 2>/dev/null && echo space; mkdir -p \"$TMPDIR/m\"; \
         mount -t tmpfs none \"$TMPDIR/m\" 2>/dev/null && { umount \"$TMPDIR/m\"; echo mount; }; \
         v=$(cat /proc/sys/kernel/core_pattern 2>/dev/null) && \
         echo \"$v\" 2>/dev/null >/proc/sys/kernel/core_pattern && echo setting; true";
    let (_, text) = run_script(backend, script, ResourceLimits::default()).await?;
    Ok(match text.trim() {
        "" => SelfTestResult::Passed,
        name => result(true, &format!("the program succeeded with: {}", name.replace('\n', ", "))),
    })
}

/// Tests that the number of processes is limited.
async fn pids(backend: &dyn SandboxBackend) -> Result<SelfTestResult, IsolationError> {
    let limits = ResourceLimits { pids: 16, ..ResourceLimits::default() };
    let script = "i=0; while [ $i -lt 48 ]; do sleep 9 & i=$((i+1)); done 2>/dev/null; echo all";
    let (_, text) = run_script(backend, script, limits).await?;
    Ok(result(text.contains("all"), "48 processes started with a limit of 16"))
}

/// Tests that memory is limited.
async fn memory(backend: &dyn SandboxBackend) -> Result<SelfTestResult, IsolationError> {
    let limits = ResourceLimits { memory_bytes: MEMORY_LIMIT, ..ResourceLimits::default() };
    let script = format!("head -c {0} /dev/zero | tail -c {0} | wc -c", MEMORY_ALLOCATED);
    let (_, text) = run_script(backend, &script, limits).await?;
    Ok(result(
        text.trim() == MEMORY_ALLOCATED.to_string(),
        "192 MiB were used with a limit of 64 MiB",
    ))
}

/// Tests that the size of temporary files is limited.
async fn tmp(backend: &dyn SandboxBackend) -> Result<SelfTestResult, IsolationError> {
    let limits = ResourceLimits { tmp_bytes: 4 << 20, ..ResourceLimits::default() };
    let script = "i=0; while [ $i -lt 16 ]; do head -c 1000000 /dev/zero > \"$TMPDIR/$i\" || exit 0; i=$((i+1)); done 2>/dev/null; echo all";
    let (_, text) = run_script(backend, script, limits).await?;
    Ok(result(text.contains("all"), "16 MB were stored with a limit of 4 MiB"))
}
