//! Bare commands on which the sandboxes are based.

use landlock::{
    ABI, Access as _, AccessFs, PathBeneath, PathFd, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _,
};
use tokio::process::Command;

use crate::Result;

/// Starts this program as a bare exec under Landlock.
pub(crate) const COMMAND: &str = "bare-landlock";

/// `bwrap` with new namespaces and the files of the system.
pub(super) fn bubblewrap() -> Result<Command> {
    let mut command = Command::new("bwrap");
    command.args(["--unshare-all", "--unshare-user", "--die-with-parent", "--new-session"]);
    command.args(["--uid", "65534", "--gid", "65534", "--cap-drop", "ALL"]);
    command.args(["--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin"]);
    command.args(["--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64"]);
    command.args(["--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--", "/usr/bin/true"]);
    Ok(command)
}

/// This program, which restricts its file access and then executes another program.
pub(super) fn landlock() -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(COMMAND);
    Ok(command)
}

/// No sandbox.
pub(super) fn nothing() -> Result<Command> {
    Ok(Command::new("/usr/bin/true"))
}

/// Restricts the file access of this process and executes another program.
pub(crate) fn bare_landlock() -> Result<()> {
    use std::os::unix::process::CommandExt as _;
    let access = AccessFs::from_all(ABI::V3);
    let mut rules = Ruleset::default().handle_access(access)?.create()?;
    let read = AccessFs::from_read(ABI::V3);
    for dir in ["/usr", "/lib", "/lib64", "/etc", "/dev", "/proc"] {
        if let Ok(dir) = PathFd::new(dir) {
            rules = rules.add_rule(PathBeneath::new(dir, read))?;
        }
    }
    rules.restrict_self()?;
    Err(std::process::Command::new("/usr/bin/true").exec().into())
}
