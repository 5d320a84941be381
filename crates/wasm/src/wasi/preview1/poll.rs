//! Polling of clocks and streams. Streams are always ready.

use std::time::Duration;

use wasmtime::{Caller, Linker};

use super::{
    CLOCK_MONOTONIC, CLOCK_WALL, INVALID, Memory, NAME, SUCCESS, monotonic_nanos, wall_nanos,
};
use crate::call::store_data::{HaltReason, StoreData};

/// Maximum number of subscriptions of one call.
const SUBSCRIPTIONS_MAX: u32 = 64;
/// Size of a subscription and of an event, in bytes.
const SUBSCRIPTION_BYTES: i32 = 48;
const EVENT_BYTES: i32 = 32;

/// Event for which a module waits.
struct Subscription {
    userdata: [u8; 8],
    kind: u8,
    /// Remaining time, or an error code if the subscription is invalid. Zero if it is ready.
    remaining: Result<Duration, i32>,
}

/// Adds the function that waits for events.
pub(super) fn link_poll(linker: &mut Linker<StoreData>) -> wasmtime::Result<()> {
    linker.func_wrap_async(
        NAME,
        "poll_oneoff",
        |mut caller: Caller<'_, StoreData>,
         (subscriptions, events, count, at): (i32, i32, i32, i32)| {
            Box::new(async move {
                if count == 0 || count.cast_unsigned() > SUBSCRIPTIONS_MAX {
                    return Ok(INVALID);
                }
                let subscriptions = read_subscriptions(&mut caller, subscriptions, count)?;
                let remaining =
                    |subscription: &Subscription| subscription.remaining.unwrap_or(Duration::ZERO);
                let soonest = subscriptions.iter().map(remaining).min().unwrap_or(Duration::ZERO);
                sleep_bounded(caller.data().deadline, soonest).await?;
                let due =
                    subscriptions.iter().filter(|subscription| remaining(subscription) <= soonest);
                let (mut memory, _) = Memory::of(&mut caller)?;
                let mut count: u32 = 0;
                for subscription in due {
                    let mut event = [0; EVENT_BYTES as usize];
                    let code = subscription.remaining.err().unwrap_or(SUCCESS);
                    event[..8].copy_from_slice(&subscription.userdata);
                    event[8] = code.to_le_bytes()[0];
                    event[10] = subscription.kind;
                    let buffer = events.wrapping_add(EVENT_BYTES.wrapping_mul(count.cast_signed()));
                    memory.write(buffer, &event)?;
                    count += 1;
                }
                memory.write(at, &count.to_le_bytes()).map(|()| SUCCESS)
            })
        },
    )?;
    Ok(())
}

/// Sleeps until the time has passed. Returns an error that stops the module if the deadline of the call passes first.
pub(crate) async fn sleep_bounded(
    deadline: std::time::Instant,
    time: Duration,
) -> wasmtime::Result<()> {
    let remaining = deadline.saturating_duration_since(std::time::Instant::now());
    if !time.is_zero() {
        tokio::time::sleep(time.min(remaining)).await;
    }
    match time > remaining {
        true => Err(HaltReason::Timeout.into()),
        false => Ok(()),
    }
}

/// Reads the subscriptions from the memory of the module.
fn read_subscriptions(
    caller: &mut Caller<'_, StoreData>,
    list: i32,
    count: i32,
) -> wasmtime::Result<Vec<Subscription>> {
    const CLOCK: u8 = 0;
    const ABSOLUTE: u8 = 1;
    let (mut memory, data) = Memory::of(caller)?;
    let mut subscriptions = Vec::new();
    for index in 0..count {
        let raw = memory
            .slice(list.wrapping_add(SUBSCRIPTION_BYTES.wrapping_mul(index)), SUBSCRIPTION_BYTES)?;
        let count = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&raw[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        let mut userdata = [0; 8];
        userdata.copy_from_slice(&raw[..8]);
        let kind = raw[8];
        let clock = i32::from_le_bytes([raw[16], raw[17], raw[18], raw[19]]);
        let now = match clock {
            CLOCK_WALL => Some(wall_nanos(data)),
            CLOCK_MONOTONIC => Some(monotonic_nanos(data)),
            _ => None,
        };
        let remaining = match (kind, now) {
            (CLOCK, Some(now)) if raw[40] & ABSOLUTE != 0 => {
                Ok(Duration::from_nanos(count(24).saturating_sub(now)))
            }
            (CLOCK, Some(_)) => Ok(Duration::from_nanos(count(24))),
            (CLOCK, None) => Err(INVALID),
            // Streams are in memory.
            _ => Ok(Duration::ZERO),
        };
        subscriptions.push(Subscription { userdata, kind, remaining });
    }
    Ok(subscriptions)
}
