//! The launcher that has a process ready for the next job.

use std::fs;
use std::sync::Arc;

use provost_sandbox::{Bubblewrap, LandlockBackend, Launcher, SandboxRegistry};

use crate::stage::{launcher, output_of, profile, run, sh, until};

/// The launcher of a backend and the one that waits for its next job, by the directory of a job; none where there are no groups.
fn family(tmp: &str) -> Vec<String> {
    let name = tmp.split('/').find_map(|part| part.strip_prefix("provost-sandbox-")).unwrap();
    let Ok(groups) = fs::read_dir("/sys/fs/cgroup/pids/provost") else { return Vec::new() };
    let own = groups.flatten().filter(|it| {
        let group = it.file_name().to_string_lossy().into_owned();
        group.strip_prefix(name).is_some_and(|rest| rest.starts_with('-'))
    });
    let members: String =
        own.filter_map(|it| fs::read_to_string(it.path().join("cgroup.procs")).ok()).collect();
    let Some(waiting) = members.lines().next() else { return Vec::new() };
    // Both are children of the thread that has started the launcher.
    let threads = fs::read_dir("/proc/self/task").unwrap().flatten();
    let mut lists = threads.filter_map(|it| fs::read_to_string(it.path().join("children")).ok());
    let list = lists.find(|list| list.split_whitespace().any(|pid| pid == waiting));
    list.unwrap_or_default().split_whitespace().map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_somebody_has_ended_is_started_again_by_the_next_job() {
    let Ok(backend) = LandlockBackend::open(launcher()).await else { return };
    let mut backends = SandboxRegistry::default();
    backends.add(Arc::new(backend));
    // The launcher is the elder of the two.
    for ended in [&[0][..], &[1], &[0, 1]] {
        let tmp = output_of(&backends, "echo $TMPDIR", profile()).await;
        let family = family(tmp.trim());
        for pid in ended.iter().filter_map(|at: &usize| family.get(*at)) {
            std::process::Command::new("kill").args(["-9", pid]).status().unwrap();
            let stat = || fs::read_to_string(format!("/proc/{pid}/stat"));
            until("its end", || stat().map_or(true, |told| told.contains(") Z"))).await;
        }
        let done = run(&backends, sh("echo on", profile())).await;
        assert_eq!(done.out, "on\n");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_go_on_without_it() {
    let Ok(backend) = LandlockBackend::open(launcher()).await else { return };
    let mut backends = SandboxRegistry::default();
    backends.add(Arc::new(backend));
    let tmp = output_of(&backends, "echo $TMPDIR", profile()).await;
    let many = (0..8).map(|_| output_of(&backends, "sleep 0.5; echo on", profile()));
    let end = async {
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        // It is the one that is in no group of ours.
        let family = family(tmp.trim());
        let is_launcher = |pid: &&String| {
            let line = fs::read(format!("/proc/{pid}/cgroup")).unwrap_or_default();
            !String::from_utf8_lossy(&line).contains("provost")
        };
        for pid in family.iter().filter(is_launcher) {
            std::process::Command::new("kill").args(["-9", pid]).status().unwrap();
        }
    };
    let (said, ()) = futures::future::join(futures::future::join_all(many), end).await;
    assert_eq!(said, ["on\n"; 8]);
}

#[tokio::test(flavor = "multi_thread")]
async fn bubblewrap_works_without_one() {
    for none in [None, Some(Launcher::at("/bin/true")), Some(Launcher::at("/no/such/launcher"))] {
        let Ok(backend) = Bubblewrap::open(none.clone()).await else {
            assert_eq!(none, None, "only without bwrap there is no backend");
            return;
        };
        let mut backends = SandboxRegistry::default();
        backends.add(Arc::new(backend));
        assert_eq!(output_of(&backends, "ulimit -n", profile()).await, "256\n");
        let denied = run(&backends, sh("unshare -U true || ls /etc/shadow", profile())).await;
        assert_ne!(denied.ended.code, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_but_its_standard_files_is_open_to_a_program() {
    let Ok(backend) = Bubblewrap::open(Some(launcher())).await else { return };
    let mut backends = SandboxRegistry::default();
    backends.add(Arc::new(backend));
    // The fourth is the directory that is listed.
    assert_eq!(output_of(&backends, "ls /proc/self/fd | wc -l", profile()).await, "4\n");
}
