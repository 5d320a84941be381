//! Containers with a root file system that is made here.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use provost_core::contract::ToolCode;
use provost_core::resource::IsolationMode;
use provost_isolation::{
    Backends, Cause, Container, ContainerOptions, Input, Limits, Network, Profile, Source,
    Workspace,
};

use crate::stage::{marked, run, sh, try_run, until};

/// Everything of an engine that must not be shared with the machine's own.
fn options(home: &Path) -> Option<ContainerOptions> {
    let busybox =
        ["/bin/busybox", "/usr/bin/busybox"].into_iter().find(|path| Path::new(path).exists());
    let (Some(busybox), true) = (busybox, Path::new("/usr/bin/podman").exists()) else {
        eprintln!("container is refused here: podman or busybox is not installed");
        return None;
    };
    let root = home.join("rootfs");
    for dir in ["bin", "proc", "sys", "dev", "tmp", "etc", "workspace", "run"] {
        fs::create_dir_all(root.join(dir)).unwrap();
    }
    fs::copy(busybox, root.join("bin/busybox")).unwrap();
    for applet in [
        "sh", "true", "cat", "echo", "sleep", "id", "ls", "head", "wc", "touch", "env", "yes",
        "setsid",
    ] {
        symlink("busybox", root.join("bin").join(applet)).unwrap();
    }
    let mut options = ContainerOptions::new("podman", Source::Rootfs(root));
    let at = |name: &str| home.join(name).to_string_lossy().into_owned();
    options.engine_args = vec![
        format!("--root={}", at("store")),
        format!("--runroot={}", at("run")),
        format!("--tmpdir={}", at("tmp")),
        "--cgroup-manager=cgroupfs".to_owned(),
        "--events-backend=file".to_owned(),
        "--storage-driver=vfs".to_owned(),
        "--runtime=runc".to_owned(),
    ];
    Some(options)
}

fn profile() -> Profile {
    Profile::new(IsolationMode::Container)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_runs_in_a_container_and_nothing_is_left() {
    let home = tempfile::tempdir().unwrap();
    let Some(options) = options(home.path()) else { return };
    let container = match Container::open(options.clone()).await {
        Ok(container) => container,
        Err(error) => {
            eprintln!("container is refused here: {error}");
            return;
        }
    };
    let mut backends = Backends::default();
    backends.add(Arc::new(container));
    let job = sh("cat; id -u; echo no >&2; exit 7", profile()).input(Input::Bytes(b"hi ".to_vec()));
    let done = run(&backends, job).await;
    assert_eq!((done.out.as_str(), done.ended.code), ("hi 65534\n", 7), "{}", done.err);

    let files = home.path().join("files");
    fs::create_dir(&files).unwrap();
    fs::write(files.join("a"), "inside").unwrap();
    let read = profile().workspace(Workspace::ReadOnly(files.clone()));
    let done =
        run(&backends, sh("cat a; touch b; touch /etc/x; env", read).env("COLOUR", "blue")).await;
    assert!(
        done.out.starts_with("inside") && done.out.contains("COLOUR=blue"),
        "{} {}",
        done.out,
        done.err
    );
    assert!(!done.out.contains("CARGO"), "{}", done.out);
    assert!(!files.join("b").exists());
    let write = profile().workspace(Workspace::ReadWrite(files.clone()));
    assert_eq!(run(&backends, sh("echo x > b", write)).await.ended.code, 0);
    assert!(files.join("b").exists());

    let script = "ls /sys/class/net; cat /proc/self/status; ls /root /home 2>/dev/null";
    let done = run(&backends, sh(script, profile())).await;
    assert!(done.out.starts_with("lo\n"), "{}", done.out);
    assert!(
        done.out.contains("CapEff:\t0000000000000000") && done.out.contains("NoNewPrivs:\t1"),
        "{}",
        done.out
    );
    assert!(done.out.contains("Seccomp:\t2"), "{}", done.out);

    let limits = Limits {
        memory_bytes: 64 << 20,
        pids: 16,
        time: Duration::from_secs(30),
        ..Limits::default()
    };
    let script = "head -c 200000000 /dev/zero > /dev/shm/a; i=0; while [ $i -lt 40 ]; do sleep 20 & i=$((i+1)); done; echo all";
    let done = run(&backends, sh(script, profile().limits(limits))).await;
    assert!(!done.out.contains("all"), "{}", done.out);

    let mark = format!("95432{}", std::process::id());
    let limits = Limits { time: Duration::from_millis(1500), ..Limits::default() };
    let script =
        format!("setsid sh -c 'sleep {mark}' & trap '' 15; while true; do sleep {mark}; done");
    let done = run(&backends, sh(&script, profile().limits(limits))).await;
    assert_eq!(done.ended.cause, Cause::TimedOut);
    until("the end of a container", || marked(&mark).is_empty()).await;

    let egress = crate::egress::nobody();
    let refused = try_run(&backends, sh("true", profile().network(Network::Allow(egress)))).await;
    assert_eq!(refused.err().unwrap().fault().code, ToolCode::IsolationUnavailable);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_engine_or_an_image_there_is_no_container() {
    let missing = ContainerOptions::new("no-such-engine", Source::Image("x".to_owned()));
    let refused = Container::open(missing).await.err().unwrap();
    assert_eq!(refused.fault().code, ToolCode::IsolationUnavailable, "{refused}");
    let home = tempfile::tempdir().unwrap();
    let Some(mut options) = options(home.path()) else { return };
    options.source = Source::Image("localhost/no-such-image:1".to_owned());
    let refused = Container::open(options).await.err().unwrap();
    assert_eq!(refused.fault().code, ToolCode::IsolationUnavailable, "{refused}");
}
