//! What the ledger knows: calls, effects, answers given, answers held. Nothing here is a socket.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Value, json};
use tokio::sync::oneshot;

/// The paths of the ledger, one for each class of effects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EffectPath {
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
    /// `/provable`: counts every call and can be asked.
    Provable,
    /// `/probe/<key>`: asks.
    Probe,
}

impl EffectPath {
    const ALL: [Self; 7] = [
        Self::Effect,
        Self::Opaque,
        Self::Keyed,
        Self::Idempotent,
        Self::Pure,
        Self::Provable,
        Self::Probe,
    ];

    /// Its text, such as `/opaque`.
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

    pub(super) fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|path| path.as_str() == text)
    }
}

/// A call as the ledger took it.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// Its path.
    pub path: EffectPath,
    /// The key of its body; for a probe the key that was asked for.
    pub key: String,
    /// The header `Idempotency-Key`.
    pub idempotency_key: Option<String>,
    /// The name of the tool.
    pub tool: String,
    /// The arguments.
    pub arguments: Value,
    /// True if something was done.
    pub effect: bool,
    /// The answer.
    pub answer: Value,
}

/// A call as it came.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) path: EffectPath,
    pub(super) key: Option<String>,
    pub(super) idempotency_key: Option<String>,
    pub(super) tool: String,
    pub(super) arguments: Value,
}

/// A call that was not taken: status and reason.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refused(pub(super) u16, pub(super) &'static str);

/// An answer, and the gate it has to wait at.
pub(super) type Taken = (Value, Option<oneshot::Receiver<()>>);

#[derive(Default)]
pub(super) struct Book {
    log: Vec<Call>,
    probes: usize,
    effects: BTreeMap<String, u64>,
    receipts: u64,
    /// For keyed calls: arguments and answer by idempotency key.
    answers: HashMap<String, (Value, Value)>,
    /// For idempotent calls: arguments and answer by key.
    states: HashMap<String, (Value, Value)>,
    /// For provable calls: the last answer by idempotency key, or by key if the call had no header.
    done: HashMap<String, Value>,
    doubted: BTreeSet<String>,
    holding: BTreeSet<EffectPath>,
    held: Vec<oneshot::Sender<()>>,
}

impl Book {
    pub(super) fn effects(&self, key: &str) -> u64 {
        self.effects.get(key).copied().unwrap_or(0)
    }

    pub(super) fn keys(&self) -> Vec<String> {
        self.effects.keys().cloned().collect()
    }

    pub(super) fn log(&self) -> &[Call] {
        &self.log
    }

    /// How many calls were logged, without probes.
    pub(super) fn call_count(&self) -> usize {
        self.log.len() - self.probes
    }

    pub(super) fn doubt(&mut self, key: &str) {
        self.doubted.insert(key.to_owned());
    }

    pub(super) fn hold(&mut self, path: EffectPath) {
        self.holding.insert(path);
    }

    pub(super) fn held(&self) -> usize {
        self.held.iter().filter(|gate| !gate.is_closed()).count()
    }

    pub(super) fn release(&mut self) {
        self.holding.clear();
        // A gate opens by being dropped.
        self.held.clear();
    }

    /// Takes a call: does what its class says, counts, and answers.
    pub(super) fn take(&mut self, asked: Asked) -> Result<Taken, Refused> {
        let Asked { path, key, idempotency_key, tool, arguments } = asked;
        let Some(key) = key.or_else(|| idempotency_key.clone()) else {
            return Err(Refused(400, "the body has no key and there is no header Idempotency-Key"));
        };
        let handle = idempotency_key.clone().unwrap_or_else(|| key.clone());
        let (effect, answer) = match path {
            EffectPath::Effect | EffectPath::Opaque => (true, self.receipt(&key)),
            EffectPath::Pure => (false, json!({ "key": key, "arguments": arguments })),
            EffectPath::Provable => {
                let answer = self.receipt(&key);
                self.done.insert(handle, answer.clone());
                (true, answer)
            }
            EffectPath::Idempotent => match self.states.get(&key) {
                Some((last, answer)) if *last == arguments => (false, answer.clone()),
                _ => {
                    let answer = self.receipt(&key);
                    self.states.insert(key.clone(), (arguments.clone(), answer.clone()));
                    (true, answer)
                }
            },
            EffectPath::Keyed if idempotency_key.is_none() => {
                return Err(Refused(400, "/keyed needs the header Idempotency-Key"));
            }
            EffectPath::Keyed => match self.answers.get(&handle) {
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
                    return Err(Refused(409, reason));
                }
                None => {
                    let answer = self.receipt(&key);
                    self.answers.insert(handle, (arguments.clone(), answer.clone()));
                    (true, answer)
                }
            },
            EffectPath::Probe => return Err(Refused(405, "a probe is GET /probe/<key>")),
        };
        *self.effects.entry(key.clone()).or_default() += u64::from(effect);
        let taken = answer.clone();
        self.log.push(Call { path, key, idempotency_key, tool, arguments, effect, answer });
        Ok((taken, self.gate(path)))
    }

    /// Says whether a provable effect was done.
    pub(super) fn probe(&mut self, key: &str) -> Taken {
        let answer = match self.done.get(key) {
            _ if self.doubted.contains(key) => json!({ "state": "unsure" }),
            Some(result) => json!({ "state": "done", "result": result }),
            None => json!({ "state": "not_done" }),
        };
        self.probes += 1;
        self.log.push(Call {
            path: EffectPath::Probe,
            key: key.to_owned(),
            idempotency_key: None,
            tool: String::new(),
            arguments: Value::Null,
            effect: false,
            answer: answer.clone(),
        });
        (answer, self.gate(EffectPath::Probe))
    }

    /// Everything as JSON, for those who ask over the wire.
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
        json!({ "effects": self.effects, "calls": calls, "held": self.held() })
    }

    /// Every effect has a number of its own, so that answers to different effects differ.
    fn receipt(&mut self, key: &str) -> Value {
        self.receipts += 1;
        json!({ "key": key, "receipt": self.receipts })
    }

    fn gate(&mut self, path: EffectPath) -> Option<oneshot::Receiver<()>> {
        let (gate, open) = self.holding.contains(&path).then(oneshot::channel)?;
        self.held.push(gate);
        Some(open)
    }
}

impl Call {
    /// Reads what [`Book::to_json`] wrote.
    pub(super) fn from_json(call: &Value) -> Option<Self> {
        let text = |name: &str| call[name].as_str().map(ToOwned::to_owned);
        Some(Self {
            path: EffectPath::parse(call["path"].as_str()?)?,
            key: text("key")?,
            idempotency_key: text("idempotency_key"),
            tool: text("tool")?,
            arguments: call["arguments"].clone(),
            effect: call["effect"].as_bool()?,
            answer: call["answer"].clone(),
        })
    }
}
