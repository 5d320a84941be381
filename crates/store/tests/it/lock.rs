//! Locks prove who is dead.

use std::path::PathBuf;

use provost_core::{Env, WorkerId};
use provost_store::{StoreError, WorkerLock, is_unlocked};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::child::Process;
use crate::fixture::Fixture;

#[test]
fn a_lock_is_held_once_and_free_when_it_is_dropped() {
    let fixture = Fixture::sqlite();
    let dir = fixture.open().lock_dir();
    let worker: WorkerId = fixture.env.id();
    let lock = WorkerLock::acquire(&dir, worker).unwrap();
    let path = lock.path().to_owned();
    assert!(!is_unlocked(&path).unwrap());
    let second = WorkerLock::acquire(&dir, worker).unwrap_err();
    assert_eq!(second, StoreError::Locked { path: path.clone() });
    let other = WorkerLock::acquire(&dir, Env::simulated(9).id()).unwrap();
    assert_ne!(other.path(), path);
    drop(lock);
    assert!(is_unlocked(&path).unwrap());
    assert!(!path.exists(), "a clean end leaves no file");
}

#[test]
fn a_frozen_process_keeps_its_lock_and_a_killed_one_loses_it_at_once() {
    let fixture = Fixture::sqlite();
    let mut process = Process::start("hold-node-lock", fixture.dir.path());
    let word = process.hear().unwrap();
    let (orphan, path) = word.split_once(' ').unwrap();
    let (orphan, path) = (Pid::from_raw(orphan.parse().unwrap()).unwrap(), PathBuf::from(path));
    assert!(!is_unlocked(&path).unwrap());
    process.signal(Signal::STOP);
    assert!(!is_unlocked(&path).unwrap(), "frozen is not dead");
    process.kill();
    // What it had started still runs, and does not keep the lock.
    test_kill_process(orphan).unwrap();
    assert!(is_unlocked(&path).unwrap());
    kill_process(orphan, Signal::KILL).unwrap();
}
