//! The process inside the sandbox: it drops its rights, then executes the program or becomes its init process.

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

use super::order::{LandlockLaunch, LaunchOrder};
use super::{FAILED, READY_FILE, listen};
use crate::egress::PORT;
use crate::linux::process_tree;
use crate::linux::seccomp::{self, SharedWithHost, SocketPolicy};

/// Minimum Landlock version. Earlier versions cannot prevent truncation of files outside.
const LANDLOCK_ABI_REQUIRED: ABI = ABI::V3;
/// Preferred Landlock version. Its restrictions apply if the kernel supports them.
const LANDLOCK_ABI_PREFERRED: ABI = ABI::V6;

/// Restricts this process and runs the program: relay, process limit, capabilities, Landlock, then seccomp. Without
/// namespaces, the program replaces this process; otherwise returns its exit code.
pub(super) fn run(launch: &LandlockLaunch, order: &LaunchOrder) -> io::Result<ExitCode> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    setsid()?;
    if let Some(proxy_socket) = &launch.proxy_socket {
        // The relay threads must start before the restrictions apply, because the proxy is a socket with a path.
        listen(PORT, proxy_socket)?;
    }
    let mut ready = File::create(launch.dir.join(READY_FILE))?;
    if let Some(pids) = launch.pids {
        // Without a user namespace, the kernel counts all processes of the user on this machine.
        let user = rustix::process::getuid().as_raw();
        let existing = if launch.has_namespaces { 0 } else { process_tree::tasks_of(user) };
        let pids = pids + existing;
        setrlimit(Resource::Nproc, Rlimit { current: Some(pids), maximum: Some(pids) })?;
    }
    drop_capabilities()?;
    set_no_new_privs(true)?;
    std::env::set_current_dir(&launch.start)?;
    restrict(launch).map_err(io::Error::other)?;
    let sockets = match &launch.proxy_socket {
        Some(_) => SocketPolicy::OwnInternet,
        None => SocketPolicy::None,
    };
    let root = rustix::process::geteuid().is_root() || launch.is_root;
    let shared = SharedWithHost { queues: !launch.has_namespaces, files: true, root };
    let filter = seccomp::filter(sockets, shared).map_err(io::Error::other)?;
    seccompiler::apply_filter(&filter).map_err(io::Error::other)?;
    let (program, args) = order.program()?;
    let mut command = Command::new(program);
    command.args(args).env_clear().envs(&order.env);
    if !launch.has_namespaces {
        ready.write_all(b"ok")?;
        let error = command.exec();
        ready.set_len(0)?;
        return Err(error);
    }
    let child = command.spawn()?;
    ready.write_all(b"ok")?;
    let child = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    Ok(ExitCode::from(reap_until_exit(child)))
}

/// Reaps child processes until the program exits. Returns its exit code.
fn reap_until_exit(child: Option<Pid>) -> u8 {
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

/// Drops all capabilities. Without root, there are none to drop.
fn drop_capabilities() -> io::Result<()> {
    for capability in CapabilitySet::all().iter() {
        match remove_capability_from_bounding_set(capability) {
            // The kernel does not know the capability, or the process may not drop it. In both cases the process cannot
            // gain it.
            Ok(()) | Err(Errno::INVAL | Errno::PERM) => {}
            Err(error) => return Err(error.into()),
        }
    }
    clear_ambient_capability_set()?;
    let empty = CapabilitySet::empty();
    set_capabilities(
        None,
        CapabilitySets { effective: empty, permitted: empty, inheritable: empty },
    )?;
    Ok(())
}

/// Applies a Landlock rule set that denies all files except the paths of the launch order.
fn restrict(launch: &LandlockLaunch) -> Result<(), String> {
    let text = |error: landlock::RulesetError| error.to_string();
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(LANDLOCK_ABI_REQUIRED))
        .map_err(text)?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(LANDLOCK_ABI_PREFERRED))
        .and_then(|ruleset| ruleset.scope(Scope::from_all(LANDLOCK_ABI_PREFERRED)))
        .map_err(text)?;
    if launch.proxy_socket.is_none() {
        ruleset =
            ruleset.handle_access(AccessNet::from_all(LANDLOCK_ABI_PREFERRED)).map_err(text)?;
    }
    let devices = AccessFs::ReadFile | AccessFs::WriteFile;
    let status = ruleset
        .create()
        .and_then(|ruleset| {
            ruleset
                .add_rules(path_beneath_rules(
                    &launch.read,
                    AccessFs::from_read(LANDLOCK_ABI_PREFERRED),
                ))?
                .add_rules(path_beneath_rules(
                    &launch.write,
                    AccessFs::from_all(LANDLOCK_ABI_PREFERRED),
                ))?
                .add_rules(path_beneath_rules(&launch.devices, devices))?
                .restrict_self()
        })
        .map_err(text)?;
    match status.ruleset {
        RulesetStatus::NotEnforced => Err("the kernel does not enforce Landlock".to_owned()),
        _ if !status.no_new_privs => Err("no_new_privs is not set".to_owned()),
        _ => Ok(()),
    }
}
