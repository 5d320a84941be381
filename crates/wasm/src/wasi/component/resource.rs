//! Resource handles of a component.

use std::collections::BTreeMap;
use std::time::Instant;

use wasmtime::component::{LinkerInstance, ResourceType};

use crate::call::store_data::{HaltReason, StoreData};
use crate::limits::RESOURCES_MAX;

/// The input stream.
pub(crate) struct InputStream;
/// An output stream. Its number identifies the stream.
pub(crate) struct OutputStream;
/// Handle that is ready at a time.
pub(crate) struct Pollable;
/// An error of a stream. Never created.
pub(crate) struct IoError;
/// A file or directory. Never created.
pub(crate) struct Descriptor;
/// A directory listing. Never created.
pub(crate) struct Entries;
/// A terminal input. Never created.
pub(crate) struct TerminalInput;
/// A terminal output. Never created.
pub(crate) struct TerminalOutput;

/// Adds a WASI type under its name, which is the same in every interface. Does nothing for an unknown name.
pub(super) fn link(
    instance: &mut LinkerInstance<'_, StoreData>,
    name: &str,
) -> wasmtime::Result<()> {
    let kind = match name {
        "input-stream" => ResourceType::host::<InputStream>(),
        "output-stream" => ResourceType::host::<OutputStream>(),
        "pollable" => {
            let kind = ResourceType::host::<Pollable>();
            return instance.resource(name, kind, |mut context, number| {
                context.data_mut().resources.remove(number);
                Ok(())
            });
        }
        "error" => ResourceType::host::<IoError>(),
        "descriptor" => ResourceType::host::<Descriptor>(),
        "directory-entry-stream" => ResourceType::host::<Entries>(),
        "terminal-input" => ResourceType::host::<TerminalInput>(),
        "terminal-output" => ResourceType::host::<TerminalOutput>(),
        _ => return Ok(()),
    };
    instance.resource(name, kind, |_, _| Ok(()))
}

/// Handle numbers of the standard streams.
pub(crate) const STDIN: u32 = 0;
pub(crate) const STDOUT: u32 = 1;
pub(crate) const STDERR: u32 = 2;

/// Open pollables of a call, with their deadlines.
#[derive(Debug, Default)]
pub(crate) struct Resources {
    next: u32,
    pollables: BTreeMap<u32, Option<Instant>>,
}

impl Resources {
    /// Adds a pollable and returns its number. With `None`, the pollable is ready immediately. Returns an error if too
    /// many are open.
    pub(crate) fn add_pollable(&mut self, until: Option<Instant>) -> Result<u32, HaltReason> {
        if self.pollables.len() >= RESOURCES_MAX {
            return Err(HaltReason::Misuse("it has too many open pollables"));
        }
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        self.pollables.insert(number, until);
        Ok(number)
    }

    /// Returns the time at which a pollable is ready. `None` if it is ready already.
    pub(crate) fn deadline(&self, number: u32) -> Option<Instant> {
        self.pollables.get(&number).copied().flatten()
    }

    /// Removes a pollable.
    pub(crate) fn remove(&mut self, number: u32) {
        self.pollables.remove(&number);
    }
}
