//! The memory of a module, as seen from outside: every address that it gives is checked.

use wasmtime::{Caller, Extern};

use crate::call::store_data::{Guest, Halt};
use crate::limits::PARTS_MAX;

/// The memory that a module exports as `memory`.
pub(crate) struct Memory<'a>(&'a mut [u8]);

impl<'a> Memory<'a> {
    /// The memory, and the rest of the call beside it.
    pub(crate) fn of(caller: &'a mut Caller<'_, Guest>) -> wasmtime::Result<(Self, &'a mut Guest)> {
        let memory = caller.get_export("memory").and_then(Extern::into_memory);
        let memory = memory.ok_or(Halt::Misuse("it exports no memory named `memory`"))?;
        let (bytes, guest) = memory.data_and_store_mut(caller);
        Ok((Self(bytes), guest))
    }

    /// So many bytes from an address on.
    pub(crate) fn slice(&mut self, at: i32, size: i32) -> wasmtime::Result<&mut [u8]> {
        let start = at.cast_unsigned() as usize;
        let end = start.checked_add(size.cast_unsigned() as usize);
        let slice = end.and_then(|end| self.0.get_mut(start..end));
        Ok(slice.ok_or(Halt::Misuse("it gave an address outside of its memory"))?)
    }

    /// Puts bytes at an address.
    pub(crate) fn write(&mut self, at: i32, bytes: &[u8]) -> wasmtime::Result<()> {
        let size = i32::try_from(bytes.len());
        let size = size.map_err(|_long| Halt::Misuse("what it is given does not fit"))?;
        self.slice(at, size)?.copy_from_slice(bytes);
        Ok(())
    }

    /// A number at an address.
    pub(crate) fn number(&mut self, at: i32) -> wasmtime::Result<i32> {
        let bytes = self.slice(at, 4)?.as_chunks::<4>().0.first().copied().unwrap_or_default();
        Ok(i32::from_le_bytes(bytes))
    }

    /// A list of places: address and size of each.
    pub(crate) fn parts(&mut self, list: i32, count: i32) -> wasmtime::Result<Vec<(i32, i32)>> {
        if count.cast_unsigned() > PARTS_MAX {
            return Err(Halt::Misuse("it reads or writes in too many parts").into());
        }
        let at = |index: i32| list.wrapping_add(index.wrapping_mul(8));
        (0..count)
            .map(|index| Ok((self.number(at(index))?, self.number(at(index).wrapping_add(4))?)))
            .collect()
    }
}
