//! Calls into the kernel that a sandboxed program does not get.
//!
//! A list of what is refused, not of what is allowed: a tool may be any program. What is on it lets a program change the
//! machine, look into others, make name spaces or reach parts of the kernel with a history of holes.

mod program;
#[cfg(test)]
mod tests;

use seccompiler::BpfProgram;

use crate::error::IsolationError;

/// Which sockets a program may make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sockets {
    /// Those of its own network: there is nothing in it but what we put there.
    OwnNetwork,
    /// Those over IP, in its own network; none by a path, since paths are those of the machine.
    OwnInternet,
    /// None at all but pairs.
    None,
}

/// Refused whatever their arguments are.
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

/// Refused where a program shares the queues and segments of the machine.
const SHARED: &[i64] = &[libc::SYS_mq_open, libc::SYS_msgget, libc::SYS_semget, libc::SYS_shmget];

/// Refused where a program sees the files of the machine: Landlock does not look at rights, owners and times.
const MARKS_BY_PATH: &[i64] = &[
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
/// Newer than the list of numbers that is at hand.
const SYS_FCHMODAT2: i64 = 452;
/// Refused, too, where the program is root: it owns the files of the system, which it may open to read.
const MARKS_BY_FILE: &[i64] =
    &[libc::SYS_fchmod, libc::SYS_fchown, libc::SYS_fsetxattr, libc::SYS_fremovexattr];

/// The flags of a new process that make name spaces.
const NAMESPACES: [i32; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];

/// The sockets of a network that has nothing in it but what we put there.
const OWN_FAMILIES: [i32; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// Requests to a terminal that put words into somebody else's mouth.
const TERMINAL: [u64; 2] = [libc::TIOCSTI, libc::TIOCLINUX];

/// A call that is not for everybody.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Call {
    number: u32,
    when: When,
    /// What it says when it is refused.
    error: u32,
}

/// When a call is refused, by one of its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
enum When {
    /// Whatever its arguments are.
    Always,
    /// One of these bits is set.
    AnyBit { argument: u32, bits: u32 },
    /// The lower half, which is all that the call looks at, is one of these.
    LowIs { argument: u32, values: Vec<u32> },
    /// The whole of it is none of these.
    NoneOf { argument: u32, values: Vec<u32> },
}

/// What a sandbox shares with the machine, so that a filter must keep it away.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Shared {
    /// Queues and segments of memory.
    pub(crate) queues: bool,
    /// The tree of files.
    pub(crate) files: bool,
    /// The user, if that is root.
    pub(crate) root: bool,
}

/// Makes the filter.
pub(crate) fn filter(sockets: Sockets, shared: Shared) -> Result<BpfProgram, IsolationError> {
    let processor = program::processor().ok_or_else(|| IsolationError::Setup {
        backend: "seccomp",
        why: format!("the calls of {} are not known", std::env::consts::ARCH),
    })?;
    Ok(program::assemble(processor, &calls(sockets, shared)))
}

/// All calls that are not for everybody, in order.
fn calls(sockets: Sockets, shared: Shared) -> Vec<Call> {
    let mut calls = Vec::new();
    let mut refuse = |number: i64, when: When, error: i32| {
        // All numbers of calls are small.
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        calls.push(Call { number, when, error: error.cast_unsigned() });
    };
    for (call, _) in REFUSED {
        refuse(*call, When::Always, libc::EPERM);
    }
    let lists = [
        (SHARED, shared.queues),
        (MARKS_BY_PATH, shared.files),
        (MARKS_BY_FILE, shared.files && shared.root),
    ];
    for (list, _) in lists.into_iter().filter(|(_, is_refused)| *is_refused) {
        for call in list {
            refuse(*call, When::Always, libc::EPERM);
        }
    }
    if shared.files {
        // With a path; without one it is about a file that is open.
        let when = When::NoneOf { argument: 1, values: vec![0] };
        refuse(libc::SYS_utimensat, when, libc::EPERM);
    }
    let bits = NAMESPACES.into_iter().fold(0, |all, flag| all | flag.cast_unsigned());
    refuse(libc::SYS_clone, When::AnyBit { argument: 0, bits }, libc::EPERM);
    let values = TERMINAL.iter().filter_map(|request| u32::try_from(*request).ok()).collect();
    refuse(libc::SYS_ioctl, When::LowIs { argument: 1, values }, libc::EPERM);
    let families: &[i32] = match sockets {
        Sockets::OwnNetwork => &OWN_FAMILIES,
        Sockets::OwnInternet => &[libc::AF_INET, libc::AF_INET6],
        Sockets::None => &[],
    };
    let when = match families {
        [] => When::Always,
        _ => {
            let values = families.iter().map(|family| family.cast_unsigned()).collect();
            When::NoneOf { argument: 0, values }
        }
    };
    refuse(libc::SYS_socket, when, libc::EPERM);
    // Its flags are behind a pointer, where no filter can look; without it libraries use `clone`.
    refuse(libc::SYS_clone3, When::Always, libc::ENOSYS);
    calls.sort_by_key(|call| call.number);
    calls
}

/// The same filter in the words of runtimes for containers, for a program with a network and files of its own.
pub(crate) fn oci() -> serde_json::Value {
    use serde_json::json;
    /// There is no family of sockets with a higher number.
    const FAMILY_MAX: i32 = 64;
    let no = |names: &[&str], errno: i32, args: serde_json::Value| json!({ "names": names, "action": "SCMP_ACT_ERRNO", "errnoRet": errno, "args": args });
    let masked = |index: u32, mask: u64, value: u64| json!([{ "index": index, "value": mask, "valueTwo": value, "op": "SCMP_CMP_MASKED_EQ" }]);
    let refused: Vec<&str> = REFUSED.iter().map(|(_, name)| *name).collect();
    let mut calls = vec![no(&refused, libc::EPERM, json!([]))];
    calls.push(no(&["clone3"], libc::ENOSYS, json!([])));
    for flag in NAMESPACES.map(|flag| u64::from(flag.cast_unsigned())) {
        calls.push(no(&["clone"], libc::EPERM, masked(0, flag, flag)));
    }
    for request in TERMINAL {
        calls.push(no(&["ioctl"], libc::EPERM, masked(1, u64::from(u32::MAX), request)));
    }
    // Conditions on one argument are alternatives there, so each family that is not for programs has a rule.
    for family in (0..FAMILY_MAX).filter(|family| !OWN_FAMILIES.contains(family)) {
        let is_it = json!([{ "index": 0, "value": family, "op": "SCMP_CMP_EQ" }]);
        calls.push(no(&["socket"], libc::EPERM, is_it));
    }
    // Calls of any other form of the processor end the program.
    json!({ "defaultAction": "SCMP_ACT_ALLOW", "syscalls": calls })
}

/// A filter as the kernel reads it.
pub(crate) fn bytes(program: &BpfProgram) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(program.len() * 8);
    for step in program {
        bytes.extend_from_slice(&step.code.to_ne_bytes());
        bytes.extend_from_slice(&[step.jt, step.jf]);
        bytes.extend_from_slice(&step.k.to_ne_bytes());
    }
    bytes
}
