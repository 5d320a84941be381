//! Idempotency: the stored response of a request, which a repetition receives again.

use std::time::Duration;

use provost_core::command::TaskRequest;
use provost_core::execution_policy::PolicyError;
use provost_core::id::name::Namespace;
use provost_core::lifecycle::RequestError;
use provost_core::{RunId, TaskId};
use provost_store::Tx;
use provost_store::table::governance::idempotency::{self, IdempotencyRow};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::EngineError;

/// Retention of a rejection. The response of an accepted request is stored as long as its task.
const REJECTION_RETENTION: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Idempotency keys of one request. Without keys nothing is stored.
pub(crate) struct IdempotencyRecord {
    namespace: String,
    hash: String,
    /// Pairs of scope and key.
    keys: Vec<(String, String)>,
    key: Option<String>,
    prefix: &'static str,
}

/// A stored response, or a stored rejection.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum CachedResponse<T> {
    Accepted(T),
    Refused(CachedRejection),
}

/// Time for which a response is stored.
enum Validity {
    /// Until the task is removed.
    Task(TaskId),
    /// For a fixed duration.
    For(Duration),
}

/// Rejection by a policy, in its stored form.
#[derive(Serialize, Deserialize)]
struct CachedRejection {
    path: String,
    problem: String,
    fix: String,
    unsupported: bool,
}

impl IdempotencyRecord {
    /// Creates the record of a task request: its key within its agent, and the run id that it chose.
    pub(crate) fn of_command(
        namespace: &Namespace,
        command: &TaskRequest,
    ) -> Result<Self, EngineError> {
        let mut keys = Vec::new();
        if let Some(key) = &command.idempotency_key {
            let scope = match &command.agent {
                Some(agent) => format!("accept:{agent}"),
                None => "accept".to_owned(),
            };
            keys.push((scope, key.clone()));
        }
        if let Some(run) = command.run_id {
            keys.push(("run".to_owned(), RunId::to_string(&run)));
        }
        // Without keys no hash is compared.
        let hash = if keys.is_empty() { String::new() } else { command.body_hash()? };
        Ok(Self {
            namespace: namespace.to_string(),
            hash,
            keys,
            key: command.idempotency_key.clone(),
            prefix: "accept",
        })
    }

    /// Creates the record of an input: its key within its task.
    pub(crate) fn of_input(
        namespace: &Namespace,
        task: TaskId,
        key: Option<&str>,
        hash: String,
    ) -> Self {
        let keys = key.map(|key| (format!("input:{task}"), key.to_owned()));
        Self {
            namespace: namespace.to_string(),
            hash,
            keys: keys.into_iter().collect(),
            key: key.map(str::to_owned),
            prefix: "input",
        }
    }

    /// Returns the key of the input row, unique within its task. Empty if the caller gave none.
    pub(crate) fn input_key(&self) -> String {
        self.key.as_ref().map(|key| format!("{}:{key}", self.prefix)).unwrap_or_default()
    }

    /// Returns the response that is stored under a key of the request. Fails if another request used the key. Without a
    /// stored response, reserves the keys: a concurrent equal request waits for the end of this transaction.
    pub(crate) fn lookup_or_reserve<T: DeserializeOwned>(
        &self,
        tx: &mut Tx<'_>,
    ) -> Result<Option<Result<T, RequestError>>, EngineError> {
        for (position, (scope, key)) in self.keys.iter().enumerate() {
            if self.row(tx, scope, key).insert_new(tx)? {
                continue;
            }
            for (scope, key) in &self.keys[..position] {
                idempotency::release(tx, &self.namespace, scope, key)?;
            }
            let stored = idempotency::get(tx, &self.namespace, scope, key)?
                .ok_or_else(|| EngineError::bug(format!("the key `{key}` has no row")))?;
            if stored.request_hash != self.hash {
                return Err(RequestError::IdempotencyMismatch { key: key.clone() }.into());
            }
            return Ok(Some(match serde_json::from_str(&stored.result)? {
                CachedResponse::Accepted(answer) => Ok(answer),
                CachedResponse::Refused(CachedRejection { path, problem, fix, unsupported }) => {
                    Err(PolicyError { path, problem, fix, unsupported }.into())
                }
            }));
        }
        Ok(None)
    }

    /// Returns the row of a key without a response.
    fn row(&self, tx: &Tx<'_>, scope: &str, key: &str) -> IdempotencyRow {
        IdempotencyRow {
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

    /// Stores the response under the reserved keys until the task is removed.
    pub(crate) fn store_response<T: Serialize>(
        &self,
        tx: &mut Tx<'_>,
        task: TaskId,
        answer: &T,
    ) -> Result<(), EngineError> {
        if self.keys.is_empty() {
            return Ok(());
        }
        self.store(
            tx,
            &serde_json::to_string(&CachedResponse::Accepted(answer))?,
            Validity::Task(task),
        )
    }

    /// Stores a rejection that applies to every repetition, unless a response is stored already.
    pub(crate) fn store_rejection<T: DeserializeOwned>(
        &self,
        tx: &mut Tx<'_>,
        rejection: &RequestError,
    ) -> Result<(), EngineError> {
        let RequestError::Policy(PolicyError { path, problem, fix, unsupported }) = rejection
        else {
            return Ok(());
        };
        let rejection = CachedRejection {
            path: path.clone(),
            problem: problem.clone(),
            fix: fix.clone(),
            unsupported: *unsupported,
        };
        if self.lookup_or_reserve::<T>(tx)?.is_some() {
            return Ok(());
        }
        let answer = serde_json::to_string(&CachedResponse::<()>::Refused(rejection))?;
        self.store(tx, &answer, Validity::For(REJECTION_RETENTION))
    }

    /// Stores a response under all keys.
    fn store(&self, tx: &mut Tx<'_>, result: &str, validity: Validity) -> Result<(), EngineError> {
        let (task_id, expires) = match validity {
            Validity::Task(task) => (Some(task), None),
            Validity::For(time) => (None, Some(tx.now().after(time))),
        };
        for (scope, key) in &self.keys {
            let result = result.to_owned();
            let row = IdempotencyRow { result, expires, task_id, ..self.row(tx, scope, key) };
            idempotency::answer(tx, &row)?;
        }
        Ok(())
    }
}
