//! What one call has been through: a pure record of who was asked and what came of it.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::react::{Fault, fault};
use crate::{ModelError, RetryPolicy};

/// Attempts of one call that are told; further ones only count.
const TOLD_MAX: usize = 16;

/// The way of one call.
#[derive(Debug)]
pub(super) struct Trail {
    /// The moment that all waits are counted from.
    pub(super) now: Instant,
    lanes: Vec<Step>,
    /// Attempts at a place that was asked before.
    repeats: u32,
    repeats_max: u32,
    failures: u32,
    told: Vec<(String, &'static str)>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Step {
    tried: bool,
    out: bool,
    not_before: Option<Instant>,
}

impl Trail {
    pub(super) fn new(lanes: usize, retry: &RetryPolicy, now: Instant) -> Self {
        Self {
            now,
            lanes: vec![Step::default(); lanes],
            repeats: 0,
            repeats_max: retry.max_retries,
            failures: 0,
            told: Vec::new(),
        }
    }

    /// How long until a place may be asked; nothing, if never again in this call.
    pub(super) fn wait(&self, lane: usize) -> Option<Duration> {
        let step = self.lanes.get(lane)?;
        if step.out || (step.tried && self.repeats >= self.repeats_max) {
            return None;
        }
        let not_before = step.not_before.unwrap_or(self.now);
        Some(not_before.saturating_duration_since(self.now))
    }

    /// A place is asked.
    pub(super) fn ask(&mut self, lane: usize) {
        if let Some(step) = self.lanes.get_mut(lane) {
            self.repeats += u32::from(step.tried);
            step.tried = true;
        }
    }

    /// The retries made so far: attempts at a place that was asked before.
    pub(super) fn repeats(&self) -> u32 {
        self.repeats
    }

    /// Attempts that failed.
    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    /// An attempt failed. `again` is how long the place is left alone before it may be tried again; never if there is nothing.
    pub(super) fn failed(
        &mut self,
        (endpoint, lane): (std::ops::Range<usize>, usize),
        error: &ModelError,
        again: Option<Duration>,
    ) {
        self.failures = self.failures.saturating_add(1);
        // What is wrong with an endpoint is wrong with all its credentials.
        let whole = matches!(fault(error), Fault::Endpoint | Fault::Choice);
        let hit = if whole { endpoint } else { lane..lane + 1 };
        for step in self.lanes.get_mut(hit).into_iter().flatten() {
            match again {
                Some(wait) => step.not_before = Some(self.now + wait),
                None => step.out = true,
            }
        }
    }

    /// These places are not asked any more.
    pub(super) fn rule_out(&mut self, lanes: std::ops::Range<usize>) {
        for step in self.lanes.get_mut(lanes).into_iter().flatten() {
            step.out = true;
        }
    }

    /// Notes what came of asking somebody.
    pub(super) fn tell(&mut self, whom: String, what: &'static str) {
        if self.told.len() < TOLD_MAX {
            self.told.push((whom, what));
        }
    }

    /// The failures as words: `openai/default: overloaded, azure/default: auth`.
    pub(super) fn words(&self) -> String {
        let each = self.told.iter().map(|(whom, what)| format!("{whom}: {what}"));
        each.collect::<Vec<_>>().join(", ")
    }

    /// The failures as data.
    pub(super) fn data(&self) -> Value {
        self.told.iter().map(|(whom, what)| json!({ "asked": whom, "failed": what })).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ModelErrorClass as Class;

    const SECOND: Duration = Duration::from_secs(1);

    fn trail(lanes: usize) -> Trail {
        Trail::new(lanes, &RetryPolicy { max_retries: 2, ..Default::default() }, Instant::now())
    }

    #[test]
    fn the_fault_of_an_endpoint_is_that_of_all_its_credentials() {
        let mut trail = trail(3);
        trail.ask(0);
        trail.failed((0..2, 0), &ModelError::new(Class::Overloaded, "x"), Some(SECOND));
        let waits: Vec<_> = (0..3).map(|lane| trail.wait(lane)).collect();
        assert_eq!(waits, [Some(SECOND), Some(SECOND), Some(Duration::ZERO)]);
        trail.failed((0..2, 1), &ModelError::new(Class::Auth, "x"), None);
        let waits: Vec<_> = (0..3).map(|lane| trail.wait(lane)).collect();
        assert_eq!(waits, [Some(SECOND), None, Some(Duration::ZERO)]);
    }

    #[test]
    fn only_repetitions_count_as_retries() {
        let mut trail = trail(3);
        (0..3).for_each(|lane| trail.ask(lane));
        assert_eq!(trail.repeats(), 0);
        trail.ask(0);
        trail.ask(1);
        assert_eq!((trail.repeats(), trail.wait(0)), (2, None));
        let mut fresh = self::trail(2);
        (0..3).for_each(|_| fresh.ask(0));
        assert_eq!((fresh.wait(0), fresh.wait(1)), (None, Some(Duration::ZERO)), "one is fresh");
    }
}
