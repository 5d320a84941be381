//! Deterministic keys: the same operation has the same key whenever it is repeated.
//!
//! After a crash the work is repeated up to the effect. The key lets the other side, or the engine's own database,
//! detect the repetition. Keys do not contain the model's call ids, because those change when the model plans again.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Builder;

use crate::hash::{fields_hash, hex};
use crate::lifecycle::RequestError;
use crate::lifecycle::error::quoted;
use crate::{InputId, RunId, TaskId, TypedId};

/// Bytes of the hash in a key. 128 bits exclude collisions.
const KEY_BYTES: usize = 16;
const EFFECT_PREFIX: &str = "eff_";

/// Identifies one effect of one run, in every process and attempt. Clones share the text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EffectKey(Arc<str>);

impl EffectKey {
    /// Creates the key of the effect at `index` of a turn of a run.
    pub fn new(run: RunId, turn: u64, index: u64) -> Self {
        let hash = fields_hash(
            "effect",
            &[run.uuid().as_bytes(), &turn.to_be_bytes(), &index.to_be_bytes()],
        );
        Self(format!("{EFFECT_PREFIX}{}", hex(&hash[..KEY_BYTES])).into())
    }

    /// Returns the key as text, for a column or a header.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for EffectKey {
    type Err = RequestError;
    fn from_str(text: &str) -> Result<Self, RequestError> {
        let digits = text.strip_prefix(EFFECT_PREFIX).unwrap_or("");
        let lower_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if digits.len() == KEY_BYTES * 2 && digits.bytes().all(lower_hex) {
            return Ok(Self(text.into()));
        }
        let problem = format!("`{}` is not an effect key", quoted(text));
        Err(RequestError::invalid(
            "effect_key",
            problem,
            "use the key of the step as it was stored",
        ))
    }
}

impl TryFrom<String> for EffectKey {
    type Error = RequestError;
    fn try_from(text: String) -> Result<Self, RequestError> {
        text.parse()
    }
}

impl From<EffectKey> for String {
    fn from(key: EffectKey) -> String {
        key.0.as_ref().to_owned()
    }
}

impl fmt::Display for EffectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for EffectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns the id of the run that step `step` of `parent` spawns. It is the same after every crash, so no duplicate
/// starts.
///
/// The id is a UUIDv8. The first 48 bits are those of the parent, so that a child sorts next to it. The other 74 free
/// bits are the beginning of a SHA-256 hash of the parent's id and the step.
pub fn child_run_id(parent: RunId, step: u64) -> RunId {
    child_id("child_run", parent, step)
}

/// Returns the id of the task that step `step` of `parent` spawns, built like [`child_run_id`].
pub fn child_task_id(parent: RunId, step: u64) -> TaskId {
    child_id("child_task", parent, step)
}

/// Returns the id of the run that answers the messages from `input` on that `ended` left unanswered, built like
/// [`child_run_id`].
pub fn follow_up_run_id(ended: RunId, input: InputId) -> RunId {
    deterministic_id("heir_run", ended, &[ended.uuid().as_bytes(), input.uuid().as_bytes()])
}

/// The ids of a child that a call requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChildIds {
    /// Id of the run.
    pub run: RunId,
    /// Id of the task.
    pub task: TaskId,
}

/// Returns the ids of the child that a call of `parent` requests at `index`. They are the same whenever the call is
/// repeated. They sort by index, so that concurrent children are neighbours in the database.
pub fn child_ids_of_call(parent: RunId, call: &EffectKey, index: u32) -> ChildIds {
    let run = ordered_child_id("call_run", parent, call, index);
    let task = ordered_child_id("call_task", parent, call, index);
    ChildIds { run, task }
}

/// Returns an id from the time of the parent, the call, the index and the hash of all of them.
fn ordered_child_id<T: TypedId>(kind: &str, parent: RunId, call: &EffectKey, index: u32) -> T {
    let (call, place) = (call.as_str().as_bytes(), index.to_be_bytes());
    let mut bytes = [0; 16];
    bytes[..6].copy_from_slice(&parent.uuid().as_bytes()[..6]);
    bytes[6..10].copy_from_slice(&fields_hash(kind, &[call])[..4]);
    // Calls rarely request more children than two bytes count; if one does, the hash still distinguishes them.
    bytes[10..12].copy_from_slice(&place[2..]);
    bytes[12..].copy_from_slice(&fields_hash(kind, &[call, &place])[..4]);
    T::from_uuid(Builder::from_custom_bytes(bytes).into_uuid())
}

/// Returns the id of a child that a step spawns.
fn child_id<T: TypedId>(kind: &str, parent: RunId, step: u64) -> T {
    deterministic_id(kind, parent, &[parent.uuid().as_bytes(), &step.to_be_bytes()])
}

/// Returns an id with the time of the parent and the hash of the fields.
fn deterministic_id<T: TypedId>(kind: &str, parent: RunId, fields: &[&[u8]]) -> T {
    let uuid = parent.uuid();
    let hash = fields_hash(kind, fields);
    let mut bytes = [0; 16];
    bytes[..6].copy_from_slice(&uuid.as_bytes()[..6]);
    bytes[6..].copy_from_slice(&hash[..10]);
    T::from_uuid(Builder::from_custom_bytes(bytes).into_uuid())
}

