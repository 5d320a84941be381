//! State of the effect server: calls, effects, responses and paused responses.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Value, json};
use tokio::sync::oneshot;

/// Paths of the effect server, one for each class of effects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EffectKind {
    /// `/effect`: counts every call.
    Effect,
    /// `/opaque`: counts every call.
    Opaque,
    /// `/keyed`: counts every new idempotency key.
    Keyed,
    /// `/idempotent`: counts every change of the arguments.
    Idempotent,
    /// `/pure`: counts nothing.
    Pure,
    /// `/provable`: counts every call and supports probes.
    Provable,
    /// `/probe/<key>`: queries an effect.
    Probe,
}

impl EffectKind {
    const ALL: [Self; 7] = [
        Self::Effect,
        Self::Opaque,
        Self::Keyed,
        Self::Idempotent,
        Self::Pure,
        Self::Provable,
        Self::Probe,
    ];

    /// Returns the path, such as `/opaque`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Effect => "/effect",
            Self::Opaque => "/opaque",
            Self::Keyed => "/keyed",
            Self::Idempotent => "/idempotent",
            Self::Pure => "/pure",
            Self::Provable => "/provable",
            Self::Probe => "/probe",
        }
    }

    /// Returns the kind of a path. `None` if the path is unknown.
    pub(super) fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|path| path.as_str() == text)
    }
}

/// A recorded call.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// Path of the call.
    pub path: EffectKind,
    /// Key of the body. For a probe, the key in its path.
    pub key: String,
    /// Header `Idempotency-Key`.
    pub idempotency_key: Option<String>,
    /// Name of the tool.
    pub tool: String,
    /// Arguments.
    pub arguments: Value,
    /// True if the call performed an effect.
    pub effect: bool,
    /// Response.
    pub answer: Value,
}

/// A received call.
#[derive(Debug)]
pub(super) struct EffectRequest {
    pub(super) path: EffectKind,
    pub(super) key: Option<String>,
    pub(super) idempotency_key: Option<String>,
    pub(super) tool: String,
    pub(super) arguments: Value,
}

/// A rejected call: status and reason.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rejected(pub(super) u16, pub(super) &'static str);

/// A response, and the gate that delays it.
pub(super) type EffectResponse = (Value, Option<oneshot::Receiver<()>>);

/// Recorded calls, the number of effects of each key, and the state of each path.
#[derive(Default)]
pub(super) struct EffectLog {
    log: Vec<Call>,
    probes: usize,
    effects: BTreeMap<String, u64>,
    receipts: u64,
    /// Arguments and responses of keyed calls, by idempotency key.
    answers: HashMap<String, (Value, Value)>,
    /// Arguments and responses of idempotent calls, by key.
    states: HashMap<String, (Value, Value)>,
    /// Last responses of provable calls, by idempotency key, or by key if the call had no header.
    done: HashMap<String, Value>,
    uncertain: BTreeSet<String>,
    paused_kinds: BTreeSet<EffectKind>,
    paused: Vec<oneshot::Sender<()>>,
}

impl EffectLog {
    /// Returns how often the effect of this key was performed.
    pub(super) fn effects(&self, key: &str) -> u64 {
        self.effects.get(key).copied().unwrap_or(0)
    }

    /// Returns the keys of all calls, sorted.
    pub(super) fn keys(&self) -> Vec<String> {
        self.effects.keys().cloned().collect()
    }

    /// Returns all calls and probes, in the order of their arrival.
    pub(super) fn log(&self) -> &[Call] {
        &self.log
    }

    /// Returns the number of recorded calls, without probes.
    pub(super) fn call_count(&self) -> usize {
        self.log.len() - self.probes
    }

    /// Makes later probes of this effect key return `unsure`.
    pub(super) fn set_uncertain(&mut self, key: &str) {
        self.uncertain.insert(key.to_owned());
    }

    /// Pauses every later response of a path.
    pub(super) fn pause_responses(&mut self, path: EffectKind) {
        self.paused_kinds.insert(path);
    }

    /// Returns the number of paused responses whose caller still waits.
    pub(super) fn paused_count(&self) -> usize {
        self.paused.iter().filter(|gate| !gate.is_closed()).count()
    }

    /// Sends all paused responses and stops pausing.
    pub(super) fn resume_responses(&mut self) {
        self.paused_kinds.clear();
        // Dropping a gate opens it.
        self.paused.clear();
    }

