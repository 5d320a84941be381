//! Every bound of a sandbox, with its name.

use std::time::Duration;

/// Processes of one job.
pub const PIDS_DEFAULT: u32 = 128;
/// Bytes of memory of one job.
pub const MEMORY_BYTES_DEFAULT: u64 = 512 * 1024 * 1024;
/// Share of the processors that one job may use, in percent of one.
pub const CPU_PERCENT_DEFAULT: u32 = 100;
/// Time on a processor that one process of a job may use.
pub const CPU_TIME_DEFAULT: Duration = Duration::from_secs(120);
/// Bytes of one file.
pub const FILE_BYTES_DEFAULT: u64 = 64 * 1024 * 1024;
/// Open files of one process.
pub const OPEN_FILES_DEFAULT: u64 = 256;
/// Time that a job may take.
pub const TIME_DEFAULT: Duration = Duration::from_secs(60);
/// Bytes that a job may write to its standard output and its standard error together.
pub const OUTPUT_BYTES_DEFAULT: u64 = 4 * 1024 * 1024;
/// Bytes of the private `/tmp`.
pub const TMP_BYTES_DEFAULT: u64 = 64 * 1024 * 1024;

/// Jobs that may run at the same time; those beyond it wait.
pub const JOBS_MAX: usize = 256;
/// Bytes of one piece of output.
pub(crate) const CHUNK_BYTES: usize = 32 * 1024;
/// Bytes of what a backend says when it could not set a sandbox up.
pub(crate) const COMPLAINT_BYTES_MAX: usize = 2 * 1024;
/// Time that a program has between being asked to end and being ended.
pub const TERM_GRACE: Duration = Duration::from_millis(500);
/// Time that the end of a killed program may take.
pub(crate) const KILL_GRACE: Duration = Duration::from_secs(5);
/// Time in which the pipes of a program that has ended are emptied.
pub(crate) const DRAIN_GRACE: Duration = Duration::from_secs(1);
/// Time for which a thread of the runtime may wait for what is about to happen.
pub(crate) const MOMENT: Duration = Duration::from_micros(500);
/// After what time it is looked again whether something is gone, for the first time; then ever longer.
pub(crate) const FIRST_LOOK: Duration = Duration::from_micros(50);
/// How often it is looked whether something is gone.
pub(crate) const LOOK: Duration = Duration::from_millis(2);
/// Rounds of killing whatever is left of a tree of processes.
pub(crate) const KILL_ROUNDS_MAX: usize = 1_000;
/// Rounds in which what still forks is stopped before it is killed.
pub(crate) const STOP_ROUNDS_MAX: usize = 50;
/// Processes of one tree that are looked at.
pub(crate) const TREE_MAX: usize = 65_536;
/// Bytes of `/etc` that sandboxes get copies of.
pub(crate) const ETC_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Attempts to hand a job to a process that waits for one, each with a new one.
pub(crate) const STARTER_TRIES_MAX: u32 = 3;
/// Sandboxes of a kind that are set up before there is a job for them, where no operator says how many.
pub(crate) const WARM_WAITING: usize = 1;
/// Processes that wait for jobs at most.
pub(crate) const STARTERS_WAITING_MAX: usize = 4;
/// Bytes of the list of arguments of a job.
pub const ARGUMENT_BYTES_MAX: usize = 1024 * 1024;

/// Sorts of containers that some wait for.
pub(crate) const WARM_SHAPES_MAX: usize = 16;
/// Time without a job after which a container that waits is taken away.
pub(crate) const WARM_IDLE: Duration = Duration::from_secs(5 * 60);
