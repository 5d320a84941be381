//! Access to the memory of a module. Every address of the module is checked.

use wasmtime::{Caller, Extern};

use crate::call::store_data::{HaltReason, StoreData};
use crate::limits::IO_VECTORS_MAX;

/// The memory that a module exports as `memory`.
pub(crate) struct Memory<'a>(&'a mut [u8]);

impl<'a> Memory<'a> {
    /// Returns the memory and the store data of the caller. Returns an error that stops the module if it exports no
    /// memory.
    pub(crate) fn of(
        caller: &'a mut Caller<'_, StoreData>,
    ) -> wasmtime::Result<(Self, &'a mut StoreData)> {
        let memory = caller.get_export("memory").and_then(Extern::into_memory);
        let memory = memory.ok_or(HaltReason::Misuse("it exports no memory named `memory`"))?;
        let (bytes, data) = memory.data_and_store_mut(caller);
        Ok((Self(bytes), data))
    }

    /// Returns `size` bytes at an address. Returns an error that stops the module if they are outside of its memory.
    pub(crate) fn slice(&mut self, at: i32, size: i32) -> wasmtime::Result<&mut [u8]> {
        let start = at.cast_unsigned() as usize;
        let end = start.checked_add(size.cast_unsigned() as usize);
        let slice = end.and_then(|end| self.0.get_mut(start..end));
        Ok(slice.ok_or(HaltReason::Misuse("an address is outside of its memory"))?)
    }

    /// Writes bytes to an address.
    pub(crate) fn write(&mut self, at: i32, bytes: &[u8]) -> wasmtime::Result<()> {
        let size = i32::try_from(bytes.len());
        let size =
            size.map_err(|_long| HaltReason::Misuse("a result does not fit into its memory"))?;
        self.slice(at, size)?.copy_from_slice(bytes);
        Ok(())
    }

    /// Reads a number at an address.
    pub(crate) fn number(&mut self, at: i32) -> wasmtime::Result<i32> {
        let bytes = self.slice(at, 4)?.as_chunks::<4>().0.first().copied().unwrap_or_default();
        Ok(i32::from_le_bytes(bytes))
    }

    /// Reads a list of buffers: address and size of each.
    pub(crate) fn buffers(&mut self, list: i32, count: i32) -> wasmtime::Result<Vec<(i32, i32)>> {
        if count.cast_unsigned() > IO_VECTORS_MAX {
            return Err(HaltReason::Misuse("a read or write has too many buffers").into());
        }
        let at = |index: i32| list.wrapping_add(index.wrapping_mul(8));
        (0..count)
            .map(|index| Ok((self.number(at(index))?, self.number(at(index).wrapping_add(4))?)))
            .collect()
    }
}
