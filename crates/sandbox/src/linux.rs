//! Linux: control groups, system call filters, processes, file systems.

pub(crate) mod cgroup;
pub(crate) mod child_process;
pub(crate) mod layout;
pub(crate) mod process_tree;
pub(crate) mod rootfs;
pub(crate) mod scratch_dir;
pub(crate) mod seccomp;