/// Returns the key of a delivery of one step to one target. An operator's retry has a new generation and is sent again.
pub fn delivery_key(run: RunId, step: u64, target: &str, generation: u64) -> String {
    let (step, generation) = (step.to_be_bytes(), generation.to_be_bytes());
    let hash = fields_hash("send", &[run.uuid().as_bytes(), &step, target.as_bytes(), &generation]);
    format!("send_{}", hex(&hash[..KEY_BYTES]))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::Env;

    #[test]
    fn g52_a_child_has_the_same_id_every_time_and_no_other_child_has_it() {
        let env = Env::simulated(5);
        let parents: Vec<RunId> = (0..20).map(|_| env.id()).collect();
        let mut seen = HashSet::new();
        for parent in &parents {
            for step in 0..200 {
                assert_eq!(child_run_id(*parent, step), child_run_id(*parent, step));
                assert!(seen.insert(child_run_id(*parent, step).uuid()));
                assert_eq!(child_task_id(*parent, step), child_task_id(*parent, step));
                assert!(seen.insert(child_task_id(*parent, step).uuid()));
            }
        }
    }

    #[test]
    fn a_child_is_a_valid_id_that_is_listed_near_its_parent() {
        let env = Env::simulated(6);
        let parent: RunId = env.id();
        env.advance(std::time::Duration::from_millis(1));
        let later: RunId = env.id();
        let child = child_run_id(parent, 3);
        assert_eq!(child.to_string().parse::<RunId>().unwrap(), child);
        assert_eq!(child.uuid().get_version_num(), 8);
        assert_eq!(child.to_string()[..13], parent.to_string()[..13], "the time of the parent");
        assert!(child < later && child_run_id(child, 1) < later);
    }

    #[test]
    fn g52_the_children_of_a_call_have_the_same_ids_every_time_in_the_order_of_their_places() {
        let env = Env::simulated(8);
        let mut seen = HashSet::new();
        for _ in 0..5 {
            let parent: RunId = env.id();
            for turn in 0..20 {
                let call = EffectKey::new(parent, turn, 0);
                let ids: Vec<_> =
                    (0..300).map(|index| child_ids_of_call(parent, &call, index)).collect();
                assert!(
                    ids.is_sorted_by_key(|ids| ids.run) && ids.is_sorted_by_key(|ids| ids.task)
                );
                for (index, ids) in (0..).zip(ids) {
                    assert_eq!(child_ids_of_call(parent, &call, index), ids);
                    let ChildIds { run, task } = ids;
                    assert!(seen.insert(run.uuid()) && seen.insert(task.uuid()));
                    assert_eq!(run.uuid().get_version_num(), 8);
                    assert_eq!(run.to_string()[..13], parent.to_string()[..13]);
                }
            }
        }
        let (parent, call) = (env.id(), EffectKey::new(env.id(), 0, 0));
        let far = [1, 65_537, 131_073].map(|index| child_ids_of_call(parent, &call, index).run);
        assert!(far[0] != far[1] && far[1] != far[2]);
    }

    #[test]
    fn what_a_run_leaves_gets_the_same_run_every_time_and_never_one_that_was_there() {
        let env = Env::simulated(9);
        let first: RunId = env.id();
        let (one, two): (InputId, InputId) = (env.id(), env.id());
        let heirs = [follow_up_run_id(first, one), follow_up_run_id(first, two)];
        assert_eq!(heirs, [follow_up_run_id(first, one), follow_up_run_id(first, two)]);
        let next = follow_up_run_id(heirs[0], one);
        let runs: HashSet<_> = [first, heirs[0], heirs[1], next].into();
        assert_eq!(runs.len(), 4);
    }

    #[test]
    fn an_effect_key_depends_on_run_turn_and_index() {
        let env = Env::simulated(7);
        let (one, two): (RunId, RunId) = (env.id(), env.id());
        let keys: HashSet<_> = [
            EffectKey::new(one, 0, 0),
            EffectKey::new(one, 0, 1),
            EffectKey::new(one, 1, 0),
            EffectKey::new(two, 0, 0),
            EffectKey::new(one, 1, 1),
            EffectKey::new(one, 256, 0),
        ]
        .into();
        assert_eq!(keys.len(), 6);
        let key = EffectKey::new(one, 4, 2);
        assert_eq!(key, EffectKey::new(one, 4, 2));
        assert_eq!(key.as_str().len(), 36);
        assert_eq!(key.as_str().parse::<EffectKey>().unwrap(), key);
    }

    #[test]
    fn a_text_that_is_no_effect_key_is_refused() {
        for text in ["", "eff_", "eff_0", &format!("eff_{}", "A".repeat(32)), &"0".repeat(36)] {
            assert!(text.parse::<EffectKey>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_delivery_is_new_only_in_a_new_generation() {
        let run: RunId = Env::simulated(8).id();
        assert_eq!(delivery_key(run, 1, "mail:a", 1), delivery_key(run, 1, "mail:a", 1));
        let keys: HashSet<_> = [
            delivery_key(run, 1, "mail:a", 1),
            delivery_key(run, 1, "mail:a", 2),
            delivery_key(run, 2, "mail:a", 1),
            delivery_key(run, 1, "mail:b", 1),
        ]
        .into();
        assert_eq!(keys.len(), 4);
    }
}
