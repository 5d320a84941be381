//! After many jobs that were killed at random nothing is left.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use provost_sandbox::{ResourceLimits, SandboxRegistry};
use tokio_util::sync::CancellationToken;

use crate::engines::Engines;
use crate::stage::{QUIET, everything, marked, profile_for, sh, until};

/// Jobs for each backend; `SANDBOX_JOBS` output_of another number.
const JOBS_DEFAULT: usize = 40;
/// Jobs at the same time.
const AT_ONCE: usize = 8;

/// How the command line of a launcher ends that waits, and of one that waits in a sandbox.
const LAUNCHER: &[u8] = b"__sandbox\0starter\0";
const LAUNCHER_INSIDE: &[u8] = b"__sandbox\0inside\0";
/// What the directories of jobs begin with.
const PREFIX: &str = "provost-sandbox-";

/// Where control groups of ours can be.
fn trees() -> [PathBuf; 4] {
    let trees = ["pids", "memory", "cpu", "."];
    trees.map(|tree| Path::new("/sys/fs/cgroup").join(tree).join("provost"))
}

/// The groups of this process; those in which somebody waits for the next job of a backend only if they are asked for.
fn groups(waiting: bool) -> Vec<String> {
    let owner = format!("{}-", std::process::id());
    let dirs = trees();
    let entries = dirs.iter().filter_map(|dir| fs::read_dir(dir).ok()).flatten().flatten();
    let entries = entries.filter(|entry| waiting || !is_waited_in(&entry.path()));
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with(&owner)).collect()
}

/// True if somebody in a group waits for the next job of a backend.
fn is_waited_in(group: &Path) -> bool {
    let members = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    members.lines().any(|pid| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.ends_with(LAUNCHER) || line.ends_with(LAUNCHER_INSIDE)
    })
}

/// True if somebody waits for the next job with a directory, which has the name of a group.
fn is_waited_with(dir: &Path) -> bool {
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let owner = dir.parent().map(name).unwrap_or_default();
    let group = format!("{}-{}", owner.trim_start_matches(PREFIX), name(dir));
    trees().iter().any(|tree| is_waited_in(&tree.join(&group)))
}

/// The launchers below this process.
fn launchers() -> Vec<String> {
    let threads = fs::read_dir("/proc/self/task").unwrap().flatten();
    let lists = threads.filter_map(|it| fs::read_to_string(it.path().join("children")).ok());
    let pids: Vec<String> = lists
        .flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    let line = |pid: &String| fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    pids.into_iter().filter(|pid| line(pid).ends_with(LAUNCHER)).collect()
}

/// The directories of jobs of this process; those that are for the next job of a backend only if they are asked for.
fn directories(waiting: bool) -> Vec<PathBuf> {
    let owner = format!("{PREFIX}{}-", std::process::id());
    let own = fs::read_dir(std::env::temp_dir()).unwrap().flatten();
    let own = own.filter(|entry| entry.file_name().to_string_lossy().starts_with(&owner));
    let jobs = own.filter_map(|entry| fs::read_dir(entry.path()).ok()).flatten().flatten();
    let is_job = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_empty = fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
        let is_next = || is_empty || is_waited_with(path);
        name.bytes().all(|byte| byte.is_ascii_digit()) && (waiting || !is_next())
    };
    jobs.map(|entry| entry.path()).filter(is_job).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn after_random_kills_no_process_directory_mount_or_group_is_left() {
    let _alone = QUIET.lock().await;
    let jobs = std::env::var("SANDBOX_JOBS").ok().and_then(|text| text.parse().ok());
    let jobs: usize = jobs.unwrap_or(JOBS_DEFAULT);
    let engines = Engines::here();
    // To make a container with an engine takes longer than all else together.
    let share = |name: &str| if name == "podman" { jobs.div_ceil(10) } else { jobs };
    // Many jobs take long: `SANDBOX_ONLY` names one sandbox.
    let only = std::env::var("SANDBOX_ONLY").ok();
    let is_wanted = |name: &str| only.as_deref().is_none_or(|only| only == name);
    for stage in everything(&engines).await.into_iter().filter(|stage| is_wanted(stage.0)) {
        let (name, backends) = stage;
        kill_at_random(&engines, name, backends, share(name)).await;
    }
    // Only now: what waits is there as long as its backend.
    let warm = engines.with_machine(/*warm*/ 2).await.into_iter();
    for opened in warm.filter(|opened| is_wanted(opened.name)) {
        let jobs = share(opened.name);
        kill_at_random(&engines, opened.name, opened.backends, jobs).await;
    }
    if std::env::var_os("SANDBOX_JOBS").is_some() {
        // No other test runs then: nobody has a backend any more, and nobody waits for a job.
        until("the end of all groups", || groups(true).is_empty()).await;
        until("the end of all directories", || directories(true).is_empty()).await;
        until("the end of all launchers", || launchers().is_empty()).await;
    }
}

async fn kill_at_random(engines: &Engines, name: &str, backends: SandboxRegistry, jobs: usize) {
    let began = std::time::Instant::now();
    let mounts = || fs::read_to_string("/proc/self/mounts").unwrap().lines().count();
    let before = mounts();
    let mark = format!("96543.{}{}", name.len(), std::process::id());
    let script =
        format!("(sleep {mark} &) ; sleep 0.0$(( $$ % 9 )); [ -z \"$HOLD\" ] || sleep {mark}");
    let mut running = tokio::task::JoinSet::new();
    for turn in 0..jobs {
        if running.len() >= AT_ONCE {
            running.join_next().await;
        }
        // Some end by themselves, some by their time, some are asked, some are dropped at any moment of their life.
        let time = Duration::from_millis(1 + (turn as u64 * 7) % 60);
        let limits = match turn % 4 {
            1 => ResourceLimits { time, ..ResourceLimits::default() },
            _ => ResourceLimits::default(),
        };
        let mut job = sh(&script, profile_for(&backends).limits(limits));
        if turn % 4 != 0 {
            job = job.env("HOLD", "1");
        }
        let (backends, cancel) = (backends.clone(), CancellationToken::new());
        running.spawn(async move {
            let stop = cancel.clone();
            let ended = backends.run(job, &cancel, |_, _| {});
            let later = async move {
                tokio::time::sleep(time).await;
                stop.cancel();
                std::future::pending::<()>().await;
            };
            match turn % 4 {
                2 => tokio::select! { _ = ended => {}, () = later => {} },
                3 => drop(tokio::time::timeout(time, ended).await),
                _ => drop(ended.await),
            }
        });
    }
    while running.join_next().await.is_some() {}
    drop(backends);
    until("the end of all processes", || marked(&mark).is_empty()).await;
    let owner = format!("provost-{}-", std::process::id());
    let containers = || engines.known(name, &owner);
    // Other tests of this process may make new ones meanwhile, under new names.
    let (left_groups, left_dirs, left) = (groups(false), directories(false), containers());
    until("the end of all groups", || groups(false).iter().all(|it| !left_groups.contains(it)))
        .await;
    until("the end of all containers", || containers().iter().all(|it| !left.contains(it))).await;
    until("the end of all directories", || left_dirs.iter().all(|it| !it.exists())).await;
    // What waited at the beginning may have had some.
    assert!(mounts() <= before, "{name}");
    println!("{name}: {jobs} jobs in {:.1?}, nothing is left", began.elapsed());
}
