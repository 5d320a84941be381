//! Isolation: where programs run that nobody trusts.
//!
//! A [`Profile`] says what a program may have: files of a workspace, a network, processes, memory, time. A [`Backend`] keeps
//! it in. [`Backends`] finds the backend of a profile and has no second best: what is not there, or does not hold what the
//! profile insists on, is `isolation_unavailable`, and nothing runs.
//!
//! | mode | kept in by |
//! |---|---|
//! | `none` | nothing: its own process group, a clean environment, a deadline |
//! | `container` | [`Container`]: podman or docker, an image or a root file system |
//! | `process` | [`Bubblewrap`] where `bwrap` is there, else [`Landlocked`] |
//!
//! Whatever the backend, a program is given a clean environment, is ended at its deadline with everything it has started, and
//! leaves nothing behind: no process, no directory, no control group. The network is off, or goes through an
//! [`Egress`] proxy that checks each name and address when it is dialled.
//!
//! Invariants: no secret of this process reaches a program unless it is in the job; every amount has a bound with a name
//! ([`limits`]); what a backend cannot hold it says ([`Backend::holds`]), and [`examine`] proves
//! the rest by trying. It is made for Linux.

mod backend;
mod bare;
mod bubblewrap;
mod cgroup;
mod container;
pub mod egress;
mod error;
mod examine;
mod job;
mod landlocked;
pub mod launcher;
pub mod limits;
mod place;
mod pool;
mod process;
mod profile;
mod remains;
mod root;
mod running;
mod scratch;
mod seccomp;
mod spawner;
mod starter;
mod tree;
pub mod workspaces;

pub use backend::{Backend, Backends, Holding};
pub use bare::Bare;
pub use bubblewrap::Bubblewrap;
pub use container::{Container, ContainerOptions, Pull, Source};
pub use egress::{Egress, EgressEvent, EgressRule, Verdict};
pub use error::IsolationError;
pub use examine::{Proof, Trial, examine};
pub use job::{Input, Job};
pub use landlocked::Landlocked;
pub use launcher::Launcher;
pub use profile::{Hold, Limits, Network, Profile, Workspace};
pub use running::{Cause, Channel, Ended, Running};
pub use scratch::Scratch;
pub use workspaces::{Workspaces, WorkspacesOptions};
