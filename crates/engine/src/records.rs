//! Writes audit and usage records to the database.

use futures::FutureExt;
use futures::future::BoxFuture;
use provost_core::RunId;
use provost_store::table::governance::audit::AuditRow;
use provost_store::table::governance::usage_record::UsageRecordRow;
use provost_store::{Store, StoreError};
use provost_tool::{AuditRecord, RecordSink, SinkError, UsageRecord};
use serde::Serialize;

/// Sink that writes records to the database. A record is durable when the future is ready. Concurrent records share a
/// commit. The sink needs no engine, because the tools of a program record their calls without one, too.
#[derive(Clone)]
pub struct Records {
    store: Store,
}

impl Records {
    /// Creates a sink for a database.
    pub fn new(store: Store) -> Self {
        Self { store }
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
            let write = self.store.write(move |tx| {
                let row = AuditRow {
                    id: tx.id(),
                    namespace: event.namespace.clone(),
                    at: event.timestamp,
                    action: event.action.clone(),
                    outcome: outcome.clone(),
                    resource: event.resource_name.clone(),
                    run_id: run(event.metadata.get("run")),
                    body: body.clone(),
                };
                row.insert(tx)
            });
            write.await.map_err(store_error)
        }
        .boxed()
    }
}

impl RecordSink<UsageRecord> for Records {
    fn record(&self, event: UsageRecord) -> BoxFuture<'_, Result<(), SinkError>> {
        async move {
            let body = body(&event)?;
            let write = self.store.write(move |tx| {
                let row = UsageRecordRow {
                    id: tx.id(),
                    namespace: event.namespace.clone(),
                    at: event.timestamp,
                    kind: event.kind.clone(),
                    agent: event.agent.clone(),
                    run_id: run(event.metadata.get("run")),
                    body: body.clone(),
                };
                row.insert(tx)
            });
            write.await.map_err(store_error)
        }
        .boxed()
    }
}