    /// Handles a call: performs the effect of its class, counts and logs it, and returns the response. Returns a status
    /// and a reason if the call lacks a key or repeats an idempotency key with other arguments.
    pub(super) fn handle(&mut self, request: EffectRequest) -> Result<EffectResponse, Rejected> {
        let EffectRequest { path, key, idempotency_key, tool, arguments } = request;
        let Some(key) = key.or_else(|| idempotency_key.clone()) else {
            return Err(Rejected(
                400,
                "the body has no key and there is no header Idempotency-Key",
            ));
        };
        let handle = idempotency_key.clone().unwrap_or_else(|| key.clone());
        let (effect, answer) = match path {
            EffectKind::Effect | EffectKind::Opaque => (true, self.receipt(&key)),
            EffectKind::Pure => (false, json!({ "key": key, "arguments": arguments })),
            EffectKind::Provable => {
                let answer = self.receipt(&key);
                self.done.insert(handle, answer.clone());
                (true, answer)
            }
            EffectKind::Idempotent => match self.states.get(&key) {
                Some((last, answer)) if *last == arguments => (false, answer.clone()),
                _ => {
                    let answer = self.receipt(&key);
                    self.states.insert(key.clone(), (arguments.clone(), answer.clone()));
                    (true, answer)
                }
            },
            EffectKind::Keyed if idempotency_key.is_none() => {
                return Err(Rejected(400, "/keyed needs the header Idempotency-Key"));
            }
            EffectKind::Keyed => match self.answers.get(&handle) {
                Some((known, answer)) if *known == arguments => (false, answer.clone()),
                Some(_) => {
                    let reason = "this idempotency key had other arguments";
                    let answer = json!({ "error": reason });
                    let effect = false;
                    self.log.push(Call {
                        path,
                        key,
                        idempotency_key,
                        tool,
                        arguments,
                        effect,
                        answer,
                    });
                    return Err(Rejected(409, reason));
                }
                None => {
                    let answer = self.receipt(&key);
                    self.answers.insert(handle, (arguments.clone(), answer.clone()));
                    (true, answer)
                }
            },
            EffectKind::Probe => return Err(Rejected(405, "a probe is GET /probe/<key>")),
        };
        *self.effects.entry(key.clone()).or_default() += u64::from(effect);
        let response = answer.clone();
        self.log.push(Call { path, key, idempotency_key, tool, arguments, effect, answer });
        Ok((response, self.gate(path)))
    }

    /// Returns whether the provable effect of a key was performed, and logs the probe.
    pub(super) fn probe(&mut self, key: &str) -> EffectResponse {
        let answer = match self.done.get(key) {
            _ if self.uncertain.contains(key) => json!({ "state": "unsure" }),
            Some(result) => json!({ "state": "done", "result": result }),
            None => json!({ "state": "not_done" }),
        };
        self.probes += 1;
        self.log.push(Call {
            path: EffectKind::Probe,
            key: key.to_owned(),
            idempotency_key: None,
            tool: String::new(),
            arguments: Value::Null,
            effect: false,
            answer: answer.clone(),
        });
        (answer, self.gate(EffectKind::Probe))
    }

    /// Returns the whole state as JSON, for remote clients.
    pub(super) fn to_json(&self) -> Value {
        let call = |call: &Call| {
            json!({
                "path": call.path.as_str(),
                "key": call.key,
                "idempotency_key": call.idempotency_key,
                "tool": call.tool,
                "arguments": call.arguments,
                "effect": call.effect,
                "answer": call.answer,
            })
        };
        let calls: Vec<_> = self.log.iter().map(call).collect();
        json!({ "effects": self.effects, "calls": calls, "held": self.paused_count() })
    }

    /// Returns a receipt with a unique number, so that responses to different effects differ.
    fn receipt(&mut self, key: &str) -> Value {
        self.receipts += 1;
        json!({ "key": key, "receipt": self.receipts })
    }

    /// Creates the gate of a response. `None` if responses of this path are not paused.
    fn gate(&mut self, path: EffectKind) -> Option<oneshot::Receiver<()>> {
        let (gate, open) = self.paused_kinds.contains(&path).then(oneshot::channel)?;
        self.paused.push(gate);
        Some(open)
    }
}

impl Call {
    /// Parses a call of [`EffectLog::to_json`]. `None` if a field is missing.
    pub(super) fn from_json(call: &Value) -> Option<Self> {
        let text = |name: &str| call[name].as_str().map(ToOwned::to_owned);
        Some(Self {
            path: EffectKind::parse(call["path"].as_str()?)?,
            key: text("key")?,
            idempotency_key: text("idempotency_key"),
            tool: text("tool")?,
            arguments: call["arguments"].clone(),
            effect: call["effect"].as_bool()?,
            answer: call["answer"].clone(),
        })
    }
}
