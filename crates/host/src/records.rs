//! Who did what and what was used, in the database.

use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use provost_core::{Env, RunId, TypedId};
use provost_store::table::governance::audit::AuditRow;
use provost_store::table::governance::usage_record::MeterRow;
use provost_store::{Store, StoreError};
use provost_tool::{AuditEvent, MeterEvent, Sink, SinkError};
use serde::Serialize;
use uuid::Uuid;

/// Keeps records in the database. A record is durable when the future is ready; those of one moment share a commit.
#[derive(Clone)]
pub struct Records {
    store: Store,
    env: Env,
    /// The greatest id so far: what one moment brings keeps its order.
    last: Arc<Mutex<Uuid>>,
}

impl Records {
    /// In this database.
    pub fn new(store: Store, env: Env) -> Self {
        Self { store, env, last: Arc::default() }
    }

    /// An id that is greater than every one before it.
    fn id<T: TypedId>(&self) -> T {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = self.env.id::<T>().uuid();
        let next = Uuid::from_u128(last.as_u128().saturating_add(1));
        *last = fresh.max(next);
        T::from_uuid(*last)
    }
}

fn body(event: &impl Serialize) -> Result<String, SinkError> {
    serde_json::to_string(event).map_err(|error| SinkError(error.to_string()))
}

fn of_store(error: StoreError) -> SinkError {
    SinkError(error.to_string())
}

fn run(name: Option<&String>) -> Option<RunId> {
    name.and_then(|name| name.parse().ok())
}

impl Sink<AuditEvent> for Records {
    fn record(&self, event: AuditEvent) -> BoxFuture<'_, Result<(), SinkError>> {
        async move {
            let body = body(&event)?;
            let outcome = serde_json::to_value(event.outcome)
                .ok()
                .and_then(|word| word.as_str().map(str::to_owned))
                .unwrap_or_default();
            let row = AuditRow {
                id: self.id(),
                namespace: event.namespace,
                at: event.timestamp,
                action: event.action,
                outcome,
                resource: event.resource_name,
                run_id: run(event.metadata.get("run")),
                body,
            };
            self.store.write(move |tx| row.insert(tx)).await.map_err(of_store)
        }
        .boxed()
    }
}

impl Sink<MeterEvent> for Records {
    fn record(&self, event: MeterEvent) -> BoxFuture<'_, Result<(), SinkError>> {
        async move {
            let body = body(&event)?;
            let row = MeterRow {
                id: self.id(),
                namespace: event.namespace,
                at: event.timestamp,
                kind: event.kind,
                agent: event.agent,
                run_id: run(event.metadata.get("run")),
                body,
            };
            self.store.write(move |tx| row.insert(tx)).await.map_err(of_store)
        }
        .boxed()
    }
}
