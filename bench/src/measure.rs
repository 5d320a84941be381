//! Clocks, medians and facts about the machine.

use std::fs;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::{Error, Result};

/// Returns the processor time of this process so far, for all threads.
pub(crate) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_nanos(u64::try_from(time.tv_nsec).unwrap_or(0))
}

/// Returns the peak memory of this process, in bytes.
pub(crate) fn peak_memory() -> Result<f64> {
    Ok(read_proc_value("/proc/self/status", "VmHWM:")? * 1024.0)
}

/// Returns the current memory of this process, in bytes.
pub(crate) fn memory() -> Result<f64> {
    memory_of("self")
}

/// Returns the current memory of a process, in bytes.
pub(crate) fn memory_of(process: &str) -> Result<f64> {
    Ok(read_proc_value(&format!("/proc/{process}/status"), "VmRSS:")? * 1024.0)
}

/// Returns the bytes that this process has passed to the system to write.
pub(crate) fn bytes_written() -> Result<f64> {
    read_proc_value("/proc/self/io", "wchar:")
}

fn read_proc_value(path: &str, name: &str) -> Result<f64> {
    let text = fs::read_to_string(path)?;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_whitespace().next());
    let missing = || format!("the system does not tell `{name}` in {path}");
    Ok(number.ok_or_else(missing)?.parse()?)
}

/// Returns the percentile `part` of some numbers.
pub(crate) fn percentile(mut numbers: Vec<f64>, part: f64) -> f64 {
    numbers.sort_by(f64::total_cmp);
    let place = (numbers.len() as f64 * part).ceil() as usize;
    numbers.get(place.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

/// Returns the mean of some numbers.
pub(crate) fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / numbers.len() as f64
}

/// Returns the median of some numbers.
pub(crate) fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    match numbers.len() {
        0 => f64::NAN,
        len if len % 2 == 1 => numbers[middle],
        _ => f64::midpoint(numbers[middle - 1], numbers[middle]),
    }
}

/// Paired measurements of Provost and a baseline, taken alternately.
///
/// Values are compared within a pair, because a busy phase of the machine slows both sides of a pair.
#[derive(Default)]
pub(crate) struct Pairs {
    provost: Vec<f64>,
    baseline: Vec<f64>,
}

impl Pairs {
    pub(crate) fn push(&mut self, provost: f64, baseline: f64) {
        self.provost.push(provost);
        self.baseline.push(baseline);
    }

    pub(crate) fn provost(&self) -> f64 {
        median(self.provost.clone())
    }

    pub(crate) fn baseline(&self) -> f64 {
        median(self.baseline.clone())
    }

    /// Returns the median ratio of Provost to the baseline.
    pub(crate) fn ratio(&self) -> f64 {
        median(self.each(|provost, baseline| provost / baseline))
    }

    /// Returns the median difference of Provost and the baseline.
    pub(crate) fn excess(&self) -> f64 {
        median(self.each(|provost, baseline| provost - baseline))
    }

    fn each(&self, compare: impl Fn(f64, f64) -> f64) -> Vec<f64> {
        self.provost
            .iter()
            .zip(&self.baseline)
            .map(|(provost, baseline)| compare(*provost, *baseline))
            .collect()
    }
}

/// Returns the seconds of one use of `work`: the median over batches, after a warm-up batch.
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

/// Waits with a timeout.
pub(crate) async fn within<T>(
    timeout: Duration,
    problem: &str,
    work: impl Future<Output = T>,
) -> Result<T> {
    let late = |elapsed| format!("{problem}: {elapsed} after {} s", timeout.as_secs());
    tokio::time::timeout(timeout, work).await.map_err(|elapsed| late(elapsed).into())
}

/// Creates a runtime on this thread only, so that its work and allocations are those of this thread.
pub(crate) fn local_runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Error::from)
}

/// Returns the facts about the machine and the build.
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
