//! System paths in a sandbox, and the resolution of programs and working directories.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::command::SandboxCommand;
use crate::error::IsolationError;
use crate::profile::{NetworkAccess, WorkspaceMount};

/// Workspace path in a sandbox with a separate root.
pub(crate) const WORKSPACE: &str = "/workspace";
/// Search path for programs.
pub(crate) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Directories with the programs and libraries of the system.
pub(crate) const SYSTEM_DIRS: [&str; 7] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];
/// Files of `/etc` that programs need. Other files may contain secrets of the machine.
pub(crate) const SYSTEM_FILES: [&str; 17] = [
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/alternatives",
    "/etc/passwd",
    "/etc/group",
    "/etc/nsswitch.conf",
    "/etc/localtime",
    "/etc/timezone",
    "/etc/mime.types",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/ca-certificates",
    "/etc/pki/tls/certs",
    "/etc/terminfo",
    "/etc/python3",
    "/etc/python3.11",
];
/// Devices that every program may use.
pub(crate) const DEVICES: [&str; 5] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// Resolved paths of a command in one backend.
pub(crate) struct SandboxLayout {
    /// Canonical path of the workspace on the host.
    pub(crate) host_workspace: Option<PathBuf>,
    /// True if the workspace is writable.
    pub(crate) is_writable: bool,
    /// Workspace path that the program sees.
    pub(crate) workspace: Option<PathBuf>,
    /// Working directory of the program.
    pub(crate) dir: PathBuf,
    /// Path of the program.
    pub(crate) program: PathBuf,
}

impl SandboxLayout {
    /// Resolves the program and the workspace. `root` is the workspace path inside; `None` keeps the path of the host.
    pub(crate) fn of(
        job: &SandboxCommand,
        root: Option<&str>,
        tmp: &Path,
    ) -> Result<Self, IsolationError> {
        job.check()?;
        let host_workspace = match job.profile.workspace.dir() {
            None => None,
            Some(dir) => {
                let canonical = dir.canonicalize();
                let canonical =
                    canonical.map_err(IsolationError::io("cannot use the workspace"))?;
                if !canonical.is_dir() || canonical == Path::new("/") {
                    return Err(IsolationError::Invalid(
                        "the workspace must be a directory other than `/`".to_owned(),
                    ));
                }
                Some(canonical)
            }
        };
        let workspace = host_workspace.as_ref().map(|canonical| match root {
            Some(root) => PathBuf::from(root),
            None => canonical.clone(),
        });
        let start = workspace.clone().unwrap_or_else(|| tmp.to_owned());
        let dir = match &job.dir {
            Some(dir) => start.join(dir),
            None => start,
        };
        let is_writable = matches!(job.profile.workspace, WorkspaceMount::ReadWrite(_));
        let program = find_program(&job.program)?;
        Ok(Self { host_workspace, is_writable, workspace, dir, program })
    }
}

/// Finds a program by name in the search path. A path is returned unchanged.
pub(crate) fn find_program(program: &OsStr) -> Result<PathBuf, IsolationError> {
    let path = Path::new(program);
    let missing = || IsolationError::NoProgram(program.to_string_lossy().into_owned());
    if path.components().count() > 1 || path.is_absolute() {
        // System programs have the same path inside and outside of the sandbox.
        let is_system = SYSTEM_DIRS.iter().any(|dir| path.starts_with(dir));
        return match is_system && !path.is_file() {
            true => Err(missing()),
            false => Ok(path.to_owned()),
        };
    }
    PATH.split(':')
        .map(|dir| Path::new(dir).join(path))
        .find(|path| {
            rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok() && path.is_file()
        })
        .ok_or_else(missing)
}

/// Returns the program and its arguments.
pub(crate) fn command_line(layout: &SandboxLayout, job: &SandboxCommand) -> Vec<OsString> {
    std::iter::once(layout.program.clone().into()).chain(job.args.iter().cloned()).collect()
}

/// Returns the environment of a program: common variables, proxy variables if it has network access, and the variables
/// of the command.
pub(crate) fn environment(
    job: &SandboxCommand,
    workspace: Option<&Path>,
    tmp: &Path,
) -> BTreeMap<String, String> {
    let tmp = tmp.to_string_lossy().into_owned();
    let mut env = BTreeMap::from([
        ("PATH".to_owned(), PATH.to_owned()),
        ("HOME".to_owned(), tmp.clone()),
        ("TMPDIR".to_owned(), tmp),
        ("LANG".to_owned(), "C.UTF-8".to_owned()),
    ]);
    if let Some(workspace) = workspace {
        env.insert("WORKSPACE".to_owned(), workspace.to_string_lossy().into_owned());
    }
    if let NetworkAccess::Allow(_) = &job.profile.network {
        let proxy = format!("http://127.0.0.1:{}", crate::egress::PORT);
        for name in ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
            env.insert(name.to_owned(), proxy.clone());
        }
    }
    env.extend(job.env.clone());
    env
}
