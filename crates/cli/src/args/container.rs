//! What the command line says about containers.

use std::path::PathBuf;

use provost_sandbox::{ContainerOptions, Limits, Pull, Source};

use crate::problem::Problem;

/// When an image is fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum PullArg {
    /// Never: it must be there
    #[default]
    Never,
    /// When it is not there
    Missing,
    /// Before every call
    Always,
}

/// What the command line says about containers.
#[derive(Debug, Clone, PartialEq, Eq, Default, clap::Args)]
pub(crate) struct ContainerArgs {
    /// Runs declared programs in containers of this engine: podman, docker, runc, crun, or a path to one
    #[arg(long, value_name = "ENGINE")]
    pub(crate) container_engine: Option<PathBuf>,
    /// The image of containers whose tool names none
    #[arg(long, value_name = "IMAGE", requires = "container_engine")]
    pub(crate) container_image: Option<String>,
    /// A root file system in place of an image; without both, the programs of this machine
    #[arg(
        long,
        value_name = "DIR",
        requires = "container_engine",
        conflicts_with = "container_image"
    )]
    pub(crate) container_rootfs: Option<PathBuf>,
    /// When an image is fetched
    #[arg(long, value_enum, default_value_t, value_name = "WHEN")]
    pub(crate) container_pull: PullArg,
    /// Containers that wait for each sort of call that has come lately
    #[arg(long, default_value_t, value_name = "COUNT")]
    pub(crate) container_warm: usize,
    /// Bytes of memory that no container goes beyond, in MiB
    #[arg(long, value_name = "MIB")]
    pub(crate) container_max_memory: Option<u64>,
    /// Share of the processors that no container goes beyond, in percent of one
    #[arg(long, value_name = "PERCENT")]
    pub(crate) container_max_cpu: Option<u32>,
    /// Processes that no container goes beyond
    #[arg(long, value_name = "COUNT")]
    pub(crate) container_max_pids: Option<u32>,
}

impl ContainerArgs {
    /// How containers are run, if they are.
    pub(crate) fn options(&self) -> Result<Option<ContainerOptions>, Problem> {
        let Some(engine) = &self.container_engine else { return Ok(None) };
        let source = match (&self.container_image, &self.container_rootfs) {
            (Some(image), _) => Source::Image(image.clone()),
            (None, Some(dir)) => {
                let whole = std::path::absolute(dir);
                Source::Rootfs(whole.map_err(|error| Problem::io("the root file system", &error))?)
            }
            (None, None) => Source::Machine,
        };
        let usual = ContainerOptions::new(engine, source);
        let ceiling = Limits {
            memory_bytes: self
                .container_max_memory
                .map_or(usual.ceiling.memory_bytes, |mib| mib.saturating_mul(1024 * 1024)),
            cpu_percent: self.container_max_cpu.unwrap_or(usual.ceiling.cpu_percent),
            pids: self.container_max_pids.unwrap_or(usual.ceiling.pids),
            ..usual.ceiling
        };
        let pull = match self.container_pull {
            PullArg::Never => Pull::Never,
            PullArg::Missing => Pull::Missing,
            PullArg::Always => Pull::Always,
        };
        let warm = self.container_warm;
        Ok(Some(ContainerOptions { pull, ceiling, warm, ..usual }))
    }
}
