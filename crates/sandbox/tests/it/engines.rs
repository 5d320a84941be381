//! Every engine for containers that works on this machine, with nothing of it shared with the machine's own.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use provost_core::contract::ToolErrorCode;
use provost_sandbox::{Container, ContainerOptions, RootfsSource, SandboxRegistry};
use tempfile::TempDir;

/// Where runc and crun keep what they know.
const STATE_DIR: &str = "/run/provost-containers";
/// The image that is made of the root file system.
const IMAGE: &str = "localhost/provost-busybox:1";

/// The engines of this machine, and where they keep what they need.
pub(crate) struct Engines {
    home: TempDir,
    root: Option<PathBuf>,
}

/// An engine that works, with a name for tables.
pub(crate) struct Opened {
    pub(crate) name: &'static str,
    pub(crate) backends: SandboxRegistry,
}

impl Engines {
    pub(crate) fn here() -> Self {
        let home = tempfile::tempdir().unwrap();
        let root = rootfs(home.path());
        if root.is_none() {
            eprintln!(
                "busybox is not installed: containers are tried with the programs of this machine only"
            );
        }
        Self { home, root }
    }

    /// Where tests may put files.
    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    /// All of them, whether they work or not.
    fn all(&self) -> [(&'static str, ContainerOptions); 3] {
        let of = |engine: &'static str| (engine, ContainerOptions::new(engine, RootfsSource::Host));
        let (name, podman) = of("podman");
        let podman = ContainerOptions { engine_args: self.podman_args(), ..podman };
        [of("runc"), of("crun"), (name, podman)]
    }

    fn podman_args(&self) -> Vec<String> {
        let at = |name: &str| self.home.path().join(name).to_string_lossy().into_owned();
        vec![
            format!("--root={}", at("store")),
            format!("--runroot={}", at("run")),
            format!("--tmpdir={}", at("tmp")),
            "--cgroup-manager=cgroupfs".to_owned(),
            "--events-backend=file".to_owned(),
            "--storage-driver=vfs".to_owned(),
            "--runtime=runc".to_owned(),
        ]
    }

    /// Those that work, with the programs of this machine.
    pub(crate) async fn with_machine(&self, warm: usize) -> Vec<Opened> {
        let mut opened = Vec::new();
        for (name, options) in self.all() {
            opened.extend(open(name, ContainerOptions { warm, ..options }).await);
        }
        opened
    }

    /// Each engine that is installed with a root file system, and with an image where it takes one.
    pub(crate) fn with_rootfs(&self) -> Vec<(&'static str, ContainerOptions)> {
        let Some(root) = &self.root else { return Vec::new() };
        let mut found = Vec::new();
        for (name, options) in self.all().into_iter().filter(|(name, _)| is_here(name)) {
            let source = RootfsSource::Rootfs(root.clone());
            found.push((name, ContainerOptions { source, ..options.clone() }));
            if name == "podman" && self.imports(name, root) {
                let source = RootfsSource::Image(IMAGE.to_owned());
                found.push(("podman, image", ContainerOptions { source, ..options }));
            }
        }
        // It has a server, which whoever runs the tests has started or not.
        let answers =
            Command::new("docker").arg("version").output().is_ok_and(|told| told.status.success());
        if answers && self.imports("docker", root) {
            let source = RootfsSource::Image(IMAGE.to_owned());
            found.push(("docker, image", ContainerOptions::new("docker", source)));
        }
        found
    }

    /// The command line of an engine that has images.
    fn engine(&self, name: &str) -> Command {
        let mut command = Command::new(name);
        if name == "podman" {
            command.args(self.podman_args());
        }
        command
    }

    /// Makes an image of the root file system.
    fn imports(&self, engine: &str, root: &Path) -> bool {
        let mut tar = Command::new("tar");
        tar.arg("-C").arg(root).args(["-c", "."]).stdout(Stdio::piped());
        let mut tar = tar.spawn().unwrap();
        let mut import = self.engine(engine);
        import.args(["import", "-", IMAGE]);
        let made = import.stdin(tar.stdout.take().unwrap()).output().unwrap();
        let is_made = made.status.success() && tar.wait().unwrap().success();
        if !is_made {
            eprintln!("no image is made here: {}", String::from_utf8_lossy(&made.stderr));
        }
        is_made
    }

    /// The containers that an engine knows, with names that begin like this.
    pub(crate) fn known(&self, engine: &str, prefix: &str) -> BTreeSet<String> {
        let engine = engine.split(',').next().unwrap_or_default();
        let names: Vec<String> = match engine {
            "podman" | "docker" => {
                let mut list = self.engine(engine);
                list.args(["ps", "-a", "--format", "{{.Names}}"]);
                let told = list.stderr(Stdio::null()).output().unwrap();
                String::from_utf8_lossy(&told.stdout).lines().map(str::to_owned).collect()
            }
            _ => {
                let known = fs::read_dir(STATE_DIR).into_iter().flatten().flatten();
                known.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
            }
        };
        names.into_iter().filter(|name| name.starts_with(prefix)).collect()
    }
}

fn is_here(engine: &str) -> bool {
    ["/usr/bin", "/usr/sbin"].iter().any(|dir| Path::new(dir).join(engine).exists())
}

/// Opens one; it works, or says why there is no isolation.
pub(crate) async fn open(name: &'static str, options: ContainerOptions) -> Option<Opened> {
    match Container::open(options).await {
        Ok(container) => {
            let mut backends = SandboxRegistry::default();
            backends.add(Arc::new(container));
            Some(Opened { name, backends })
        }
        Err(error) => {
            assert_eq!(
                error.to_contract_error().code,
                ToolErrorCode::IsolationUnavailable,
                "{name}: {error}"
            );
            eprintln!("{name} is refused here: {error}");
            None
        }
    }
}

/// A root file system of one program.
fn rootfs(home: &Path) -> Option<PathBuf> {
    let busybox =
        ["/bin/busybox", "/usr/bin/busybox"].into_iter().find(|path| Path::new(path).exists())?;
    let root = home.join("rootfs");
    for dir in ["bin", "proc", "sys", "dev", "tmp", "etc", "workspace", "run"] {
        fs::create_dir_all(root.join(dir)).unwrap();
    }
    fs::copy(busybox, root.join("bin/busybox")).unwrap();
    for applet in [
        "sh", "true", "cat", "echo", "sleep", "id", "ls", "head", "wc", "touch", "env", "yes",
        "setsid", "grep",
    ] {
        symlink("busybox", root.join("bin").join(applet)).unwrap();
    }
    Some(root)
}
