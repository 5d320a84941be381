//! Schedules: commands that come by themselves at their times.
//!
//! A firing is one transaction: the schedule moves on by compare-and-set, and the command is accepted under the key
//! `schedule:<id>:<time>`. However many schedulers run, each time has at most one task.

mod cron;
mod timing;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use provost_core::command::TaskRequest;
use provost_core::id::name::Namespace;
use provost_core::lifecycle::RequestError;
use provost_core::{TaskId, Timestamp};
use provost_store::Tx;
use provost_store::table::scheduling::schedule::{self, ScheduleRow};
use serde::{Deserialize, Serialize};

use self::timing::Ticks;
pub use self::timing::Timing;
use crate::engine::Engine;
use crate::error::EngineError;
pub(crate) use crate::maintenance::schedules::run;

/// Characters of a schedule's id.
const ID_CHARS_MAX: usize = 64;
/// Times that one schedule may catch up at once.
const CATCH_UP_MAX: u32 = 100;
/// Times that are told in advance.
const NEXT_MAX: usize = 100;

/// What happens to times that nobody could keep because no scheduler ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CatchUp {
    /// Nothing: what is more than a minute late is left out.
    Skip,
    /// The newest one fires, for all of them.
    #[default]
    One,
    /// The newest ones fire, oldest first.
    All {
        /// How many at most.
        max: u32,
    },
}

/// What happens if the task of the time before has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// Both go on.
    Allow,
    /// This time is left out.
    #[default]
    Skip,
    /// This one waits: it gets a task of its own in the session of the command, or else in one that the schedule has for itself.
    Queue,
    /// The one before is cancelled.
    CancelPrevious,
}

/// A command that comes by itself at its times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// Its name, unique in its namespace.
    pub id: String,
    /// When.
    pub timing: Timing,
    /// The time zone of a cron expression.
    #[serde(default = "utc")]
    pub zone: String,
    /// What is asked for each time.
    pub command: TaskRequest,
    /// What happens to times that nobody could keep.
    #[serde(default)]
    pub catch_up: CatchUp,
    /// What happens if the task of the time before has not ended.
    #[serde(default)]
    pub overlap: Overlap,
    /// Milliseconds by which it may come later, so that schedules with equal times do not all start at once. How much of them
    /// is decided by its name.
    #[serde(default)]
    pub jitter_ms: u64,
}

fn utc() -> String {
    "UTC".to_owned()
}

/// A schedule as it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct ScheduleState {
    /// What was set.
    pub schedule: Schedule,
    /// False if it is paused.
    pub active: bool,
    /// When it comes next.
    pub next_at: Option<Timestamp>,
    /// When it came last.
    pub last_at: Option<Timestamp>,
    /// The task it asked for then.
    pub last_task: Option<TaskId>,
    /// Why it could not ask last time.
    pub last_error: Option<String>,
}

/// Schedules that submit tasks. See [`Engine::schedules`](crate::Engine::schedules).
#[derive(Clone, Copy)]
pub struct Schedules<'a> {
    pub(crate) engine: &'a Engine,
}

impl Schedules<'_> {
    /// Makes a schedule, or changes one. What it has not done yet by the same times stays due.
    pub async fn put(
        self,
        namespace: &Namespace,
        schedule: Schedule,
    ) -> Result<ScheduleState, EngineError> {
        let namespace = namespace.clone();
        let put = self.engine.inner.store.write(move |tx| put(tx, &namespace, &schedule)).await;
        self.engine.inner.schedules_changed.notify_one();
        put
    }

    /// A schedule.
    pub async fn get(self, namespace: &Namespace, id: &str) -> Result<ScheduleState, EngineError> {
        let (namespace, id) = (namespace.clone(), id.to_owned());
        self.engine.inner.store.read(move |tx| state(&find(tx, &namespace, &id)?)).await
    }

    /// The schedules of a namespace, by id, after the id `after`.
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

    /// Pauses a schedule, or lets it go on; times that come while it is paused are left out.
    pub async fn set_paused(
        self,
        namespace: &Namespace,
        id: &str,
        paused: bool,
    ) -> Result<ScheduleState, EngineError> {
        let (namespace, id) = (namespace.clone(), id.to_owned());
        let changed =
            self.engine.inner.store.write(move |tx| pause(tx, &namespace, &id, paused)).await;
        self.engine.inner.schedules_changed.notify_one();
        changed
    }

    /// Removes a schedule. Tasks that it asked for go on.
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

    /// The next times of a schedule that is not paused.
    pub async fn next_times(
        self,
        namespace: &Namespace,
        id: &str,
        count: usize,
    ) -> Result<Vec<Timestamp>, EngineError> {
        let (namespace, id) = (namespace.clone(), id.to_owned());
        let row = self.engine.inner.store.read(move |tx| find(tx, &namespace, &id)).await?;
        let ticks = ticks_of(&row)?;
        let mut next = row.next_at.filter(|_| row.active).map(|next| ticks.tick_of(next));
        let mut times = Vec::new();
        while let Some(tick) = next.filter(|_| times.len() < count.min(NEXT_MAX)) {
            times.push(ticks.delayed(tick));
            next = ticks.next_after(tick);
        }
        Ok(times)
    }
}

