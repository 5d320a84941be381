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
pub use backend::container::{Container, ContainerOptions, Pull, Source};
pub use backend::landlock::Landlocked;
pub use backend::none::Bare;
pub use backend::{Backend, Backends, Holding};
pub use command::{Input, Job};
pub use egress::{Egress, EgressEvent, EgressRule, Verdict};
pub use error::IsolationError;
pub use launcher::Launcher;
pub use linux::scratch_dir::Scratch;
pub use process::{Cause, Channel, Ended, Running};
pub use profile::{Hold, Limits, Network, Profile, Workspace};
pub use self_test::{Proof, Trial, examine};
