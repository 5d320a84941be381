//! `bwrap` by way of a shell, for programs that have no launcher.
//!
//! The shell does what a launcher does: bounds, control groups, files by number. It takes about a millisecond more.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use tokio::process::Command;

use crate::launcher::order::Wrap;

/// Bounds, control groups, files by number; then `bwrap`. What is already bounded more strictly stays so.
const SCRIPT: &str = "
status=$1 filter=$2 variables=$3 files=$4 open=$5 cpu=$6 memory=$7; shift 7; bwrap=$1; shift
while [ \"$1\" != -- ]; do echo 0 >\"$1\" || exit 125; shift; done; shift
ulimit -c 0 2>/dev/null; ulimit -f \"$files\" 2>/dev/null; ulimit -n \"$open\" 2>/dev/null
ulimit -t \"$cpu\" 2>/dev/null; [ -z \"$memory\" ] || ulimit -v \"$memory\" 2>/dev/null
exec \"$bwrap\" --json-status-fd 7 --add-seccomp-fd 8 --args 9 \"$@\" 7>\"$status\" 8<\"$filter\" 9<\"$variables\"
";

/// The command that starts `bwrap` with its arguments, and with the file in which the variables of the program are.
pub(super) fn command(
    shell: &Path,
    wrap: &Wrap,
    variables: &Path,
    doors: &[PathBuf],
    line: &[OsString],
) -> Command {
    const BLOCK_BYTES: u64 = 512;
    const KIB: u64 = 1024;
    let bounds = &wrap.bounds;
    let memory = bounds.memory_bytes.map(|bytes| (bytes / KIB).to_string());
    let (bwrap, args) = match line {
        [bwrap, args @ ..] => (bwrap.clone(), args),
        [] => (OsString::new(), &[] as &[OsString]),
    };
    let mut command = Command::new(shell);
    command.arg("-c").arg(SCRIPT).arg("sh").arg(&wrap.status).arg(&wrap.filter).arg(variables);
    command.arg(bounds.file_bytes.div_ceil(BLOCK_BYTES).to_string());
    command.arg(bounds.open_files.to_string()).arg(bounds.cpu_seconds.to_string());
    command.arg(memory.unwrap_or_default()).arg(bwrap);
    command.args(doors).arg("--").args(args);
    command
}
