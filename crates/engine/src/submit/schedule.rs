//! Schedules: task requests that are submitted at set times.
//!
//! One transaction advances the schedule by compare-and-set and submits the request under the key
//! `schedule:<id>:<time>`. With any number of schedulers, each time has at most one task.

mod cron;
mod timing;

use std::time::Duration;

use provost_core::command::TaskRequest;
use provost_core::id::name::Namespace;
use provost_core::lifecycle::RequestError;
use provost_core::scheduling::{MissedRunPolicy, OverlapPolicy};
use provost_core::{TaskId, Timestamp};
use provost_store::table::scheduling::schedule::{self, ScheduleRow};
use provost_store::{Tx, Wakeup};
use serde::{Deserialize, Serialize};

pub use self::timing::ScheduleSpec;
use self::timing::ScheduleTimes;
use crate::engine::Engine;
use crate::error::EngineError;
pub(crate) use crate::maintenance::schedules::run;

/// Maximum number of characters in the id of a schedule.
const ID_CHARS_MAX: usize = 64;
/// Maximum number of missed times that one schedule fires at once.
const CATCH_UP_MAX: u32 = 100;
/// Maximum number of upcoming times in one response.
const NEXT_MAX: usize = 100;

/// A task request with its times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// Id, unique in the namespace.
    pub id: String,
    /// Times.
    pub timing: ScheduleSpec,
    /// Time zone of a cron expression.
    #[serde(default = "utc")]
    pub zone: String,
    /// Task request to submit at each time.
    pub command: TaskRequest,
    /// Treatment of missed times.
    #[serde(default)]
    pub catch_up: MissedRunPolicy,
    /// Treatment of a time whose predecessor's task has not ended.
    #[serde(default)]
    pub overlap: OverlapPolicy,
    /// Maximum delay in milliseconds, so that schedules with equal times do not all fire at once. The id of the
    /// schedule determines the actual delay.
    #[serde(default)]
    pub jitter_ms: u64,
}

/// Returns the default time zone.
fn utc() -> String {
    "UTC".to_owned()
}

/// A stored schedule with its state.
#[derive(Debug, Clone, PartialEq)]
pub struct ScheduleState {
    /// The schedule.
    pub schedule: Schedule,
    /// False if the schedule is paused.
    pub active: bool,
    /// Next time. `None` if the schedule is paused or has no further time.
    pub next_at: Option<Timestamp>,
    /// Last time at which it fired.
    pub last_at: Option<Timestamp>,
    /// Task of the last time.
    pub last_task: Option<TaskId>,
    /// Error of the last time.
    pub last_error: Option<String>,
}

/// Commands for schedules. See [`Engine::schedules`](crate::Engine::schedules).
#[derive(Clone, Copy)]
pub struct Schedules<'a> {
    pub(crate) engine: &'a Engine,
}

