//! What holds for every way to keep a process in.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use provost_core::contract::ToolErrorCode;
use provost_core::resource::IsolationMode;
use provost_sandbox::{
    Bubblewrap, ExitReason, Guarantee, IsolationError, IsolationProfile, NetworkAccess,
    ResourceLimits, SandboxCommand, SandboxRegistry, Stdin, WorkspaceMount,
};
use tokio_util::sync::CancellationToken;

use crate::engines::Engines;
use crate::stage::{
    QUIET, all, everything, launcher, marked, output_of, profile, profile_for, run, sh, try_run,
    until,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_program_runs_reads_writes_and_says_how_it_ended() {
    for (name, backends) in all().await {
        let job = sh("cat; echo no >&2; exit 7", profile()).input(Stdin::Bytes(b"hello".to_vec()));
        let done = run(&backends, job).await;
        assert_eq!((done.out.as_str(), done.err.as_str()), ("hello", "no\n"), "{name}");
        assert_eq!((done.ended.reason, done.ended.code), (ExitReason::Exited, 7), "{name}");
        let done = run(&backends, sh("kill -9 $$", profile())).await;
        assert_eq!(done.ended.code, 137, "{name}");
        let big =
            run(&backends, sh("cat | wc -c", profile()).input(Stdin::Bytes(vec![b'x'; 1 << 20])))
                .await;
        assert_eq!(big.out.trim(), "1048576", "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_environment_is_what_the_job_says_and_nothing_else() {
    // Cargo sets it for this very process.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    for (name, backends) in all().await {
        let script = "env; for p in /proc/[0-9]*; do cat $p/environ 2>/dev/null; done; true";
        let job = sh(script, profile()).env("COLOUR", "blue");
        let done = run(&backends, job).await;
        assert!(done.out.contains("COLOUR=blue"), "{name}: {}", done.out);
        assert!(!done.out.contains("CARGO"), "{name}: {}", done.out);
        for line in done.out.replace('\0', "\n").lines().filter(|line| line.contains('=')) {
            let variable = line.split('=').next().unwrap();
            let known = ["PATH", "HOME", "TMPDIR", "LANG", "COLOUR", "PWD", "OLDPWD", "SHLVL", "_"];
            assert!(known.contains(&variable), "{name}: {line}");
        }
    }
}

/// What starts a sandbox runs outside of it: a variable of the program must not count there. This one makes the loader of any
/// program write a file; others make it take in code.
#[tokio::test(flavor = "multi_thread")]
async fn a_variable_of_a_program_counts_for_nobody_outside() {
    let _alone = QUIET.lock().await;
    let engines = Engines::here();
    let mut all = everything(&engines).await;
    if let Ok(backend) = Bubblewrap::open(None).await {
        let mut backends = SandboxRegistry::default();
        backends.add(Arc::new(backend));
        all.push(("bubblewrap without a launcher", backends));
    }
    for (name, backends) in all {
        let dir = tempfile::tempdir().unwrap();
        let trace = dir.path().join("trace");
        let job = sh("env; printf %s \"$MANY\"", profile_for(&backends))
            .env("LD_DEBUG", "files")
            .env("LD_DEBUG_OUTPUT", trace.to_str().unwrap())
            .env("MANY", "one\n=two ' \" $HOME");
        let done = run(&backends, job).await;
        assert!(done.out.contains("LD_DEBUG=files"), "{name}: {} {}", done.out, done.err);
        assert!(done.out.ends_with("one\n=two ' \" $HOME"), "{name}: {}", done.out);
        let left: Vec<_> = fs::read_dir(dir.path()).unwrap().flatten().collect();
        assert!(left.is_empty(), "{name}: {left:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_is_hidden_read_or_changed_as_the_profile_says() {
    for (name, backends) in all().await {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("in"), "inside").unwrap();
        let path = || dir.path().to_owned();
        let read = profile().workspace(WorkspaceMount::ReadOnly(path()));
        assert_eq!(
            output_of(&backends, "cat in; cat \"$WORKSPACE/in\"", read.clone()).await,
            "insideinside"
        );
        let done = run(&backends, sh("echo x > in || echo x > new", read)).await;
        assert_ne!(done.ended.code, 0, "{name}");
        assert_eq!(fs::read_to_string(dir.path().join("in")).unwrap(), "inside", "{name}");
        assert!(!dir.path().join("new").exists(), "{name}");
        let write = profile().workspace(WorkspaceMount::ReadWrite(path()));
        output_of(&backends, "mkdir sub && echo done > sub/out", write.clone()).await;
        assert_eq!(fs::read_to_string(dir.path().join("sub/out")).unwrap(), "done\n", "{name}");
        let mut inner = sh("cat out", write);
        inner.dir = Some("sub".into());
        assert_eq!(run(&backends, inner).await.out, "done\n", "{name}");
        let outside = format!("cat {}/in", dir.path().display());
        assert_ne!(run(&backends, sh(&outside, profile())).await.ended.code, 0, "{name}");
        output_of(&backends, "echo x > \"$TMPDIR/own\" && cat \"$TMPDIR/own\"", profile()).await;
        let gone = run(&backends, sh("cat \"$TMPDIR/own\"", profile())).await;
        assert_ne!(gone.ended.code, 0, "{name}: the directory is private to the job");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn time_is_over_for_all_that_a_program_has_started() {
    const DAEMONS: &str = "trap '' TERM; (setsid sh -c 'trap \"\" TERM; sleep 98765.MARK' >/dev/null 2>&1 &); \
         sh -c '(sleep 98765.MARK &)'; while :; do sleep 1; done";
    for (number, (name, backends)) in all().await.into_iter().enumerate() {
        let mark = format!("{number}{}", std::process::id());
        let limits =
            ResourceLimits { time: Duration::from_millis(400), ..ResourceLimits::default() };
        let job = sh(&DAEMONS.replace("MARK", &mark), profile().limits(limits));
        let done = run(&backends, job).await;
        assert_eq!(done.ended.reason, ExitReason::TimedOut, "{name}");
        assert!(done.ended.duration < Duration::from_secs(8), "{name}: {:?}", done.ended.duration);
        assert_eq!(marked(&format!("98765.{mark}")), [""; 0], "{name}");
        // A program that ends by itself takes its daemons along, too.
        let daemon = format!("(setsid sleep 98764.{mark} >/dev/null 2>&1 &) ; echo ok");
        assert_eq!(output_of(&backends, &daemon, profile()).await, "ok\n");
        assert_eq!(marked(&format!("98764.{mark}")), [""; 0], "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_listens_to_a_request_to_end_may_tidy_up() {
    for (name, backends) in all().await {
        let limits =
            ResourceLimits { time: Duration::from_millis(500), ..ResourceLimits::default() };
        let script = "trap 'echo tidy; exit 3' TERM; echo up; while :; do sleep 0.05; done";
        let done = run(&backends, sh(script, profile().limits(limits))).await;
        assert_eq!(done.ended.reason, ExitReason::TimedOut, "{name}");
        assert_eq!(done.ended.code, 3, "{name}: {} {}", done.out, done.err);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_or_dropped_job_leaves_nothing() {
    for (number, (name, backends)) in all().await.into_iter().enumerate() {
        let mark = format!("97654.{number}{}", std::process::id());
        let script = format!("echo up; sleep {mark} & sleep {mark}");
        let cancel = CancellationToken::new();
        let job = sh(&script, profile());
        let stop = cancel.clone();
        let ended = backends.run(job, &cancel, move |_, _| stop.cancel()).await.unwrap();
        assert_eq!(ended.reason, ExitReason::Cancelled, "{name}");
        assert_eq!(marked(&mark), [""; 0], "{name}");
        let (up, mut seen) = tokio::sync::mpsc::unbounded_channel();
        let job = sh(&script, profile());
        let (running, held) = (backends.clone(), CancellationToken::new());
        let task = tokio::spawn(async move {
            running.run(job, &held, |_, _| up.send(()).unwrap_or_default()).await.map(drop)
        });
        seen.recv().await.unwrap();
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
        until("the end of a dropped job", || marked(&mark).is_empty()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_output_is_cut_and_ended() {
    for (name, backends) in all().await {
        let limits = ResourceLimits { output_bytes: 100_000, ..ResourceLimits::default() };
        let done = run(&backends, sh("yes", profile().limits(limits))).await;
        assert_eq!(done.ended.reason, ExitReason::OutputLimit, "{name}");
        assert_eq!(done.out.len(), 100_000, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_memory_files_and_time_on_the_processor_are_bounded() {
    for (name, backends) in all().await {
        let holds = backends.all().next().unwrap().guarantees();
        let is_held =
            |hold| holds.iter().any(|holding| holding.guarantee == hold && holding.is_enforced);
        let limits = ResourceLimits {
            pids: 20,
            memory_bytes: 64 << 20,
            file_bytes: 1 << 20,
            cpu_time: Duration::from_secs(1),
            time: Duration::from_secs(20),
            ..ResourceLimits::default()
        };
        let bounded = profile().limits(limits);
        if is_held(Guarantee::Pids) {
            let script = "i=0; while [ $i -lt 60 ]; do sleep 5 & i=$((i+1)); done; echo all";
            let done = run(&backends, sh(script, bounded.clone())).await;
            assert!(!done.out.contains("all"), "{name}: {}", done.err);
        }
        if is_held(Guarantee::Memory) {
            let script = "head -c 200000000 /dev/zero | tail -c 190000000 | wc -c; echo $?";
            let done = run(&backends, sh(script, bounded.clone())).await;
            assert!(!done.out.contains("190000000"), "{name}: {}", done.out);
        }
        let script = "head -c 5000000 /dev/zero > \"$TMPDIR/big\"; wc -c < \"$TMPDIR/big\"";
        let done = run(&backends, sh(script, bounded.clone())).await;
        let size: u64 = done.out.trim().parse().unwrap_or(0);
        assert!(size <= 1 << 20, "{name}: {}", done.out);
        let done = run(&backends, sh("while :; do :; done", bounded)).await;
        assert_eq!(done.ended.reason, ExitReason::Exited, "{name}: a signal of the kernel ends it");
        assert!(done.ended.code > 128, "{name}: {}", done.ended.code);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_run_says_so_and_nothing_runs() {
    for (name, backends) in all().await {
        let job = SandboxCommand::new("no-such-program", [] as [&str; 0], profile());
        let refused = try_run(&backends, job).await.err();
        assert!(matches!(refused, Some(IsolationError::NoProgram(_))), "{name}");
        let job = SandboxCommand::new("/usr/bin/no-such-program", [] as [&str; 0], profile());
        let refused = try_run(&backends, job).await.err();
        let fault = refused.unwrap().to_contract_error();
        assert_eq!(fault.code, ToolErrorCode::RuntimePolicyInvalid, "{name}: {}", fault.message);
        let mut job = sh("true", profile());
        job.dir = Some("../..".into());
        assert!(matches!(try_run(&backends, job).await.err(), Some(IsolationError::Invalid(_))));
        let job = sh("true", profile()).env("A=B", "c");
        assert!(matches!(try_run(&backends, job).await.err(), Some(IsolationError::Invalid(_))));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn there_is_no_second_best() {
    let backends = SandboxRegistry::detect(Some(launcher())).await;
    for mode in [IsolationMode::Container, IsolationMode::Wasm, IsolationMode::Sandboxed] {
        let refused = backends.select(&IsolationProfile::new(mode)).err().unwrap();
        assert_eq!(refused.to_contract_error().code, ToolErrorCode::IsolationUnavailable);
        assert!(refused.to_string().contains(mode.as_str()), "{refused}");
    }
    let mut none = IsolationProfile::new(IsolationMode::None);
    none.required = vec![Guarantee::Files];
    let refused = backends.select(&none).err().unwrap();
    assert!(refused.to_string().contains("files"), "{refused}");
    let mut missing = SandboxRegistry::default();
    missing.mark_unavailable(IsolationMode::Process, "`bwrap` is not installed");
    let refused = missing.select(&profile()).err().unwrap();
    assert!(refused.to_string().contains("`bwrap` is not installed"), "{refused}");
    // Without name spaces nothing could keep a program from going around the proxy.
    let (_, bare) = all().await.pop().unwrap();
    if bare
        .all()
        .next()
        .unwrap()
        .guarantees()
        .iter()
        .any(|it| it.guarantee == Guarantee::AllowList && !it.is_enforced)
    {
        let egress = crate::egress::nobody();
        let refused = bare.select(&profile().network(NetworkAccess::Allow(egress))).err().unwrap();
        assert_eq!(refused.to_contract_error().code, ToolErrorCode::IsolationUnavailable);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_backend_says_of_itself_is_true() {
    use provost_sandbox::{SelfTestResult, self_test};
    for (name, backends) in all().await {
        let trials = self_test(&backends).await;
        assert_eq!(trials.len(), Guarantee::ALL.len(), "{name}");
        for trial in &trials {
            assert!(!matches!(trial.result, SelfTestResult::Failed(_)), "{name}: {trial:?}");
        }
        assert!(
            trials.iter().filter(|trial| trial.result == SelfTestResult::Passed).count() >= 7,
            "{name}: {trials:?}"
        );
    }
    // A backend that lies is found out.
    struct Liar(provost_sandbox::NoSandbox);
    impl provost_sandbox::SandboxBackend for Liar {
        fn name(&self) -> &'static str {
            "liar"
        }
        fn mode(&self) -> IsolationMode {
            IsolationMode::None
        }
        fn guarantees(&self) -> Vec<provost_sandbox::GuaranteeStatus> {
            let all = self.0.guarantees().into_iter();
            all.map(|it| provost_sandbox::GuaranteeStatus { is_enforced: true, ..it }).collect()
        }
        fn start(
            &self,
            job: SandboxCommand,
        ) -> futures::future::BoxFuture<'_, Result<provost_sandbox::SandboxedProcess, IsolationError>>
        {
            self.0.start(job)
        }
        fn workspace(&self, workspace: &WorkspaceMount) -> Option<std::path::PathBuf> {
            self.0.workspace(workspace)
        }
    }
    let mut backends = SandboxRegistry::default();
    backends.add(std::sync::Arc::new(Liar(provost_sandbox::NoSandbox::open().unwrap())));
    let trials = self_test(&backends).await;
    let broken: Vec<_> =
        trials.iter().filter(|it| matches!(it.result, SelfTestResult::Failed(_))).collect();
    assert!(broken.len() >= 4, "{broken:?}");
}
