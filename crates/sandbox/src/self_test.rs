//! What really holds on this machine, found out by trying.

use std::net::TcpListener;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::backend::{Backend, Backends, Holding};
use crate::command::{Input, Job};
use crate::error::IsolationError;
use crate::profile::{Hold, Limits, Profile};

/// What a trial showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proof {
    /// It holds.
    Held,
    /// It does not, and this is how it showed.
    Broken(String),
    /// It was not tried, for this reason.
    NotTried(&'static str),
}

/// One thing that a sandbox was tried with. Modules have bounds that programs have not, so what is held goes by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    /// The sandbox.
    pub backend: &'static str,
    /// What it should hold.
    pub what: &'static str,
    /// Whether it says that it does.
    pub is_held: bool,
    /// By what, or why not.
    pub how: String,
    /// What the trial showed. What it says it cannot hold is not tried.
    pub proof: Proof,
}

/// The longest that one trial may take.
const TRIAL_TIME: Duration = Duration::from_secs(10);
/// Memory that is given, and memory that is asked for.
const MEMORY_GIVEN: u64 = 64 << 20;
const MEMORY_ASKED: u64 = 192 << 20;

/// Tries every backend with everything that it says it holds.
pub async fn examine(backends: &Backends) -> Vec<Trial> {
    let mut trials = Vec::new();
    for backend in backends.all() {
        for holding in backend.holds() {
            let proof = match holding.is_held {
                false => Proof::NotTried("it says that it does not hold it"),
                true => tried(backend.as_ref(), holding.hold).await,
            };
            let Holding { hold, is_held, how } = holding;
            trials.push(Trial {
                backend: backend.name(),
                what: hold.as_str(),
                is_held,
                how,
                proof,
            });
        }
    }
    trials
}

async fn tried(backend: &dyn Backend, hold: Hold) -> Proof {
    let proof = match hold {
        Hold::Files => files(backend).await,
        Hold::Network => network(backend).await,
        Hold::Environment => environment(backend).await,
        Hold::Tree => tree(backend).await,
        Hold::Processes => processes(backend).await,
        Hold::Kernel => kernel(backend).await,
        Hold::Pids => pids(backend).await,
        Hold::Memory => memory(backend).await,
        Hold::Tmp => tmp(backend).await,
        Hold::AllowList => Ok(Proof::NotTried("it needs somebody to reach")),
        Hold::Cpu => Ok(Proof::NotTried("a share shows only over a long time")),
    };
    proof.unwrap_or_else(|error| Proof::Broken(error.to_string()))
}

/// Runs a script and gives its code and what it said.
async fn said(
    backend: &dyn Backend,
    script: &str,
    limits: Limits,
) -> Result<(i32, String), IsolationError> {
    let limits = Limits { time: limits.time.min(TRIAL_TIME), ..limits };
    let job = Job::new("sh", ["-c", script], Profile::new(backend.mode()).limits(limits));
    let mut text = Vec::new();
    let running = backend.start(job).await?;
    let each = |_, bytes: &[u8]| text.extend_from_slice(bytes);
    let ended = running.drive(Input::Empty, &CancellationToken::new(), each).await?;
    Ok((ended.code, String::from_utf8_lossy(&text).into_owned()))
}

fn judged(is_broken: bool, how: &str) -> Proof {
    match is_broken {
        true => Proof::Broken(how.to_owned()),
        false => Proof::Held,
    }
}

async fn files(backend: &dyn Backend) -> Result<Proof, IsolationError> {
    const CANARY: &str = "canary-of-the-doctor";
    let outside =
        crate::linux::scratch_dir::Scratch::open().map_err(IsolationError::io("no directory"))?;
    let file = outside.path().join("canary");
    std::fs::write(&file, CANARY).map_err(IsolationError::io("no file to look for"))?;
    let script = format!("cat {0}; echo changed > {0}; echo made > {0}.new", file.display());
    let (_, text) = said(backend, &script, Limits::default()).await?;
    let is_same = std::fs::read_to_string(&file).is_ok_and(|text| text == CANARY);
    let is_made = file.with_extension("new").exists();
    Ok(match (text.contains(CANARY), is_same && !is_made) {
        (true, _) => judged(true, "a file outside was read"),
        (false, false) => judged(true, "a file outside was changed or made"),
        (false, true) => Proof::Held,
    })
}

async fn network(backend: &dyn Backend) -> Result<Proof, IsolationError> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(IsolationError::io("no port"))?;
    listener.set_nonblocking(true).map_err(IsolationError::io("no port"))?;
    let address = listener.local_addr().map_err(IsolationError::io("no port"))?;
    let script = format!(
        "command -v bash >/dev/null || exit 9; bash -c 'exec 3<>/dev/tcp/127.0.0.1/{}' 2>/dev/null",
        address.port()
    );
    let (code, _) = said(backend, &script, Limits::default()).await?;
    Ok(match (listener.accept().is_ok(), code) {
        (true, _) => judged(true, "a port of this machine was reached"),
        (false, 9) => Proof::NotTried("there is no bash in the sandbox to connect with"),
        (false, code) => judged(code == 0, "a connection was made"),
    })
}

