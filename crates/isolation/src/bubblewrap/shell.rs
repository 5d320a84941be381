//! `bwrap` by way of a shell, for programs that have no launcher.
//!
//! The shell does what a launcher does: bounds, control groups, files by number. It takes about a millisecond more.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use tokio::process::Command;

use crate::launcher::order::Wrap;

/// Bounds, control groups, files by number; then `bwrap`. What is already bounded more strictly stays so.
const SCRIPT: &str = "
status=$1 filter=$2 files=$3 open=$4 cpu=$5 memory=$6 bwrap=$7; shift 7
while [ \"$1\" != -- ]; do echo 0 >\"$1\" || exit 125; shift; done; shift
ulimit -c 0 2>/dev/null; ulimit -f \"$files\" 2>/dev/null; ulimit -n \"$open\" 2>/dev/null
ulimit -t \"$cpu\" 2>/dev/null; [ -z \"$memory\" ] || ulimit -v \"$memory\" 2>/dev/null
exec \"$bwrap\" --json-status-fd 7 --add-seccomp-fd 8 \"$@\" 7>\"$status\" 8<\"$filter\"
";

/// The command that starts `bwrap` with its arguments.
pub(super) fn command(shell: &Path, wrap: &Wrap, doors: &[PathBuf], line: &[OsString]) -> Command {
    const BLOCK_BYTES: u64 = 512;
    const KIB: u64 = 1024;
    let bounds = &wrap.bounds;
    let memory = bounds.memory_bytes.map(|bytes| (bytes / KIB).to_string());
    let (bwrap, args) = match line {
        [bwrap, args @ ..] => (bwrap.clone(), args),
        [] => (OsString::new(), &[] as &[OsString]),
    };
    let mut command = Command::new(shell);
    command.arg("-c").arg(SCRIPT).arg("sh").arg(&wrap.status).arg(&wrap.filter);
    command.arg(bounds.file_bytes.div_ceil(BLOCK_BYTES).to_string());
    command.arg(bounds.open_files.to_string()).arg(bounds.cpu_seconds.to_string());
    command.arg(memory.unwrap_or_default()).arg(bwrap);
    command.args(doors).arg("--").args(args);
    command
}
