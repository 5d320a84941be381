//! Storing a changed row: whole, by its key, but for what never changes: naming a column costs its indexes and references even
//! if it stays as it is. What must not be overtaken is checked by whoever read the row in the same transaction.

use std::sync::LazyLock;

use crate::table::governance::approval::ApprovalRow;
use crate::table::outbound::delivery::DeliveryRow;
use crate::table::outbound::webhook::WebhookRow;
use crate::table::outbound::webhook_delivery::WebhookPostRow;
use crate::table::scheduling::execution_class::ExecClassRow;
use crate::table::scheduling::schedule::ScheduleRow;
use crate::table::work::input::InputRow;
use crate::table::work::run::RunRow;
use crate::table::work::session::SessionRow;
use crate::table::work::task::TaskRow;
use crate::{StoreError, Tx, Value};

/// A statement that stores rows of a table, and which of a row's values it takes.
struct Update {
    sql: String,
    places: Vec<usize>,
}

impl Update {
    fn of(table: &str, columns: &[&str], key: &[&str], fixed: &[&str]) -> Self {
        let (mut set, mut found, mut places) = (Vec::new(), Vec::new(), Vec::new());
        for (place, column) in columns.iter().enumerate() {
            if fixed.contains(column) {
                continue;
            }
            places.push(place);
            let term = format!("{column} = ?{}", places.len());
            if key.contains(column) { found.push(term) } else { set.push(term) }
        }
        let sql = format!("UPDATE {table} SET {} WHERE {}", set.join(", "), found.join(" AND "));
        Self { sql, places }
    }

    fn run(&self, tx: &mut Tx<'_>, mut values: Vec<Value<'_>>) -> Result<(), StoreError> {
        let mut place = 0;
        values.retain(|_| {
            place += 1;
            self.places.binary_search(&(place - 1)).is_ok()
        });
        tx.execute(&self.sql, &values).map(drop)
    }
}

macro_rules! updatable {
    ($($row:ident in $table:literal by [$($key:literal),+] but [$($fixed:literal),*];)+) => {$(
        impl $row {
            /// Stores the row as it is now, by its key.
            pub fn update(&self, tx: &mut Tx<'_>) -> Result<(), StoreError> {
                static UPDATE: LazyLock<Update> = LazyLock::new(|| {
                    Update::of($table, $row::COLUMNS, &[$($key),+], &[$($fixed),*])
                });
                UPDATE.run(tx, self.values())
            }
        }
    )+};
}

updatable! {
    ApprovalRow in "approval" by ["id"] but ["namespace", "run_id"];
    DeliveryRow in "delivery" by ["id"] but ["namespace", "run_id"];
    ExecClassRow in "exec_class" by ["key"] but ["namespace", "pool"];
    InputRow in "input" by ["id"] but ["namespace", "task_id", "seq", "idem_key", "created"];
    RunRow in "run" by ["id"] but [
        "namespace", "task_id", "ordinal", "session_id", "class_key", "pool", "agent", "agent_revision", "policy",
        "parent_run_id", "parent_step", "depth", "created", "next_seq", "next_step"
    ];
    ScheduleRow in "schedule" by ["namespace", "id"] but [];
    SessionRow in "session" by ["namespace", "id"] but [];
    TaskRow in "task" by ["id"] but [
        "namespace", "session_id", "parent_task_id", "agent", "priority", "label", "spawned_by", "created"
    ];
    WebhookRow in "webhook" by ["id"] but ["namespace"];
    WebhookPostRow in "webhook_post" by ["id"] but ["webhook_id", "namespace"];
}
