//! System calls that a sandboxed program must not use.
//!
//! The filter is a deny list, because a tool may be any program. It denies calls that change the machine, inspect other
//! processes, create namespaces, or reach kernel subsystems with a history of vulnerabilities.

mod program;
#[cfg(test)]
mod tests;

use seccompiler::BpfProgram;

use crate::error::IsolationError;

/// Sockets that a program may create.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SocketPolicy {
    /// Sockets of its own network namespace, which contains only the proxy.
    OwnNetwork,
    /// IP sockets in its own network namespace. No sockets with a path, because the program sees the paths of the
    /// machine.
    OwnInternet,
    /// Only socket pairs.
    None,
}

/// Denied with any arguments.
const REFUSED: &[(i64, &str)] = &[
    (libc::SYS_acct, "acct"),
    (libc::SYS_add_key, "add_key"),
    (libc::SYS_adjtimex, "adjtimex"),
    (libc::SYS_bpf, "bpf"),
    (libc::SYS_chroot, "chroot"),
    (libc::SYS_clock_adjtime, "clock_adjtime"),
    (libc::SYS_clock_settime, "clock_settime"),
    (libc::SYS_delete_module, "delete_module"),
    (libc::SYS_fanotify_init, "fanotify_init"),
    (libc::SYS_finit_module, "finit_module"),
    (libc::SYS_fsconfig, "fsconfig"),
    (libc::SYS_fsmount, "fsmount"),
    (libc::SYS_fsopen, "fsopen"),
    (libc::SYS_fspick, "fspick"),
    (libc::SYS_init_module, "init_module"),
    (libc::SYS_io_uring_enter, "io_uring_enter"),
    (libc::SYS_io_uring_register, "io_uring_register"),
    (libc::SYS_io_uring_setup, "io_uring_setup"),
    (libc::SYS_kcmp, "kcmp"),
    (libc::SYS_kexec_load, "kexec_load"),
    (libc::SYS_keyctl, "keyctl"),
    (libc::SYS_lookup_dcookie, "lookup_dcookie"),
    (libc::SYS_mount, "mount"),
    (libc::SYS_mount_setattr, "mount_setattr"),
    (libc::SYS_move_mount, "move_mount"),
    (libc::SYS_name_to_handle_at, "name_to_handle_at"),
    (libc::SYS_nfsservctl, "nfsservctl"),
    (libc::SYS_open_by_handle_at, "open_by_handle_at"),
    (libc::SYS_open_tree, "open_tree"),
    (libc::SYS_perf_event_open, "perf_event_open"),
    (libc::SYS_personality, "personality"),
    (libc::SYS_pidfd_getfd, "pidfd_getfd"),
    (libc::SYS_pivot_root, "pivot_root"),
    (libc::SYS_process_madvise, "process_madvise"),
    (libc::SYS_process_vm_readv, "process_vm_readv"),
    (libc::SYS_process_vm_writev, "process_vm_writev"),
    (libc::SYS_ptrace, "ptrace"),
    (libc::SYS_quotactl, "quotactl"),
    (libc::SYS_reboot, "reboot"),
    (libc::SYS_request_key, "request_key"),
    (libc::SYS_setdomainname, "setdomainname"),
    (libc::SYS_sethostname, "sethostname"),
    (libc::SYS_setns, "setns"),
    (libc::SYS_settimeofday, "settimeofday"),
    (libc::SYS_swapoff, "swapoff"),
    (libc::SYS_swapon, "swapon"),
    (libc::SYS_syslog, "syslog"),
    (libc::SYS_umount2, "umount2"),
    (libc::SYS_unshare, "unshare"),
    (libc::SYS_userfaultfd, "userfaultfd"),
    (libc::SYS_vhangup, "vhangup"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_ioperm, "ioperm"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_iopl, "iopl"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_kexec_file_load, "kexec_file_load"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_modify_ldt, "modify_ldt"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_uselib, "uselib"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_ustat, "ustat"),
];

/// Denied if the program shares the message queues and memory segments of the machine.
const SHARED_IPC: &[i64] =
    &[libc::SYS_mq_open, libc::SYS_msgget, libc::SYS_semget, libc::SYS_shmget];

/// Denied if the program sees the files of the machine: Landlock does not control permissions, owners and times.
const METADATA_BY_PATH: &[i64] = &[
    libc::SYS_fchmodat,
    libc::SYS_fchownat,
    SYS_FCHMODAT2,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utimes,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_futimesat,
];
/// System call number that `libc` does not define yet.
const SYS_FCHMODAT2: i64 = 452;
/// Also denied if the program is root: root owns the system files, which it can open for reading.
const METADATA_BY_FD: &[i64] =
    &[libc::SYS_fchmod, libc::SYS_fchown, libc::SYS_fsetxattr, libc::SYS_fremovexattr];

/// Clone flags that create namespaces.
const NAMESPACES: [i32; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];

/// Socket families of a network namespace that contains only the proxy.
const OWN_FAMILIES: [i32; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// Terminal requests that inject input for other programs.
const TERMINAL: [u64; 2] = [libc::TIOCSTI, libc::TIOCLINUX];

/// A system call that is denied under a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SyscallRule {
    number: u32,
    condition: ArgCondition,
    /// Error number that a denied call returns.
    error: u32,
}

