//! Isolation of untrusted programs.
//!
//! An [`IsolationProfile`] states what a program may use: files of a workspace, network, processes, memory and time. A
//! [`SandboxBackend`] enforces it. [`SandboxRegistry`] selects the backend of a profile. There is no fallback: if the
//! backend is missing, or does not enforce a required guarantee, the call fails with `isolation_unavailable` and the
//! program does not run. A *job* is one run of a [`SandboxCommand`].
//!
//! | mode | enforced by |
//! |---|---|
//! | `none` | nothing: separate process group, clean environment, time limit |
//! | `container` | [`Container`]: podman or docker, an image or a root file system |
//! | `process` | [`Bubblewrap`] if `bwrap` is installed, else [`LandlockBackend`] |
//!
//! Every backend gives a program a clean environment, ends the program and all its processes at the time limit, and
//! removes its processes, directories and control groups. The network is off, or restricted to an [`EgressPolicy`]
//! proxy that checks each name and address when it connects.
//!
//! Invariants: a program receives a secret of this process only if its command contains it. Every resource has a named
//! limit ([`limits`]). A backend reports what it cannot enforce ([`SandboxBackend::guarantees`]), and [`self_test()`]
//! verifies the rest by trying it. The crate supports Linux only.

mod backend;
mod command;
pub mod egress;
mod error;
pub mod launcher;
pub mod limits;
mod linux;
mod process;
mod profile;
mod self_test;
mod teardown;
mod warm;

pub use backend::bubblewrap::Bubblewrap;
pub use backend::container::{Container, ContainerOptions, PullPolicy, RootfsSource};
pub use backend::landlock::LandlockBackend;
pub use backend::none::NoSandbox;
pub use backend::{GuaranteeStatus, SandboxBackend, SandboxRegistry};
pub use command::{SandboxCommand, Stdin};
pub use egress::{EgressDecision, EgressEvent, EgressPolicy, EgressRule};
pub use error::IsolationError;
pub use launcher::Launcher;
pub use linux::scratch_dir::ScratchDir;
pub use process::{ExitInfo, ExitReason, SandboxedProcess, StdStream};
pub use profile::{Guarantee, IsolationProfile, NetworkAccess, ResourceLimits, WorkspaceMount};
pub use self_test::{SelfTestCase, SelfTestResult, self_test};