async fn environment(backend: &dyn Backend) -> Result<Proof, IsolationError> {
    const SHARED: [&str; 9] =
        ["PATH", "HOME", "TMPDIR", "LANG", "PWD", "OLDPWD", "SHLVL", "_", "HOSTNAME"];
    let script = "env; cat /proc/1/environ /proc/self/environ 2>/dev/null | tr '\\0' '\\n'";
    let (_, text) = said(backend, script, Limits::default()).await?;
    let is_ours = |line: &str| {
        let name = line.split('=').next().unwrap_or(line);
        line.contains('=') && !SHARED.contains(&name) && std::env::var_os(name).is_some()
    };
    let leaked = text.lines().find(|line| is_ours(line));
    let name = leaked.and_then(|line| line.split('=').next());
    Ok(match name {
        Some(name) => judged(true, &format!("our variable `{name}` was seen")),
        None => Proof::Held,
    })
}

async fn tree(backend: &dyn Backend) -> Result<Proof, IsolationError> {
    let mark = format!("86399.{}", std::process::id());
    let script = format!(
        "(setsid sleep {mark} >/dev/null 2>&1 &); sh -c '(sleep {mark} >/dev/null 2>&1 &)'"
    );
    said(backend, &script, Limits::default()).await?;
    let entries = std::fs::read_dir("/proc").map_err(IsolationError::io("there is no /proc"))?;
    let mut lines =
        entries.flatten().filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let is_left = lines.any(|line| line.windows(mark.len()).any(|part| part == mark.as_bytes()));
    Ok(judged(is_left, "a process was left"))
}

async fn processes(backend: &dyn Backend) -> Result<Proof, IsolationError> {
    let pid = std::process::id();
    let script =
        format!("cat /proc/{pid}/cmdline 2>/dev/null; kill -0 {pid} 2>/dev/null && echo reached");
    let (_, text) = said(backend, &script, Limits::default()).await?;
    let own = std::fs::read_to_string("/proc/self/cmdline").unwrap_or_default();
    let is_seen = !own.is_empty() && text.contains(own.trim_end_matches('\0'));
    Ok(judged(
        is_seen || text.contains("reached"),
        "this very process was seen or could be signalled",
    ))
}

async fn kernel(backend: &dyn Backend) -> Result<Proof, IsolationError> {
    // Where nothing holds it must do no harm either: it mounts on a directory of its own, and sets what is set already.
    let script = "unshare -U true 2>/dev/null && echo space; mkdir -p \"$TMPDIR/m\"; \
         mount -t tmpfs none \"$TMPDIR/m\" 2>/dev/null && { umount \"$TMPDIR/m\"; echo mount; }; \
         v=$(cat /proc/sys/kernel/core_pattern 2>/dev/null) && \
         echo \"$v\" 2>/dev/null >/proc/sys/kernel/core_pattern && echo setting; true";
    let (_, text) = said(backend, script, Limits::default()).await?;
    Ok(match text.trim() {
        "" => Proof::Held,
        what => judged(true, &format!("it got: {}", what.replace('\n', ", "))),
    })
}

async fn pids(backend: &dyn Backend) -> Result<Proof, IsolationError> {
    let limits = Limits { pids: 16, ..Limits::default() };
    let script = "i=0; while [ $i -lt 48 ]; do sleep 9 & i=$((i+1)); done 2>/dev/null; echo all";
    let (_, text) = said(backend, script, limits).await?;
    Ok(judged(text.contains("all"), "48 processes were started where 16 may be"))
}

async fn memory(backend: &dyn Backend) -> Result<Proof, IsolationError> {
    let limits = Limits { memory_bytes: MEMORY_GIVEN, ..Limits::default() };
    let script = format!("head -c {0} /dev/zero | tail -c {0} | wc -c", MEMORY_ASKED);
    let (_, text) = said(backend, &script, limits).await?;
    Ok(judged(text.trim() == MEMORY_ASKED.to_string(), "192 MiB were used where 64 MiB may be"))
}

async fn tmp(backend: &dyn Backend) -> Result<Proof, IsolationError> {
    let limits = Limits { tmp_bytes: 4 << 20, ..Limits::default() };
    let script = "i=0; while [ $i -lt 16 ]; do head -c 1000000 /dev/zero > \"$TMPDIR/$i\" || exit 0; i=$((i+1)); done 2>/dev/null; echo all";
    let (_, text) = said(backend, script, limits).await?;
    Ok(judged(text.contains("all"), "16 MB were kept where 4 MiB may be"))
}
