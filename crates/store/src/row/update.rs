//! Storing a changed row: whole, by its key. What must not be overtaken is checked by whoever read the row in the same
//! transaction.

use std::sync::LazyLock;

use super::approval::ApprovalRow;
use super::attempt::AttemptRow;
use super::delivery::DeliveryRow;
use super::exec_class::ExecClassRow;
use super::input::InputRow;
use super::run::RunRow;
use super::schedule::ScheduleRow;
use super::session::SessionRow;
use super::task::TaskRow;
use super::webhook::WebhookRow;
use super::webhook_post::WebhookPostRow;
use crate::{StoreError, Tx};

/// `UPDATE … SET` for all columns that are not part of the key; parameters are numbered by column.
fn update_sql(table: &str, columns: &[&str], key: &[&str]) -> String {
    let mut set = Vec::new();
    let mut found = Vec::new();
    for (place, column) in (1..).zip(columns) {
        let term = format!("{column} = ?{place}");
        if key.contains(column) { found.push(term) } else { set.push(term) }
    }
    format!("UPDATE {table} SET {} WHERE {}", set.join(", "), found.join(" AND "))
}

macro_rules! updatable {
    ($($row:ident in $table:literal by [$($key:literal),+];)+) => {$(
        impl $row {
            /// Stores the row as it is now, by its key.
            pub fn update(&self, tx: &mut Tx<'_>) -> Result<(), StoreError> {
                static SQL: LazyLock<String> =
                    LazyLock::new(|| update_sql($table, $row::COLUMNS, &[$($key),+]));
                tx.execute(&SQL, &self.values()).map(drop)
            }
        }
    )+};
}

updatable! {
    ApprovalRow in "approval" by ["id"];
    AttemptRow in "attempt" by ["run_id", "attempt_no"];
    DeliveryRow in "delivery" by ["id"];
    ExecClassRow in "exec_class" by ["key"];
    InputRow in "input" by ["id"];
    RunRow in "run" by ["id"];
    ScheduleRow in "schedule" by ["namespace", "id"];
    SessionRow in "session" by ["namespace", "id"];
    TaskRow in "task" by ["id"];
    WebhookRow in "webhook" by ["id"];
    WebhookPostRow in "webhook_post" by ["id"];
}
