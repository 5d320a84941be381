//! Handles that a component holds.

use std::collections::BTreeMap;
use std::time::Instant;

use wasmtime::component::{LinkerInstance, ResourceType};

use crate::call::store_data::{Guest, Halt};
use crate::limits::RESOURCES_MAX;

/// The input of a component.
pub(crate) struct InputStream;
/// One of its outputs; its number says which.
pub(crate) struct OutputStream;
/// Something that can be waited for.
pub(crate) struct Pollable;
/// What went wrong with a stream. Nothing ever does.
pub(crate) struct IoError;
/// A file or a directory. There is none.
pub(crate) struct Descriptor;
/// The entries of a directory. There is none.
pub(crate) struct Entries;
/// A terminal to read from. There is none.
pub(crate) struct TerminalInput;
/// A terminal to write to. There is none.
pub(crate) struct TerminalOutput;

/// Puts a type of WASI in place, under the one name that it has in every interface.
pub(super) fn link(instance: &mut LinkerInstance<'_, Guest>, name: &str) -> wasmtime::Result<()> {
    let kind = match name {
        "input-stream" => ResourceType::host::<InputStream>(),
        "output-stream" => ResourceType::host::<OutputStream>(),
        "pollable" => {
            let kind = ResourceType::host::<Pollable>();
            return instance.resource(name, kind, |mut context, number| {
                context.data_mut().resources.let_go(number);
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

/// The number of the input, and of the outputs.
pub(crate) const INPUT: u32 = 0;
pub(crate) const ANSWER: u32 = 1;
pub(crate) const WORDS: u32 = 2;

/// What is waited for.
#[derive(Debug, Default)]
pub(crate) struct Resources {
    next: u32,
    waits: BTreeMap<u32, Option<Instant>>,
}

impl Resources {
    /// Something to wait for: a moment, or what is there already.
    pub(crate) fn wait(&mut self, until: Option<Instant>) -> Result<u32, Halt> {
        if self.waits.len() >= RESOURCES_MAX {
            return Err(Halt::Misuse("it holds too many things to wait for"));
        }
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        self.waits.insert(number, until);
        Ok(number)
    }

    /// The moment of something that is waited for; nothing if it is there already.
    pub(crate) fn moment(&self, number: u32) -> Option<Instant> {
        self.waits.get(&number).copied().flatten()
    }

    /// Lets go of it.
    pub(crate) fn let_go(&mut self, number: u32) {
        self.waits.remove(&number);
    }
}
