//! The process inside: it gives up what the program may not have, and becomes the program or its first ancestor.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetStatus, Scope, path_beneath_rules,
};
use rustix::io::Errno;
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitOptions, set_parent_process_death_signal, setrlimit, setsid,
    wait,
};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

use super::order::{Order, Orders};
use super::{FAILED, READY_FILE, listen};
use crate::egress::PORT;
use crate::linux::process_tree;
use crate::linux::seccomp::{self, Shared, Sockets};

/// Without it a file outside could be cut to nothing.
const FILES_NEEDED: ABI = ABI::V3;
/// What is taken where the kernel has it.
const WANTED: ABI = ABI::V6;

pub(super) fn run(orders: &Orders, order: &Order) -> io::Result<ExitCode> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    setsid()?;
    if let Some(entrance) = &orders.entrance {
        // Its threads keep what this one gives up now: the entrance is a socket by a path.
        listen(PORT, entrance)?;
    }
    let mut ready = File::create(orders.dir.join(READY_FILE))?;
    if let Some(pids) = orders.pids {
        // Without a name space the kernel counts all that the user runs on this machine.
        let user = rustix::process::getuid().as_raw();
        let others = if orders.has_namespaces { 0 } else { process_tree::tasks_of(user) };
        let pids = pids + others;
        setrlimit(Resource::Nproc, Rlimit { current: Some(pids), maximum: Some(pids) })?;
    }
    drop_capabilities()?;
    set_no_new_privs(true)?;
    std::env::set_current_dir(&orders.start)?;
    restrict(orders).map_err(io::Error::other)?;
    let sockets = match &orders.entrance {
        Some(_) => Sockets::OwnInternet,
        None => Sockets::None,
    };
    let root = rustix::process::geteuid().is_root() || orders.is_root;
    let shared = Shared { queues: !orders.has_namespaces, files: true, root };
    let filter = seccomp::filter(sockets, shared).map_err(io::Error::other)?;
    seccompiler::apply_filter(&filter).map_err(io::Error::other)?;
    let (program, args) = order.program()?;
    let mut command = Command::new(program);
    command.args(args).env_clear().envs(&order.env);
    if !orders.has_namespaces {
        ready.write_all(b"ok")?;
        let error = command.exec();
        ready.set_len(0)?;
        return Err(error);
    }
    let child = command.spawn()?;
    ready.write_all(b"ok")?;
    let child = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    Ok(ExitCode::from(fetch(child)))
}

/// Fetches whoever ends, until it is the program.
fn fetch(child: Option<Pid>) -> u8 {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if Some(pid) == child => {
                let signalled = || status.terminating_signal().map(|signal| 128 + signal);
                let code = status.exit_status().or_else(signalled);
                return code.and_then(|code| u8::try_from(code).ok()).unwrap_or(FAILED);
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return FAILED,
        }
    }
}

/// Gives up what root may do. Whoever is not root has nothing to give up.
fn drop_capabilities() -> io::Result<()> {
    for capability in CapabilitySet::all().iter() {
        match remove_capability_from_bounding_set(capability) {
            // It is not there, or it is not ours to give up: then nothing can be gained from it either.
            Ok(()) | Err(Errno::INVAL | Errno::PERM) => {}
            Err(error) => return Err(error.into()),
        }
    }
    clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    Ok(())
}

/// From here on there are no files but those of the orders.
fn restrict(orders: &Orders) -> Result<(), String> {
    let told = |error: landlock::RulesetError| error.to_string();
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(FILES_NEEDED))
        .map_err(told)?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(WANTED))
        .and_then(|ruleset| ruleset.scope(Scope::from_all(WANTED)))
        .map_err(told)?;
    if orders.entrance.is_none() {
        ruleset = ruleset.handle_access(AccessNet::from_all(WANTED)).map_err(told)?;
    }
    let devices = AccessFs::ReadFile | AccessFs::WriteFile;
    let status = ruleset
        .create()
        .and_then(|ruleset| {
            ruleset
                .add_rules(path_beneath_rules(&orders.read, AccessFs::from_read(WANTED)))?
                .add_rules(path_beneath_rules(&orders.write, AccessFs::from_all(WANTED)))?
                .add_rules(path_beneath_rules(&orders.devices, devices))?
                .restrict_self()
        })
        .map_err(told)?;
    match status.ruleset {
        RulesetStatus::NotEnforced => Err("the kernel does not keep files apart".to_owned()),
        _ if !status.no_new_privs => Err("privileges could be gained".to_owned()),
        _ => Ok(()),
    }
}
