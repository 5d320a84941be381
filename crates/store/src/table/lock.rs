//! Registers the tables whose rows are locked before they are changed.

use crate::table::governance::approval::ApprovalRow;
use crate::table::outbound::delivery::DeliveryRow;
use crate::table::outbound::webhook::WebhookRow;
use crate::table::outbound::webhook_delivery::WebhookDeliveryRow;
use crate::table::scheduling::concurrency_limit::ConcurrencyLimitRow;
use crate::table::scheduling::execution_class::ExecutionClassRow;
use crate::table::scheduling::schedule::ScheduleRow;
use crate::table::work::run::RunRow;
use crate::table::work::session::SessionRow;
use crate::table::work::task::TaskRow;
use crate::transaction::lock::{Lockable, Locked};
use crate::{StoreError, Tx, Value};

macro_rules! lockable {
    ($($row:ident in $table:literal by [$($key:literal),+] without [$($counter:literal),*];)+) => {$(
        impl Lockable for $row {
            const TABLE: &'static str = $table;
            const COLUMNS: &'static [&'static str] = $row::COLUMNS;
            const KEY: &'static [&'static str] = &[$($key),+];
            const COUNTERS: &'static [&'static str] = &[$($counter),*];

            fn values(&self) -> Vec<Value<'_>> {
                $row::values(self)
            }

        }

        impl $row {
            /// Inserts the row and locks it.
            pub fn insert_locked(self, tx: &mut Tx<'_>) -> Result<Locked<Self>, StoreError> {
                self.insert(tx)?;
                Ok(Locked::new(self))
            }
        }
    )+};
}

lockable! {
    ApprovalRow in "approval" by ["id"] without [];
    ConcurrencyLimitRow in "ceiling" by ["scope"] without ["running"];
    DeliveryRow in "delivery" by ["id"] without [];
    ExecutionClassRow in "exec_class" by ["key"] without ["running"];
    RunRow in "run" by ["id"] without ["next_seq", "next_step"];
    ScheduleRow in "schedule" by ["namespace", "id"] without [];
    SessionRow in "session" by ["namespace", "id"] without ["fence", "holder_run_id"];
    TaskRow in "task" by ["id"] without ["next_input"];
    WebhookRow in "webhook" by ["id"] without [];
    WebhookDeliveryRow in "webhook_post" by ["id"] without [];
}
