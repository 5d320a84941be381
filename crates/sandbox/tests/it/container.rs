//! Containers with a root file system that is made here, by every engine that is here.

use std::fs;
use std::path::Path;
use std::time::Duration;

use provost_core::contract::ToolErrorCode;
use provost_core::resource::IsolationMode;
use provost_sandbox::{
    Container, ContainerOptions, ExitReason, IsolationError, IsolationProfile, NetworkAccess,
    ResourceLimits, RootfsSource, SandboxCommand, SandboxRegistry, Stdin, WorkspaceMount,
};

use crate::engines::{Engines, Opened, open};
use crate::stage::{QUIET, marked, run, sh, try_run, until};

fn profile() -> IsolationProfile {
    IsolationProfile::new(IsolationMode::Container)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_runs_in_a_container_and_nothing_is_left() {
    let _alone = QUIET.lock().await;
    let engines = Engines::here();
    for (name, options) in engines.with_rootfs() {
        for warm in [0, 1] {
            let options = ContainerOptions { warm, ..options.clone() };
            let Some(opened) = open(name, options).await else { continue };
            println!("{name}, {warm} waiting");
            guarantees(
                &engines.home().join(format!("files {name} {warm}").replace([' ', ','], "-")),
                &opened.backends,
            )
            .await;
        }
    }
}

/// Checks all guarantees of a container.
async fn guarantees(files: &Path, backends: &SandboxRegistry) {
    let files = files.to_owned();
    let job = sh("cat; id -u; echo no >&2; exit 7", profile()).input(Stdin::Bytes(b"hi ".to_vec()));
    let done = run(backends, job).await;
    assert_eq!((done.out.as_str(), done.ended.code), ("hi 65534\n", 7), "{}", done.err);

    fs::create_dir(&files).unwrap();
    fs::write(files.join("a"), "inside").unwrap();
    let read = profile().workspace(WorkspaceMount::ReadOnly(files.clone()));
    let done =
        run(backends, sh("cat a; touch b; touch /etc/x; env", read).env("COLOUR", "blue")).await;
    assert!(
        done.out.starts_with("inside") && done.out.contains("COLOUR=blue"),
        "{} {}",
        done.out,
        done.err
    );
    assert!(!done.out.contains("CARGO"), "{}", done.out);
    assert!(!files.join("b").exists());
    let write = profile().workspace(WorkspaceMount::ReadWrite(files.clone()));
    assert_eq!(run(backends, sh("echo x > b", write)).await.ended.code, 0);
    assert!(files.join("b").exists());

    let script =
        "grep -o '[a-z0-9]*:' /proc/net/dev; cat /proc/self/status; ls /root /home 2>/dev/null";
    let done = run(backends, sh(script, profile())).await;
    assert!(done.out.starts_with("lo:\nName:"), "{}", done.out);
    assert!(
        done.out.contains("CapEff:\t0000000000000000") && done.out.contains("NoNewPrivs:\t1"),
        "{}",
        done.out
    );
    assert!(done.out.contains("Seccomp:\t2"), "{}", done.out);

    let limits = ResourceLimits {
        memory_bytes: 64 << 20,
        pids: 16,
        time: Duration::from_secs(30),
        ..ResourceLimits::default()
    };
    let script = "head -c 200000000 /dev/zero > /dev/shm/a; i=0; while [ $i -lt 40 ]; do sleep 20 & i=$((i+1)); done; echo all";
    let done = run(backends, sh(script, profile().limits(limits))).await;
    assert!(!done.out.contains("all"), "{}", done.out);

    let mark = format!("95432{}", std::process::id());
    let limits = ResourceLimits { time: Duration::from_millis(1500), ..ResourceLimits::default() };
    let script =
        format!("setsid sh -c 'sleep {mark}' & trap '' 15; while true; do sleep {mark}; done");
    let done = run(backends, sh(&script, profile().limits(limits))).await;
    assert_eq!(done.ended.reason, ExitReason::TimedOut);
    until("the end of a container", || marked(&mark).is_empty()).await;

    let egress = crate::egress::nobody();
    let refused =
        try_run(backends, sh("true", profile().network(NetworkAccess::Allow(egress)))).await;
    assert_eq!(
        refused.err().unwrap().to_contract_error().code,
        ToolErrorCode::IsolationUnavailable
    );
}

fn nowhere() -> RootfsSource {
    RootfsSource::Rootfs("/no/such/directory".into())
}

/// What an operator allows counts, whatever a profile says; and only containers have roots to choose from.
#[tokio::test(flavor = "multi_thread")]
async fn no_job_goes_beyond_the_ceiling_of_the_operator() {
    let _alone = QUIET.lock().await;
    let engines = Engines::here();
    for (name, mut options) in engines.with_rootfs() {
        options.ceiling =
            ResourceLimits { pids: 8, time: Duration::from_secs(20), ..ResourceLimits::default() };
        let Some(Opened { backends, .. }) = open(name, options).await else { continue };
        let wide = ResourceLimits {
            pids: 1_000,
            time: Duration::from_secs(3_600),
            ..ResourceLimits::default()
        };
        let script = "i=0; while [ $i -lt 20 ]; do sleep 5 & i=$((i+1)); done; echo all";
        let done = run(&backends, sh(script, profile().limits(wide))).await;
        assert!(!done.out.contains("all"), "{}", done.out);
        let elsewhere = try_run(&backends, sh("true", profile().source(nowhere()))).await;
        assert_eq!(
            elsewhere.err().unwrap().to_contract_error().code,
            ToolErrorCode::IsolationUnavailable
        );
    }
    let process = SandboxRegistry::detect(None).await;
    let rooted = IsolationProfile::new(IsolationMode::Process).source(nowhere());
    let refused = process.select(&rooted).err().unwrap();
    assert_eq!(refused.to_contract_error().code, ToolErrorCode::IsolationUnavailable, "{refused}");
}

/// A container that waited is for one job: the next one sees nothing of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_warm_container_is_for_one_job() {
    let _alone = QUIET.lock().await;
    let engines = Engines::here();
    for opened in engines.with_machine(/*warm*/ 1).await {
        println!("{}", opened.name);
        waits_for_one_job(&engines, opened).await;
    }
}