fn find(tx: &mut Tx<'_>, namespace: &Namespace, id: &str) -> Result<ScheduleRow, EngineError> {
    let row = schedule::get(tx, namespace.as_str(), id)?;
    row.ok_or_else(|| EngineError::not_found("schedule", id))
}

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
        catch_up: new.catch_up.to_string(),
        overlap: serde_json::to_value(new.overlap)?.as_str().unwrap_or_default().to_owned(),
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
    let keeps = known.as_deref().is_some_and(same_times);
    if let Some(known) = &known {
        row.active = known.active;
        row.last_at = known.last_at;
        row.last_task_id = known.last_task_id;
        row.created = if keeps { known.created } else { now };
    }
    row.next_at = match known.as_ref().filter(|_| keeps) {
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
    state(&row)
}

/// The first time of a schedule that starts now. One that was to fire once fires, if late.
fn first_time(row: &ScheduleRow, now: Timestamp) -> Result<Option<Timestamp>, EngineError> {
    let ticks = ticks_of(row)?;
    let next = match serde_json::from_str(&row.timing)? {
        Timing::At(at) => Some(at),
        Timing::Cron(_) | Timing::EveryMs(_) => ticks.next_after(now),
    };
    Ok(next.map(|tick| ticks.delayed(tick)))
}

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
            let ticks = ticks_of(&row)?;
            row.next_at = ticks.next_after(ticks.tick_of(now)).map(|tick| ticks.delayed(tick));
        }
        row.save(tx)?;
    }
    state(&row)
}

pub(crate) fn ticks_of(row: &ScheduleRow) -> Result<Ticks, EngineError> {
    let timing = serde_json::from_str(&row.timing)?;
    let jitter = Duration::from_millis(row.jitter_ms);
    let name = format!("{}/{}", row.namespace, row.id);
    Ok(Ticks::new(&timing, &row.zone, row.created, jitter, &name)?)
}

fn state(row: &ScheduleRow) -> Result<ScheduleState, EngineError> {
    let schedule = Schedule {
        id: row.id.clone(),
        timing: serde_json::from_str(&row.timing)?,
        zone: row.zone.clone(),
        command: serde_json::from_str(&row.command)?,
        catch_up: row.catch_up.parse()?,
        overlap: overlap_of(row)?,
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

pub(crate) fn overlap_of(row: &ScheduleRow) -> Result<Overlap, EngineError> {
    Ok(serde_json::from_value(row.overlap.as_str().into())?)
}

impl Schedule {
    fn check(&self) -> Result<(), EngineError> {
        let legal = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if self.id.is_empty() || self.id.len() > ID_CHARS_MAX || !self.id.chars().all(legal) {
            let fix = format!("use 1 to {ID_CHARS_MAX} letters, digits, `-`, `_` and `.`");
            return Err(RequestError::invalid("schedule.id", "not a name", fix).into());
        }
        if self.command.idempotency_key.is_some() {
            let problem = "each time has a key of its own";
            return Err(RequestError::invalid(
                "schedule.command.idempotency_key",
                problem,
                "leave it out",
            )
            .into());
        }
        if let CatchUp::All { max } = self.catch_up
            && !(1..=CATCH_UP_MAX).contains(&max)
        {
            let fix = format!("use 1 to {CATCH_UP_MAX}");
            return Err(RequestError::invalid("schedule.catch_up.max", "out of range", fix).into());
        }
        self.command.validate()?;
        let jitter = Duration::from_millis(self.jitter_ms);
        Ticks::new(&self.timing, &self.zone, Timestamp::default(), jitter, &self.id)?;
        Ok(())
    }
}

impl fmt::Display for CatchUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Skip => f.write_str("skip"),
            Self::One => f.write_str("one"),
            Self::All { max } => write!(f, "all:{max}"),
        }
    }
}

impl FromStr for CatchUp {
    type Err = RequestError;

    fn from_str(text: &str) -> Result<Self, RequestError> {
        let max = text.strip_prefix("all:").and_then(|max| max.parse().ok());
        match (text, max) {
            ("skip", _) => Ok(Self::Skip),
            ("one", _) => Ok(Self::One),
            (_, Some(max)) => Ok(Self::All { max }),
            _ => {
                let fix = "use `skip`, `one` or `all:<number>`";
                Err(RequestError::invalid("schedule.catch_up", "not a rule", fix))
            }
        }
    }
}

impl Serialize for CatchUp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CatchUp {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}
