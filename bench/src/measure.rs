//! Clocks, medians, and what machine this is.

use std::fs;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::{Error, Result};

/// Processor time this process has used so far, all threads together.
pub(crate) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_nanos(u64::try_from(time.tv_nsec).unwrap_or(0))
}

/// The most memory this process has had, in bytes.
pub(crate) fn peak_memory() -> Result<f64> {
    Ok(told_by_system("/proc/self/status", "VmHWM:")? * 1024.0)
}

/// The memory this process has now, in bytes.
pub(crate) fn memory() -> Result<f64> {
    memory_of("self")
}

/// The memory that a process has now, in bytes.
pub(crate) fn memory_of(process: &str) -> Result<f64> {
    Ok(told_by_system(&format!("/proc/{process}/status"), "VmRSS:")? * 1024.0)
}

/// Bytes this process has handed to the system to write so far.
pub(crate) fn bytes_written() -> Result<f64> {
    told_by_system("/proc/self/io", "wchar:")
}

fn told_by_system(path: &str, name: &str) -> Result<f64> {
    let text = fs::read_to_string(path)?;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_whitespace().next());
    let missing = || format!("the system does not tell `{name}` in {path}");
    Ok(number.ok_or_else(missing)?.parse()?)
}

/// The number that so large a part of some numbers does not exceed.
pub(crate) fn percentile(mut numbers: Vec<f64>, part: f64) -> f64 {
    numbers.sort_by(f64::total_cmp);
    let place = (numbers.len() as f64 * part).ceil() as usize;
    numbers.get(place.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

/// The mean of some numbers.
pub(crate) fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / numbers.len() as f64
}

/// The middle of some numbers.
pub(crate) fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    match numbers.len() {
        0 => f64::NAN,
        len if len % 2 == 1 => numbers[middle],
        _ => f64::midpoint(numbers[middle - 1], numbers[middle]),
    }
}

/// Ours and the floor's, measured side by side again and again.
///
/// What is compared is compared within a pair: a machine that is busy for a while slows both of a pair down.
#[derive(Default)]
pub(crate) struct Pairs {
    ours: Vec<f64>,
    floor: Vec<f64>,
}

impl Pairs {
    pub(crate) fn push(&mut self, ours: f64, floor: f64) {
        self.ours.push(ours);
        self.floor.push(floor);
    }

    pub(crate) fn ours(&self) -> f64 {
        median(self.ours.clone())
    }

    pub(crate) fn floor(&self) -> f64 {
        median(self.floor.clone())
    }

    /// How many times the floor's ours is.
    pub(crate) fn ratio(&self) -> f64 {
        median(self.each(|ours, floor| ours / floor))
    }

    /// How much more than the floor's ours is.
    pub(crate) fn excess(&self) -> f64 {
        median(self.each(|ours, floor| ours - floor))
    }

    fn each(&self, compare: impl Fn(f64, f64) -> f64) -> Vec<f64> {
        self.ours.iter().zip(&self.floor).map(|(ours, floor)| compare(*ours, *floor)).collect()
    }
}

/// Seconds that one use of `work` takes: the median over batches, after a warm-up batch.
pub(crate) fn time_each(
    batches: usize,
    uses: usize,
    mut work: impl FnMut() -> Result<()>,
) -> Result<f64> {
    let mut times = Vec::with_capacity(batches);
    for batch in 0..=batches {
        let started = Instant::now();
        for _ in 0..uses {
            work()?;
        }
        if batch > 0 {
            times.push(started.elapsed().as_secs_f64() / uses as f64);
        }
    }
    Ok(median(times))
}

/// Waits, but not for ever.
pub(crate) async fn within<T>(
    patience: Duration,
    problem: &str,
    work: impl Future<Output = T>,
) -> Result<T> {
    let late = |elapsed| format!("{problem}: {elapsed} after {} s", patience.as_secs());
    tokio::time::timeout(patience, work).await.map_err(|elapsed| late(elapsed).into())
}

/// A runtime on this thread alone, so that its work and its allocations are this thread's.
pub(crate) fn local_runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Error::from)
}

/// What the numbers were measured on.
pub(crate) fn machine_facts(quick: bool) -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let cpuinfo = read("/proc/cpuinfo");
    let cpu = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .map_or("unknown processor", |line| line.trim_start_matches([' ', '\t', ':']));
    let kernel = read("/proc/sys/kernel/osrelease");
    let load = read("/proc/loadavg");
    let load = load.split_whitespace().next().unwrap_or("?");
    let build = if cfg!(debug_assertions) {
        "DEBUG BUILD, the numbers mean nothing: use --release"
    } else {
        "release build"
    };
    let length = if quick { ", quick" } else { "" };
    format!("{cores} cores, {cpu}, Linux {}, load {load}, {build}{length}", kernel.trim())
}