async fn waits_for_one_job(engines: &Engines, opened: Opened) {
    let Opened { name, backends } = opened;
    let known = |owner: &str| engines.known(name, owner);
    let script = "cat /tmp/mark 2>/dev/null; echo here > /tmp/mark; sleep 600 & cat; echo \" $A\"";
    // Where its root is tells whose containers these are.
    let told = "grep -o 'provost-sandbox-[0-9-]*' /proc/self/mountinfo | head -n 1";
    let owner = run(&backends, sh(told, profile())).await.out;
    let owner = format!("{}-", owner.trim().replace("sandbox-", ""));
    for _ in 0..4 {
        until("a container that waits", || !known(&owner).is_empty()).await;
        let waited = known(&owner);
        let job = sh(script, profile()).input(Stdin::Bytes(b"in".to_vec())).env("A", "it's $A");
        let done = run(&backends, job).await;
        assert_eq!((done.out.as_str(), done.ended.code), ("in it's $A\n", 0), "{}", done.err);
        assert!(known(&owner).is_disjoint(&waited), "a container that waited was not used");
    }
    let code = run(&backends, sh("exit 9", profile())).await.ended.code;
    assert_eq!(code, 9);
    let missing =
        try_run(&backends, SandboxCommand::new("no-such-program", [] as [&str; 0], profile()))
            .await;
    assert!(missing.is_err_and(|error| matches!(error, IsolationError::Setup { .. })));
    let capabilities = "grep -E 'CapEff|NoNewPrivs|Seccomp:' /proc/self/status; ulimit -n; id -u";
    let said = run(&backends, sh(capabilities, profile())).await.out;
    for expected in ["CapEff:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2", "256\n65534"] {
        assert!(said.contains(expected), "{said}");
    }
    drop(backends);
    until("they go with whoever had made them", || known(&owner).is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_engine_or_an_image_there_is_no_container() {
    let missing = ContainerOptions::new("no-such-engine", RootfsSource::Image("x".to_owned()));
    let refused = Container::open(missing).await.err().unwrap();
    assert_eq!(refused.to_contract_error().code, ToolErrorCode::IsolationUnavailable, "{refused}");
    for (_, mut options) in Engines::here().with_rootfs() {
        for source in [RootfsSource::Image("localhost/no-such-image:1".to_owned()), nowhere()] {
            options.source = source;
            let refused = Container::open(options.clone()).await.err().unwrap();
            assert_eq!(
                refused.to_contract_error().code,
                ToolErrorCode::IsolationUnavailable,
                "{refused}"
            );
        }
    }
}