impl Schedules<'_> {
    /// Creates or replaces a schedule. If its times do not change, times that are due stay due.
    pub async fn put(
        self,
        namespace: &Namespace,
        schedule: Schedule,
    ) -> Result<ScheduleState, EngineError> {
        let namespace = namespace.clone();
        self.engine.inner.store.write(move |tx| put(tx, &namespace, &schedule)).await
    }

    /// Returns a schedule. Fails if the namespace has none with this id.
    pub async fn get(self, namespace: &Namespace, id: &str) -> Result<ScheduleState, EngineError> {
        let (namespace, id) = (namespace.clone(), id.to_owned());
        self.engine.inner.store.read(move |tx| state(&find(tx, &namespace, &id)?)).await
    }

    /// Lists the schedules of a namespace by id, after the id `after`.
    pub async fn list(
        self,
        namespace: &Namespace,
        after: &str,
        limit: u64,
    ) -> Result<Vec<ScheduleState>, EngineError> {
        let (namespace, after) = (namespace.clone(), after.to_owned());
        let listed = self.engine.inner.store.read(move |tx| {
            let rows = schedule::list(tx, namespace.as_str(), &after, limit)?;
            rows.iter().map(state).collect()
        });
        listed.await
    }

    /// Pauses or resumes a schedule and returns it. Times during a pause are skipped. Fails if the namespace has none
    /// with this id.
    pub async fn set_paused(
        self,
        namespace: &Namespace,
        id: &str,
        paused: bool,
    ) -> Result<ScheduleState, EngineError> {
        let (namespace, id) = (namespace.clone(), id.to_owned());
        self.engine.inner.store.write(move |tx| pause(tx, &namespace, &id, paused)).await
    }

    /// Deletes a schedule. Its tasks continue. Fails if the namespace has none with this id.
    pub async fn delete(self, namespace: &Namespace, id: &str) -> Result<(), EngineError> {
        let (namespace, id) = (namespace.clone(), id.to_owned());
        let deleted = self.engine.inner.store.write(move |tx| {
            match schedule::delete(tx, namespace.as_str(), &id)? {
                true => Ok::<_, EngineError>(()),
                false => Err(EngineError::not_found("schedule", &id)),
            }
        });
        deleted.await
    }

    /// Returns the next `count` times of a schedule. Empty if it is paused.
    pub async fn next_times(
        self,
        namespace: &Namespace,
        id: &str,
        count: usize,
    ) -> Result<Vec<Timestamp>, EngineError> {
        let (namespace, id) = (namespace.clone(), id.to_owned());
        let row = self.engine.inner.store.read(move |tx| find(tx, &namespace, &id)).await?;
        let times = schedule_times(&row)?;
        let mut next = row.next_at.filter(|_| row.active).map(|next| times.tick_of(next));
        let mut upcoming = Vec::new();
        while let Some(tick) = next.filter(|_| upcoming.len() < count.min(NEXT_MAX)) {
            upcoming.push(times.delayed(tick));
            next = times.next_after(tick);
        }
        Ok(upcoming)
    }
}

/// Returns a schedule. Fails if the namespace has none with this id.
fn find(tx: &mut Tx<'_>, namespace: &Namespace, id: &str) -> Result<ScheduleRow, EngineError> {
    let row = schedule::get(tx, namespace.as_str(), id)?;
    row.ok_or_else(|| EngineError::not_found("schedule", id))
}

/// Inserts or replaces a schedule inside a transaction, and keeps its next time if its times are unchanged.
fn put(
    tx: &mut Tx<'_>,
    namespace: &Namespace,
    new: &Schedule,
) -> Result<ScheduleState, EngineError> {
    new.check()?;
    let (now, known) = (tx.now(), schedule::lock(tx, namespace.as_str(), &new.id)?);
    let mut row = ScheduleRow {
        namespace: namespace.to_string(),
        id: new.id.clone(),
        timing: serde_json::to_string(&new.timing)?,
        zone: new.zone.clone(),
        command: serde_json::to_string(&new.command)?,
        catch_up: new.catch_up,
        overlap: new.overlap,
        jitter_ms: new.jitter_ms,
        next_at: None,
        active: true,
        last_at: None,
        last_task_id: None,
        last_error: None,
        created: now,
        updated: now,
    };
    let same_times = |known: &ScheduleRow| {
        (&known.timing, &known.zone, known.jitter_ms) == (&row.timing, &row.zone, row.jitter_ms)
    };
    let is_unchanged = known.as_deref().is_some_and(same_times);
    if let Some(known) = &known {
        row.active = known.active;
        row.last_at = known.last_at;
        row.last_task_id = known.last_task_id;
        row.created = if is_unchanged { known.created } else { now };
    }
    row.next_at = match known.as_ref().filter(|_| is_unchanged) {
        Some(known) => known.next_at,
        None => first_time(&row, now)?,
    };
    match known {
        Some(mut known) => {
            *known = row.clone();
            known.save(tx)?;
        }
        None => row.insert(tx)?,
    }
    tx.wake(Wakeup::Schedule);
    state(&row)
}

