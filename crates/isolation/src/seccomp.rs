//! Calls into the kernel that a sandboxed program does not get.
//!
//! A list of what is refused, not of what is allowed: a tool may be any program. What is on it lets a program change the
//! machine, look into others, make name spaces or reach parts of the kernel with a history of holes.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

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
const REFUSED: &[i64] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_adjtimex,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_fanotify_init,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_kcmp,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_lookup_dcookie,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_name_to_handle_at,
    libc::SYS_nfsservctl,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_personality,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_madvise,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_kexec_file_load,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_uselib,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ustat,
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

/// Requests to a terminal that put words into somebody else's mouth.
const TERMINAL: [u64; 2] = [libc::TIOCSTI, libc::TIOCLINUX];

/// The bit by which a call of the other form of this processor is told; it has the same calls under other numbers.
#[cfg(target_arch = "x86_64")]
const OTHER_FORM: i64 = 0x4000_0000;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// The two filters of a sandbox: what is refused, and what is said not to be there at all.
pub(crate) struct Filters {
    pub(crate) refused: BpfProgram,
    pub(crate) absent: BpfProgram,
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

/// Makes the filters.
pub(crate) fn filters(sockets: Sockets, shared: Shared) -> Result<Filters, IsolationError> {
    let mut rules = Rules::new();
    let lists = [
        (REFUSED, true),
        (SHARED, shared.queues),
        (MARKS_BY_PATH, shared.files),
        (MARKS_BY_FILE, shared.files && shared.root),
    ];
    for (list, _) in lists.into_iter().filter(|(_, is_refused)| *is_refused) {
        rules.extend(list.iter().map(|call| (*call, Vec::new())));
    }
    if shared.files {
        // With a path; without one it is about a file that is open.
        add(&mut rules, libc::SYS_utimensat, &[(1, SeccompCmpOp::Ne, 0)])?;
    }
    for flag in NAMESPACES {
        let flag = u64::from(flag.cast_unsigned());
        add(&mut rules, libc::SYS_clone, &[(0, SeccompCmpOp::MaskedEq(flag), flag)])?;
    }
    for request in TERMINAL {
        let low = u64::from(u32::MAX);
        add(&mut rules, libc::SYS_ioctl, &[(1, SeccompCmpOp::MaskedEq(low), request)])?;
    }
    let families: &[i32] = match sockets {
        Sockets::OwnNetwork => &[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK],
        Sockets::OwnInternet => &[libc::AF_INET, libc::AF_INET6],
        Sockets::None => &[],
    };
    let others: Vec<_> = families
        .iter()
        .map(|family| (0, SeccompCmpOp::Ne, u64::from(family.cast_unsigned())))
        .collect();
    match others.is_empty() {
        true => drop(rules.insert(libc::SYS_socket, Vec::new())),
        false => add(&mut rules, libc::SYS_socket, &others)?,
    }
    // Its flags are behind a pointer, where no filter can look; without it libraries use `clone`.
    let absent = Rules::from([(libc::SYS_clone3, Vec::new())]);
    let refused = compile(both_forms(rules), SeccompAction::Errno(libc::EPERM.cast_unsigned()))?;
    let absent = compile(both_forms(absent), SeccompAction::Errno(libc::ENOSYS.cast_unsigned()))?;
    Ok(Filters { refused, absent })
}

fn add(
    rules: &mut Rules,
    call: i64,
    conditions: &[(u8, SeccompCmpOp, u64)],
) -> Result<(), IsolationError> {
    let conditions = conditions.iter().map(|(argument, operation, value)| {
        let length = SeccompCmpArgLen::Qword;
        SeccompCondition::new(*argument, length, operation.clone(), *value)
    });
    let conditions = conditions.collect::<Result<Vec<_>, _>>().map_err(|error| bad(&error))?;
    let rule = SeccompRule::new(conditions).map_err(|error| bad(&error))?;
    rules.entry(call).or_default().push(rule);
    Ok(())
}

#[cfg(target_arch = "x86_64")]
fn both_forms(rules: Rules) -> Rules {
    let others: Vec<_> =
        rules.iter().map(|(call, rule)| (call | OTHER_FORM, rule.clone())).collect();
    rules.into_iter().chain(others).collect()
}

#[cfg(not(target_arch = "x86_64"))]
fn both_forms(rules: Rules) -> Rules {
    rules
}

fn compile(rules: Rules, action: SeccompAction) -> Result<BpfProgram, IsolationError> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|error| bad(&error))?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, arch);
    filter.and_then(TryInto::try_into).map_err(|error| bad(&error))
}

fn bad(error: &seccompiler::BackendError) -> IsolationError {
    IsolationError::Setup { backend: "seccomp", why: error.to_string() }
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
