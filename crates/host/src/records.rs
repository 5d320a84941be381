//! Writes audit and metering records to the database.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use provost_core::{Env, RunId, TypedId};
use provost_store::table::governance::audit::AuditRow;
use provost_store::table::governance::usage_record::UsageRecordRow;
use provost_store::{Store, StoreError};
use provost_tool::{AuditRecord, RecordSink, SinkError, UsageRecord};
use serde::Serialize;
use uuid::Uuid;

/// Sink that writes records to the database. A record is durable when the future is ready. Concurrent records share a
/// commit.
#[derive(Clone)]
pub struct Records {
    store: Store,
    env: Env,
    /// Largest id so far. Ids increase, so that records of the same millisecond keep their order.
    last: Arc<Mutex<Uuid>>,
}

impl Records {
    /// Creates a sink for a database.
    pub fn new(store: Store, env: Env) -> Self {
        Self { store, env, last: Arc::default() }
    }

    /// Returns an id that is greater than every earlier id.
    fn id<T: TypedId>(&self) -> T {
        let mut last = self.last.lock();
        let generated = self.env.id::<T>().uuid();
        let next = Uuid::from_u128(last.as_u128().saturating_add(1));
        *last = generated.max(next);
        T::from_uuid(*last)
    }
}

fn body(event: &impl Serialize) -> Result<String, SinkError> {
    serde_json::to_string(event).map_err(|error| SinkError(error.to_string()))
}

fn store_error(error: StoreError) -> SinkError {
    SinkError(error.to_string())
}

fn run(name: Option<&String>) -> Option<RunId> {
    name.and_then(|name| name.parse().ok())
}

impl RecordSink<AuditRecord> for Records {
    fn record(&self, event: AuditRecord) -> BoxFuture<'_, Result<(), SinkError>> {
        async move {
            let body = body(&event)?;
            let outcome = serde_json::to_value(event.outcome)
                .ok()
                .and_then(|value| value.as_str().map(str::to_owned))
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
            self.store.write(move |tx| row.insert(tx)).await.map_err(store_error)
        }
        .boxed()
    }
}

impl RecordSink<UsageRecord> for Records {
    fn record(&self, event: UsageRecord) -> BoxFuture<'_, Result<(), SinkError>> {
        async move {
            let body = body(&event)?;
            let row = UsageRecordRow {
                id: self.id(),
                namespace: event.namespace,
                at: event.timestamp,
                kind: event.kind,
                agent: event.agent,
                run_id: run(event.metadata.get("run")),
                body,
            };
            self.store.write(move |tx| row.insert(tx)).await.map_err(store_error)
        }
        .boxed()
    }
}
