//! What of the system is in a sandbox, and where programs are found there.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::command::Job;
use crate::error::IsolationError;
use crate::profile::{Network, Workspace};

/// Where the workspace is where a sandbox has a root of its own.
pub(crate) const WORKSPACE: &str = "/workspace";
/// Where programs are looked for, in this order.
pub(crate) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Directories with the programs and libraries of the system.
pub(crate) const SYSTEM_DIRS: [&str; 7] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];
/// What programs need of `/etc`. The rest of it may hold secrets of the machine.
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

/// A job as one backend sees it.
pub(crate) struct Place {
    /// The workspace as it is outside, in its real place.
    pub(crate) outside: Option<PathBuf>,
    /// True if the workspace may be changed.
    pub(crate) is_writable: bool,
    /// The workspace as the program sees it.
    pub(crate) inside: Option<PathBuf>,
    /// Where the program starts.
    pub(crate) dir: PathBuf,
    /// The program.
    pub(crate) program: PathBuf,
}

impl Place {
    /// Finds the program and the workspace. `root` is where the workspace is inside; nothing means that it stays in its place.
    pub(crate) fn of(job: &Job, root: Option<&str>, tmp: &Path) -> Result<Self, IsolationError> {
        job.check()?;
        let outside = match job.profile.workspace.dir() {
            None => None,
            Some(dir) => {
                let real = dir.canonicalize();
                let real = real.map_err(IsolationError::io("the workspace cannot be used"))?;
                if !real.is_dir() || real == Path::new("/") {
                    return Err(IsolationError::Job(
                        "the workspace is no directory of its own".to_owned(),
                    ));
                }
                Some(real)
            }
        };
        let inside = outside.as_ref().map(|real| match root {
            Some(root) => PathBuf::from(root),
            None => real.clone(),
        });
        let start = inside.clone().unwrap_or_else(|| tmp.to_owned());
        let dir = match &job.dir {
            Some(dir) => start.join(dir),
            None => start,
        };
        let is_writable = matches!(job.profile.workspace, Workspace::ReadWrite(_));
        let program = find(&job.program)?;
        Ok(Self { outside, is_writable, inside, dir, program })
    }
}

/// Finds a program by its name where the system has programs. A path is taken as it is.
pub(crate) fn find(program: &OsStr) -> Result<PathBuf, IsolationError> {
    let path = Path::new(program);
    let missing = || IsolationError::NoProgram(program.to_string_lossy().into_owned());
    if path.components().count() > 1 || path.is_absolute() {
        // Those of the system are in the sandbox where they are outside.
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

/// The program and its arguments.
pub(crate) fn line(place: &Place, job: &Job) -> Vec<OsString> {
    std::iter::once(place.program.clone().into()).chain(job.args.iter().cloned()).collect()
}

/// The environment of a program: a few names that all have, what its network needs, and what its job says.
pub(crate) fn environment(
    job: &Job,
    inside: Option<&Path>,
    tmp: &Path,
) -> BTreeMap<String, String> {
    let tmp = tmp.to_string_lossy().into_owned();
    let mut env = BTreeMap::from([
        ("PATH".to_owned(), PATH.to_owned()),
        ("HOME".to_owned(), tmp.clone()),
        ("TMPDIR".to_owned(), tmp),
        ("LANG".to_owned(), "C.UTF-8".to_owned()),
    ]);
    if let Some(inside) = inside {
        env.insert("WORKSPACE".to_owned(), inside.to_string_lossy().into_owned());
    }
    if let Network::Allow(_) = &job.profile.network {
        let proxy = format!("http://127.0.0.1:{}", crate::egress::PORT);
        for name in ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
            env.insert(name.to_owned(), proxy.clone());
        }
    }
    env.extend(job.env.clone());
    env
}
