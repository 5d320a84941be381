//! Arguments of containers.

use std::path::PathBuf;

use provost_sandbox::{ContainerOptions, PullPolicy, ResourceLimits, RootfsSource};

use crate::error::CliError;

/// Time at which a container image is pulled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum PullArg {
    /// Never pull; the image must exist
    #[default]
    Never,
    /// Pull an image that does not exist
    Missing,
    /// Pull before every call
    Always,
}

/// Arguments of containers.
#[derive(Debug, Clone, PartialEq, Eq, Default, clap::Args)]
pub(crate) struct ContainerArgs {
    /// Run declared programs in containers of this engine: podman, docker, runc, crun, or a path to an engine
    #[arg(long, value_name = "ENGINE")]
    pub(crate) container_engine: Option<PathBuf>,
    /// Image for tools that do not name an image
    #[arg(long, value_name = "IMAGE", requires = "container_engine")]
    pub(crate) container_image: Option<String>,
    /// Root file system to use instead of an image; without both, the programs of this machine
    #[arg(
        long,
        value_name = "DIR",
        requires = "container_engine",
        conflicts_with = "container_image"
    )]
    pub(crate) container_rootfs: Option<PathBuf>,
    /// When to pull images
    #[arg(long, value_enum, default_value_t, value_name = "WHEN")]
    pub(crate) container_pull: PullArg,
    /// Number of started containers kept ready for each recent kind of call
    #[arg(long, alias = "container-warm", default_value_t, value_name = "COUNT")]
    pub(crate) container_pool_size: usize,
    /// Memory limit of each container, in MiB
    #[arg(long, value_name = "MIB")]
    pub(crate) container_max_memory: Option<u64>,
    /// CPU limit of each container, in percent of one processor
    #[arg(long, value_name = "PERCENT")]
    pub(crate) container_max_cpu: Option<u32>,
    /// Process limit of each container
    #[arg(long, value_name = "COUNT")]
    pub(crate) container_max_pids: Option<u32>,
}

impl ContainerArgs {
    /// Returns the container options. `None` if no engine is selected.
    pub(crate) fn options(&self) -> Result<Option<ContainerOptions>, CliError> {
        let Some(engine) = &self.container_engine else { return Ok(None) };
        let source = match (&self.container_image, &self.container_rootfs) {
            (Some(image), _) => RootfsSource::Image(image.clone()),
            (None, Some(dir)) => {
                let path = std::path::absolute(dir);
                RootfsSource::Rootfs(
                    path.map_err(|error| CliError::io("the root file system", &error))?,
                )
            }
            (None, None) => RootfsSource::Host,
        };
        let defaults = ContainerOptions::new(engine, source);
        let ceiling = ResourceLimits {
            memory_bytes: self
                .container_max_memory
                .map_or(defaults.ceiling.memory_bytes, |mib| mib.saturating_mul(1024 * 1024)),
            cpu_percent: self.container_max_cpu.unwrap_or(defaults.ceiling.cpu_percent),
            pids: self.container_max_pids.unwrap_or(defaults.ceiling.pids),
            ..defaults.ceiling
        };
        let pull = match self.container_pull {
            PullArg::Never => PullPolicy::Never,
            PullArg::Missing => PullPolicy::Missing,
            PullArg::Always => PullPolicy::Always,
        };
        let warm = self.container_pool_size;
        Ok(Some(ContainerOptions { pull, ceiling, warm, ..defaults }))
    }
}
