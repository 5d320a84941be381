//! Waiting: for a time, or for a stream, of which all are always ready.

use std::time::Duration;

use wasmtime::{Caller, Linker};

use super::{
    CLOCK_MONOTONIC, CLOCK_WALL, INVALID, Memory, NAME, SUCCESS, monotonic_nanos, wall_nanos,
};
use crate::call::store_data::{Guest, Halt};

/// Things that are waited for at once.
const WAITS_MAX: u32 = 64;
/// Bytes of one that is waited for, and of one that has come.
const WAIT_BYTES: i32 = 48;
const CAME_BYTES: i32 = 32;

/// Something that is waited for.
struct Wait {
    mark: [u8; 8],
    kind: u8,
    /// How long; nothing if it is there already, or a code if it never can be.
    left: Result<Duration, i32>,
}

pub(super) fn link(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    linker.func_wrap_async(
        NAME,
        "poll_oneoff",
        |mut caller: Caller<'_, Guest>, (waits, came, count, at): (i32, i32, i32, i32)| {
            Box::new(async move {
                if count == 0 || count.cast_unsigned() > WAITS_MAX {
                    return Ok(INVALID);
                }
                let waits = read(&mut caller, waits, count)?;
                let left = |wait: &Wait| wait.left.unwrap_or(Duration::ZERO);
                let soonest = waits.iter().map(left).min().unwrap_or(Duration::ZERO);
                rest(caller.data().deadline, soonest).await?;
                let due = waits.iter().filter(|wait| left(wait) <= soonest);
                let (mut memory, _) = Memory::of(&mut caller)?;
                let mut number: u32 = 0;
                for wait in due {
                    let mut event = [0; CAME_BYTES as usize];
                    let code = wait.left.err().unwrap_or(SUCCESS);
                    event[..8].copy_from_slice(&wait.mark);
                    event[8] = code.to_le_bytes()[0];
                    event[10] = wait.kind;
                    let place = came.wrapping_add(CAME_BYTES.wrapping_mul(number.cast_signed()));
                    memory.write(place, &event)?;
                    number += 1;
                }
                memory.write(at, &number.to_le_bytes()).map(|()| SUCCESS)
            })
        },
    )?;
    Ok(())
}

/// Sleeps, but not beyond the end of the call.
pub(crate) async fn rest(deadline: std::time::Instant, time: Duration) -> wasmtime::Result<()> {
    let left = deadline.saturating_duration_since(std::time::Instant::now());
    if !time.is_zero() {
        tokio::time::sleep(time.min(left)).await;
    }
    match time > left {
        true => Err(Halt::Late.into()),
        false => Ok(()),
    }
}

fn read(caller: &mut Caller<'_, Guest>, list: i32, count: i32) -> wasmtime::Result<Vec<Wait>> {
    const CLOCK: u8 = 0;
    const ABSOLUTE: u8 = 1;
    let (mut memory, guest) = Memory::of(caller)?;
    let mut waits = Vec::new();
    for index in 0..count {
        let raw = memory.slice(list.wrapping_add(WAIT_BYTES.wrapping_mul(index)), WAIT_BYTES)?;
        let number = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&raw[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        let mut mark = [0; 8];
        mark.copy_from_slice(&raw[..8]);
        let kind = raw[8];
        let clock = i32::from_le_bytes([raw[16], raw[17], raw[18], raw[19]]);
        let now = match clock {
            CLOCK_WALL => Some(wall_nanos(guest)),
            CLOCK_MONOTONIC => Some(monotonic_nanos(guest)),
            _ => None,
        };
        let left = match (kind, now) {
            (CLOCK, Some(now)) if raw[40] & ABSOLUTE != 0 => {
                Ok(Duration::from_nanos(number(24).saturating_sub(now)))
            }
            (CLOCK, Some(_)) => Ok(Duration::from_nanos(number(24))),
            (CLOCK, None) => Err(INVALID),
            // The streams are in memory.
            _ => Ok(Duration::ZERO),
        };
        waits.push(Wait { mark, kind, left });
    }
    Ok(waits)
}