/// Condition on one argument under which a call is denied.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ArgCondition {
    /// With any arguments.
    Always,
    /// One of these bits is set.
    AnyBit { argument: u32, bits: u32 },
    /// The lower half of the argument, the only part that the call reads, is one of these values.
    LowIs { argument: u32, values: Vec<u32> },
    /// The complete argument is none of these values.
    NoneOf { argument: u32, values: Vec<u32> },
}

/// Resources of the machine that a sandbox shares, so that the filter must protect them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SharedWithHost {
    /// Message queues and memory segments.
    pub(crate) queues: bool,
    /// The file tree.
    pub(crate) files: bool,
    /// The user, if it is root.
    pub(crate) root: bool,
}

/// Builds the filter.
pub(crate) fn filter(
    sockets: SocketPolicy,
    shared: SharedWithHost,
) -> Result<BpfProgram, IsolationError> {
    let processor = program::processor().ok_or_else(|| IsolationError::Setup {
        backend: "seccomp",
        reason: format!("the system calls of {} are unknown", std::env::consts::ARCH),
    })?;
    Ok(program::assemble(processor, &rules(sockets, shared)))
}

/// Returns all conditionally denied calls, sorted by number.
fn rules(sockets: SocketPolicy, shared: SharedWithHost) -> Vec<SyscallRule> {
    let mut calls = Vec::new();
    let mut refuse = |number: i64, condition: ArgCondition, error: i32| {
        // All system call numbers are small.
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        calls.push(SyscallRule { number, condition, error: error.cast_unsigned() });
    };
    for (call, _) in REFUSED {
        refuse(*call, ArgCondition::Always, libc::EPERM);
    }
    let lists = [
        (SHARED_IPC, shared.queues),
        (METADATA_BY_PATH, shared.files),
        (METADATA_BY_FD, shared.files && shared.root),
    ];
    for (list, _) in lists.into_iter().filter(|(_, is_refused)| *is_refused) {
        for call in list {
            refuse(*call, ArgCondition::Always, libc::EPERM);
        }
    }
    if shared.files {
        // Only with a path: without one, the call changes an open file.
        let condition = ArgCondition::NoneOf { argument: 1, values: vec![0] };
        refuse(libc::SYS_utimensat, condition, libc::EPERM);
    }
    let bits = NAMESPACES.into_iter().fold(0, |all, flag| all | flag.cast_unsigned());
    refuse(libc::SYS_clone, ArgCondition::AnyBit { argument: 0, bits }, libc::EPERM);
    let values = TERMINAL.iter().filter_map(|request| u32::try_from(*request).ok()).collect();
    refuse(libc::SYS_ioctl, ArgCondition::LowIs { argument: 1, values }, libc::EPERM);
    let families: &[i32] = match sockets {
        SocketPolicy::OwnNetwork => &OWN_FAMILIES,
        SocketPolicy::OwnInternet => &[libc::AF_INET, libc::AF_INET6],
        SocketPolicy::None => &[],
    };
    let condition = match families {
        [] => ArgCondition::Always,
        _ => {
            let values = families.iter().map(|family| family.cast_unsigned()).collect();
            ArgCondition::NoneOf { argument: 0, values }
        }
    };
    refuse(libc::SYS_socket, condition, libc::EPERM);
    // The flags are behind a pointer, which a filter cannot read. Without the call, libraries use `clone`.
    refuse(libc::SYS_clone3, ArgCondition::Always, libc::ENOSYS);
    calls.sort_by_key(|call| call.number);
    calls
}

/// Returns the same filter in the OCI format, for a program with its own network and files.
pub(crate) fn oci() -> serde_json::Value {
    use serde_json::json;
    /// No socket family has a higher number.
    const FAMILY_MAX: i32 = 64;
    let deny = |names: &[&str], errno: i32, args: serde_json::Value| json!({ "names": names, "action": "SCMP_ACT_ERRNO", "errnoRet": errno, "args": args });
    let masked = |index: u32, mask: u64, value: u64| json!([{ "index": index, "value": mask, "valueTwo": value, "op": "SCMP_CMP_MASKED_EQ" }]);
    let refused: Vec<&str> = REFUSED.iter().map(|(_, name)| *name).collect();
    let mut calls = vec![deny(&refused, libc::EPERM, json!([]))];
    calls.push(deny(&["clone3"], libc::ENOSYS, json!([])));
    for flag in NAMESPACES.map(|flag| u64::from(flag.cast_unsigned())) {
        calls.push(deny(&["clone"], libc::EPERM, masked(0, flag, flag)));
    }
    for request in TERMINAL {
        calls.push(deny(&["ioctl"], libc::EPERM, masked(1, u64::from(u32::MAX), request)));
    }
    // Conditions on one argument are alternatives in this format, so each denied family has its own rule.
    for family in (0..FAMILY_MAX).filter(|family| !OWN_FAMILIES.contains(family)) {
        let is_family = json!([{ "index": 0, "value": family, "op": "SCMP_CMP_EQ" }]);
        calls.push(deny(&["socket"], libc::EPERM, is_family));
    }
    // A call of another architecture kills the program.
    json!({ "defaultAction": "SCMP_ACT_ALLOW", "syscalls": calls })
}

/// Encodes a filter in the binary format of the kernel.
pub(crate) fn encode(program: &BpfProgram) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(program.len() * 8);
    for step in program {
        bytes.extend_from_slice(&step.code.to_ne_bytes());
        bytes.extend_from_slice(&[step.jt, step.jf]);
        bytes.extend_from_slice(&step.k.to_ne_bytes());
    }
    bytes
}
