//! The sandboxes of this machine, for programs that are tools and for programs that are MCP servers.

use std::path::PathBuf;
use std::sync::Arc;

use provost_core::contract::ToolErrorCode;
use provost_core::resource::{IsolationMode, McpIsolation, ProcessLimits};
use provost_sandbox::egress::NetPolicy;
use provost_sandbox::{
    Bubblewrap, Container, ContainerOptions, IsolationError, IsolationProfile, LandlockBackend,
    Launcher, ResourceLimits, RootfsSource, SandboxBackend, SandboxRegistry,
};
use provost_tool_runtime::SandboxConfig;
use serde_json::json;

use crate::mcp;

/// The launcher that is built beside these tests; without it there is no Landlock.
fn launcher() -> Option<Launcher> {
    let own = std::env::current_exe().ok()?;
    let path = own.parent()?.parent()?.join("provost-sandbox");
    path.exists().then(|| Launcher::at(path))
}

fn alone(opened: Result<impl SandboxBackend, IsolationError>) -> Option<SandboxRegistry> {
    let mut backends = SandboxRegistry::default();
    backends.add(Arc::new(opened.ok()?));
    Some(backends)
}

/// Every sandbox that works here, each alone.
pub(crate) async fn all() -> Vec<(&'static str, IsolationMode, SandboxRegistry)> {
    let landlock = match launcher() {
        Some(launcher) => alone(LandlockBackend::open(launcher).await),
        None => None,
    };
    let mut found = vec![
        ("bubblewrap", IsolationMode::Process, alone(Bubblewrap::open(None).await)),
        ("landlock", IsolationMode::Process, landlock),
    ];
    for (name, options) in containers() {
        found.push((name, IsolationMode::Container, alone(Container::open(options).await)));
    }
    found.into_iter().filter_map(|(name, mode, found)| Some((name, mode, found?))).collect()
}

/// Every engine for containers that may be here, with the programs of this machine, without and with containers that wait.
fn containers() -> [(&'static str, ContainerOptions); 6] {
    let of = |engine: &str, warm| ContainerOptions {
        warm,
        engine_args: if engine == "podman" { podman_args() } else { Vec::new() },
        ..ContainerOptions::new(engine, RootfsSource::Host)
    };
    [
        ("runc", of("runc", 0)),
        ("runc, warm", of("runc", 2)),
        ("crun", of("crun", 0)),
        ("crun, warm", of("crun", 2)),
        ("podman", of("podman", 0)),
        ("podman, warm", of("podman", 2)),
    ]
}

/// What podman keeps is not among what the machine's own keeps.
fn podman_args() -> Vec<String> {
    let home = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("podman");
    let at = |name: &str| home.join(name).to_string_lossy().into_owned();
    vec![
        format!("--root={}", at("store")),
        format!("--runroot={}", at("run")),
        format!("--tmpdir={}", at("tmp")),
        "--cgroup-manager=cgroupfs".to_owned(),
        "--events-backend=file".to_owned(),
        "--storage-driver=vfs".to_owned(),
        "--runtime=runc".to_owned(),
    ]
}

/// A sandbox with these backends.
pub(crate) fn sandbox(mode: IsolationMode, backends: SandboxRegistry) -> SandboxConfig {
    SandboxConfig {
        backends,
        profile: IsolationProfile::new(mode),
        ceiling: ResourceLimits::default(),
        network: NetPolicy::default(),
        log: Arc::new(|_| {}),
    }
}

fn demanded(mode: IsolationMode, dir: &str) -> McpIsolation {
    McpIsolation {
        mode,
        image: None,
        workspace: Some(dir.to_owned()),
        writable: false,
        hosts: Vec::new(),
        resources: ProcessLimits { pids: Some(32), ..ProcessLimits::default() },
    }
}

/// A server in a sandbox answers as one outside, sees nothing but its directory, and is gone with its pool.
#[tokio::test(flavor = "multi_thread")]
async fn an_mcp_server_runs_inside_a_profile() {
    let script = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../mcp/tests/it"));
    let dir = script.canonicalize().unwrap();
    for (name, mode, backends) in all().await {
        let inside = match name {
            "landlock" => dir.join("server.py"),
            _ => PathBuf::from("/workspace/server.py"),
        };
        let backend = backends.clone();
        let starter = sandbox(mode, backends).launcher(
            "default",
            "server",
            &demanded(mode, dir.to_str().unwrap()),
        );
        let mark = format!("inside-{}-{}", std::process::id(), name.len());
        let program = mcp::python_at(inside.to_str().unwrap(), &mark, starter.unwrap());
        let (runtime, pool) = mcp::runtime_with(program);
        let said =
            mcp::echo(&runtime, "grüezi").await.unwrap_or_else(|fault| panic!("{name}: {fault}"));
        assert_eq!(said, "grüezi", "{name}");
        assert_eq!(processes(&mark), 1, "{name}");
        pool.close().await;
        assert_eq!(processes(&mark), 0, "{name}: it is left");
        drop(backend);
    }
}

/// Programs with this among their arguments, sandboxes around them not counted.
fn processes(mark: &str) -> usize {
    let lines = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = lines.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let is_it = |line: &Vec<u8>| {
        let text = String::from_utf8_lossy(line);
        text.contains(mark) && text.split('\0').next().is_some_and(|first| first.contains("python"))
    };
    lines.filter(is_it).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_mcp_server_that_cannot_be_isolated_does_not_run() {
    let nothing = sandbox(IsolationMode::Container, SandboxRegistry::default());
    let starter =
        nothing.launcher("default", "server", &demanded(IsolationMode::Container, "/tmp")).unwrap();
    let program = mcp::python_at("/nowhere.py", "none", starter);
    let (runtime, _pool) = mcp::runtime_with(program);
    // It is refused each time, and never taken for a server that rests.
    for _ in 0..3 {
        let refused = mcp::echo(&runtime, "x").await.unwrap_err();
        assert_eq!(refused.code, ToolErrorCode::IsolationUnavailable, "{refused}");
    }
    let mut wrong = demanded(IsolationMode::Process, "/tmp");
    wrong.hosts = vec!["no host/".to_owned()];
    let refused = nothing.launcher("default", "server", &wrong).err().unwrap();
    assert_eq!(refused.code, ToolErrorCode::RuntimePolicyInvalid, "{}", json!(refused.details));
}
