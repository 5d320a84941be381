//! What was answered under a caller's key, so that a repeat is answered the same way.

use std::time::Duration;

use provost_core::command::TaskRequest;
use provost_core::execution_policy::PolicyError;
use provost_core::id::name::Namespace;
use provost_core::lifecycle::RequestError;
use provost_core::{RunId, TaskId};
use provost_store::Tx;
use provost_store::table::governance::idempotency::{self, IdemRow};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::EngineError;

/// How long a refusal is remembered; what was accepted is remembered as long as its task.
const REFUSAL_KEPT: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The places where the answer to one request is remembered: none if the caller gave no key.
pub(crate) struct Memory {
    namespace: String,
    hash: String,
    /// Scope and key.
    places: Vec<(String, String)>,
    key: Option<String>,
    prefix: &'static str,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer<T> {
    Accepted(T),
    Refused(Refusal),
}

/// How long an answer is stored.
enum Validity {
    /// Until the task is removed.
    Task(TaskId),
    /// For a time.
    For(Duration),
}

/// A refusal by policy as it is stored.
#[derive(Serialize, Deserialize)]
struct Refusal {
    path: String,
    problem: String,
    fix: String,
    unsupported: bool,
}

impl Memory {
    /// For a command: by its key, within its agent, and by the run id that it chose.
    pub(crate) fn of_command(
        namespace: &Namespace,
        command: &TaskRequest,
    ) -> Result<Self, EngineError> {
        let mut places = Vec::new();
        if let Some(key) = &command.idempotency_key {
            let scope = match &command.agent {
                Some(agent) => format!("accept:{agent}"),
                None => "accept".to_owned(),
            };
            places.push((scope, key.clone()));
        }
        if let Some(run) = command.run_id {
            places.push(("run".to_owned(), RunId::to_string(&run)));
        }
        // Without a place nothing is compared.
        let hash = if places.is_empty() { String::new() } else { command.body_hash()? };
        Ok(Self {
            namespace: namespace.to_string(),
            hash,
            places,
            key: command.idempotency_key.clone(),
            prefix: "accept",
        })
    }

    /// For an input: by its key, within its task.
    pub(crate) fn of_input(
        namespace: &Namespace,
        task: TaskId,
        key: Option<&str>,
        hash: String,
    ) -> Self {
        let places = key.map(|key| (format!("input:{task}"), key.to_owned()));
        Self {
            namespace: namespace.to_string(),
            hash,
            places: places.into_iter().collect(),
            key: key.map(str::to_owned),
            prefix: "input",
        }
    }

    /// The key under which the message is stored with its task: unique there, or empty if the caller gave none.
    pub(crate) fn input_key(&self) -> String {
        self.key.as_ref().map(|key| format!("{}:{key}", self.prefix)).unwrap_or_default()
    }

    /// Returns the answer that is stored under a key of the request. Another request under the same key is refused. If there is
    /// no answer, the keys are reserved: an equal request that comes at the same time waits for the end of this transaction.
    pub(crate) fn recall_or_reserve<T: DeserializeOwned>(
        &self,
        tx: &mut Tx<'_>,
    ) -> Result<Option<Result<T, RequestError>>, EngineError> {
        for (at, (scope, key)) in self.places.iter().enumerate() {
            if self.row(tx, scope, key).insert_new(tx)? {
                continue;
            }
            for (scope, key) in &self.places[..at] {
                idempotency::release(tx, &self.namespace, scope, key)?;
            }
            let known = idempotency::get(tx, &self.namespace, scope, key)?.ok_or_else(|| {
                EngineError::bug(format!("the key `{key}` is neither free nor taken"))
            })?;
            if known.request_hash != self.hash {
                return Err(RequestError::IdempotencyMismatch { key: key.clone() }.into());
            }
            return Ok(Some(match serde_json::from_str(&known.result)? {
                Answer::Accepted(answer) => Ok(answer),
                Answer::Refused(Refusal { path, problem, fix, unsupported }) => {
                    Err(PolicyError { path, problem, fix, unsupported }.into())
                }
            }));
        }
        Ok(None)
    }

    fn row(&self, tx: &Tx<'_>, scope: &str, key: &str) -> IdemRow {
        IdemRow {
            namespace: self.namespace.clone(),
            scope: scope.to_owned(),
            idem_key: key.to_owned(),
            request_hash: self.hash.clone(),
            result: String::new(),
            created: tx.now(),
            expires: None,
            task_id: None,
        }
    }

    /// Stores the answer under the reserved keys until the task is removed.
    pub(crate) fn keep<T: Serialize>(
        &self,
        tx: &mut Tx<'_>,
        task: TaskId,
        answer: &T,
    ) -> Result<(), EngineError> {
        if self.places.is_empty() {
            return Ok(());
        }
        self.store(tx, &serde_json::to_string(&Answer::Accepted(answer))?, Validity::Task(task))
    }

    /// Remembers a refusal that counts for every repeat, unless there is an answer already.
    pub(crate) fn refuse<T: DeserializeOwned>(
        &self,
        tx: &mut Tx<'_>,
        refusal: &RequestError,
    ) -> Result<(), EngineError> {
        let RequestError::Policy(PolicyError { path, problem, fix, unsupported }) = refusal else {
            return Ok(());
        };
        let refusal = Refusal {
            path: path.clone(),
            problem: problem.clone(),
            fix: fix.clone(),
            unsupported: *unsupported,
        };
        if self.recall_or_reserve::<T>(tx)?.is_some() {
            return Ok(());
        }
        let answer = serde_json::to_string(&Answer::<()>::Refused(refusal))?;
        self.store(tx, &answer, Validity::For(REFUSAL_KEPT))
    }

    fn store(&self, tx: &mut Tx<'_>, result: &str, validity: Validity) -> Result<(), EngineError> {
        let (task_id, expires) = match validity {
            Validity::Task(task) => (Some(task), None),
            Validity::For(time) => (None, Some(tx.now().after(time))),
        };
        for (scope, key) in &self.places {
            let result = result.to_owned();
            let row = IdemRow { result, expires, task_id, ..self.row(tx, scope, key) };
            idempotency::answer(tx, &row)?;
        }
        Ok(())
    }
}
