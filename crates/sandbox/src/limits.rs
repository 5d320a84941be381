//! Limits and default values of sandboxes.

use std::time::Duration;

/// Default number of processes of a job.
pub const PIDS_DEFAULT: u32 = 128;
/// Default memory of a job, in bytes.
pub const JOB_MEMORY_BYTES_DEFAULT: u64 = 512 * 1024 * 1024;
/// Default processor share of a job, in percent of one processor.
pub const CPU_PERCENT_DEFAULT: u32 = 100;
/// Default processor time of each process of a job.
pub const CPU_TIME_DEFAULT: Duration = Duration::from_secs(120);
/// Default maximum size of a file, in bytes.
pub const FILE_BYTES_DEFAULT: u64 = 64 * 1024 * 1024;
/// Default number of open files of each process.
pub const OPEN_FILES_DEFAULT: u64 = 256;
/// Default time limit of a job.
pub const TIME_DEFAULT: Duration = Duration::from_secs(60);
/// Default limit on standard output and standard error together, in bytes.
pub const OUTPUT_BYTES_DEFAULT: u64 = 4 * 1024 * 1024;
/// Default size of the private `/tmp`, in bytes.
pub const TMP_BYTES_DEFAULT: u64 = 64 * 1024 * 1024;

/// Maximum number of concurrent jobs. Further jobs wait.
pub const JOBS_MAX: usize = 256;
/// Size of one output chunk, in bytes.
pub(crate) const CHUNK_BYTES: usize = 32 * 1024;
/// Maximum length of the error output in a setup error, in bytes.
pub(crate) const SETUP_ERROR_BYTES_MAX: usize = 2 * 1024;
/// Time between SIGTERM and SIGKILL.
pub const TERM_GRACE: Duration = Duration::from_millis(500);
/// Maximum wait for a killed program to end.
pub(crate) const KILL_GRACE: Duration = Duration::from_secs(5);
/// Maximum time for reading the remaining output of a program that has exited.
pub(crate) const DRAIN_GRACE: Duration = Duration::from_secs(1);
/// Longest time for which a runtime thread may block on an imminent event.
pub(crate) const INLINE_WAIT_MAX: Duration = Duration::from_micros(500);
/// First polling interval. The interval doubles after each attempt.
pub(crate) const POLL_INTERVAL_MIN: Duration = Duration::from_micros(50);
/// Longest polling interval.
pub(crate) const POLL_INTERVAL_MAX: Duration = Duration::from_millis(2);
/// Maximum number of kill rounds for a process tree.
pub(crate) const KILL_ROUNDS_MAX: usize = 1_000;
/// Maximum number of rounds that stop forking processes before killing them.
pub(crate) const STOP_ROUNDS_MAX: usize = 50;
/// Maximum number of processes of one tree that are visited.
pub(crate) const TREE_MAX: usize = 65_536;
/// Maximum size of the copied files of `/etc`, in bytes.
pub(crate) const ETC_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Maximum number of attempts to obtain a ready process.
pub(crate) const FORK_SERVER_ATTEMPTS_MAX: u32 = 3;
/// Default number of warm sandboxes per specification.
pub(crate) const WARM_SANDBOXES_DEFAULT: usize = 1;
/// Maximum number of ready processes.
pub(crate) const READY_PROCESSES_MAX: usize = 4;
/// Maximum size of the arguments and variables of a command, in bytes.
pub const ARGUMENT_BYTES_MAX: usize = 1024 * 1024;

/// Maximum number of specifications with warm sandboxes.
pub(crate) const WARM_SPECS_MAX: usize = 16;
/// Time after which an unused warm sandbox is removed.
pub(crate) const WARM_IDLE: Duration = Duration::from_secs(5 * 60);
