//! Starts `bwrap` with a shell, for programs without a launcher.
//!
//! The shell does the work of the launcher: limits, control groups and inherited descriptors. It adds about one
//! millisecond.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use tokio::process::Command;

use crate::launcher::order::BwrapLaunch;

/// Joins the control groups, sets the limits, opens the files and executes `bwrap`. A stricter existing limit stays in
/// force.
const SCRIPT: &str = "
status=$1 filter=$2 variables=$3 files=$4 open=$5 cpu=$6 memory=$7; shift 7; bwrap=$1; shift
while [ \"$1\" != -- ]; do echo 0 >\"$1\" || exit 125; shift; done; shift
ulimit -c 0 2>/dev/null; ulimit -f \"$files\" 2>/dev/null; ulimit -n \"$open\" 2>/dev/null
ulimit -t \"$cpu\" 2>/dev/null; [ -z \"$memory\" ] || ulimit -v \"$memory\" 2>/dev/null
exec \"$bwrap\" --json-status-fd 7 --add-seccomp-fd 8 --args 9 \"$@\" 7>\"$status\" 8<\"$filter\" 9<\"$variables\"
";

/// Returns the command that starts `bwrap`. `variables` is the file with the environment variables of the command.
pub(super) fn command(
    shell: &Path,
    launch: &BwrapLaunch,
    variables: &Path,
    procs_files: &[PathBuf],
    line: &[OsString],
) -> Command {
    const BLOCK_BYTES: u64 = 512;
    const KIB: u64 = 1024;
    let rlimits = &launch.rlimits;
    let memory = rlimits.memory_bytes.map(|bytes| (bytes / KIB).to_string());
    let (bwrap, args) = match line {
        [bwrap, args @ ..] => (bwrap.clone(), args),
        [] => (OsString::new(), &[] as &[OsString]),
    };
    let mut command = Command::new(shell);
    command.arg("-c").arg(SCRIPT).arg("sh").arg(&launch.status).arg(&launch.filter).arg(variables);
    command.arg(rlimits.file_bytes.div_ceil(BLOCK_BYTES).to_string());
    command.arg(rlimits.open_files.to_string()).arg(rlimits.cpu_seconds.to_string());
    command.arg(memory.unwrap_or_default()).arg(bwrap);
    command.args(procs_files).arg("--").args(args);
    command
}