/// Returns the first time of a schedule that starts now. A schedule with a single time fires even if that time has
/// passed. `None` if there is none.
fn first_time(row: &ScheduleRow, now: Timestamp) -> Result<Option<Timestamp>, EngineError> {
    let times = schedule_times(row)?;
    let next = match serde_json::from_str(&row.timing)? {
        ScheduleSpec::At(at) => Some(at),
        ScheduleSpec::Cron(_) | ScheduleSpec::EveryMs(_) => times.next_after(now),
    };
    Ok(next.map(|tick| times.delayed(tick)))
}

/// Pauses or resumes a schedule inside a transaction. Times that passed during a pause are skipped. Fails if the
/// schedule does not exist.
fn pause(
    tx: &mut Tx<'_>,
    namespace: &Namespace,
    id: &str,
    paused: bool,
) -> Result<ScheduleState, EngineError> {
    let row = schedule::lock(tx, namespace.as_str(), id)?;
    let mut row = row.ok_or_else(|| EngineError::not_found("schedule", id))?;
    if row.active == paused {
        let now = tx.now();
        row.active = !paused;
        row.updated = now;
        if !paused && row.next_at.is_some_and(|next| next < now) {
            let times = schedule_times(&row)?;
            row.next_at = times.next_after(times.tick_of(now)).map(|tick| times.delayed(tick));
        }
        row.save(tx)?;
        tx.wake(Wakeup::Schedule);
    }
    state(&row)
}

/// Parses the times of a stored schedule.
pub(crate) fn schedule_times(row: &ScheduleRow) -> Result<ScheduleTimes, EngineError> {
    let timing = serde_json::from_str(&row.timing)?;
    let jitter = Duration::from_millis(row.jitter_ms);
    let name = format!("{}/{}", row.namespace, row.id);
    Ok(ScheduleTimes::new(&timing, &row.zone, row.created, jitter, &name)?)
}

/// Parses a stored schedule.
fn state(row: &ScheduleRow) -> Result<ScheduleState, EngineError> {
    let schedule = Schedule {
        id: row.id.clone(),
        timing: serde_json::from_str(&row.timing)?,
        zone: row.zone.clone(),
        command: serde_json::from_str(&row.command)?,
        catch_up: row.catch_up,
        overlap: row.overlap,
        jitter_ms: row.jitter_ms,
    };
    Ok(ScheduleState {
        schedule,
        active: row.active,
        next_at: row.next_at.filter(|_| row.active),
        last_at: row.last_at,
        last_task: row.last_task_id,
        last_error: row.last_error.clone(),
    })
}

impl Schedule {
    /// Fails if the id, the times or the task request are invalid.
    fn check(&self) -> Result<(), EngineError> {
        let legal = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if self.id.is_empty() || self.id.len() > ID_CHARS_MAX || !self.id.chars().all(legal) {
            let fix = format!("use 1 to {ID_CHARS_MAX} letters, digits, `-`, `_` and `.`");
            return Err(RequestError::invalid("schedule.id", "not a name", fix).into());
        }
        if self.command.idempotency_key.is_some() {
            let problem = "each time has its own key";
            return Err(RequestError::invalid(
                "schedule.command.idempotency_key",
                problem,
                "omit it",
            )
            .into());
        }
        if let MissedRunPolicy::All { max } = self.catch_up
            && !(1..=CATCH_UP_MAX).contains(&max)
        {
            let fix = format!("use 1 to {CATCH_UP_MAX}");
            return Err(RequestError::invalid("schedule.catch_up.max", "out of range", fix).into());
        }
        self.command.validate()?;
        let jitter = Duration::from_millis(self.jitter_ms);
        ScheduleTimes::new(&self.timing, &self.zone, Timestamp::default(), jitter, &self.id)?;
        Ok(())
    }
}
