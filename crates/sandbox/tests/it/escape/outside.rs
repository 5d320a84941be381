//! What is outside of a sandbox, and notices whoever comes.

use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

const CANARY: &str = "canary-51c2a7";

/// Everything that an attempt could reach.
pub(super) struct Outside {
    dir: TempDir,
    workspace: PathBuf,
    tcp: TcpListener,
    udp: UdpSocket,
    unix: UnixListener,
    hidden: UnixListener,
    hidden_name: String,
    bystander: Child,
}

impl Outside {
    pub(super) fn open() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let workspace = dir.path().join("workspace");
        fs::create_dir(&workspace).unwrap();
        fs::write(dir.path().join("secret"), CANARY).unwrap();
        fs::write(dir.path().join("own"), CANARY).unwrap();
        let unix = UnixListener::bind(dir.path().join("socket")).unwrap();
        let hidden_name = format!("provost-{}", dir.path().file_name().unwrap().to_string_lossy());
        let hidden = SocketAddr::from_abstract_name(&hidden_name).unwrap();
        let hidden = UnixListener::bind_addr(&hidden).unwrap();
        let tcp = TcpListener::bind("0.0.0.0:0").unwrap();
        let udp = UdpSocket::bind("0.0.0.0:0").unwrap();
        for blocking in [unix.set_nonblocking(true), hidden.set_nonblocking(true)] {
            blocking.unwrap();
        }
        tcp.set_nonblocking(true).unwrap();
        udp.set_nonblocking(true).unwrap();
        let bystander = Command::new("sleep")
            .arg("600")
            .env("CANARY", CANARY)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        Self { dir, workspace, tcp, udp, unix, hidden, hidden_name, bystander }
    }

    pub(super) fn workspace(&self) -> &Path {
        &self.workspace
    }

    pub(super) fn canary(&self) -> &'static str {
        CANARY
    }

    /// A script with the names of what is outside.
    pub(super) fn filled(&self, script: &str) -> String {
        let out = self.dir.path().to_string_lossy();
        script
            .replace("{out}", &out)
            .replace("{tcp}", &self.tcp.local_addr().unwrap().port().to_string())
            .replace("{udp}", &self.udp.local_addr().unwrap().port().to_string())
            .replace("{abstract}", &self.hidden_name)
            .replace("{pid}", &self.bystander.id().to_string())
            .replace("{us}", &std::process::id().to_string())
    }

    /// What somebody outside noticed.
    pub(super) fn noticed(mut self) -> Option<String> {
        let mut noticed = Vec::new();
        if self.tcp.accept().is_ok() {
            noticed.push("a connection");
        }
        if self.udp.recv(&mut [0; 16]).is_ok() {
            noticed.push("a datagram");
        }
        if self.unix.accept().is_ok() {
            noticed.push("a connection by a path");
        }
        if self.hidden.accept().is_ok() {
            noticed.push("a connection to an abstract name");
        }
        if self.bystander.try_wait().unwrap().is_some() {
            noticed.push("a bystander was ended");
        }
        if fs::read_to_string(self.dir.path().join("own")).ok().as_deref() != Some(CANARY) {
            noticed.push("a file was changed");
        }
        let mut names: Vec<_> = fs::read_dir(self.dir.path())
            .unwrap()
            .flatten()
            .map(|entry| entry.file_name())
            .collect();
        names.sort();
        if names != ["own", "secret", "socket", "workspace"] {
            noticed.push("a file was made");
        }
        self.bystander.kill().unwrap();
        self.bystander.wait().unwrap();
        (!noticed.is_empty()).then(|| noticed.join(", "))
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        self.bystander.kill().unwrap_or_default();
        self.bystander.wait().map(drop).unwrap_or_default();
    }
}
