//! Checks the integrity of a database: the file, the references, and the invariants of the rows.

use std::ops::ControlFlow;

use crate::sqlite::{self, ConnectionRole, Sqlite};
use crate::table::state::blob::{self, BlobRow};
use crate::transaction::tx::{SqlExecutor, TxAttempt};
use crate::{Store, StoreError, StoreOptions, Tx, params};

/// Maximum number of findings of one kind in a report.
const FINDINGS_MAX: u64 = 20;

/// Result of an integrity check.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CheckReport {
    /// All failed checks, with at most 20 findings of each kind.
    pub failures: Vec<CheckFailure>,
}

impl CheckReport {
    /// Returns true if no check failed.
    pub fn is_ok(&self) -> bool {
        self.failures.is_empty()
    }
}

/// One finding of the integrity check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckFailure {
    /// Stable code of the failed check.
    pub code: &'static str,
    /// The affected object and the finding.
    pub detail: String,
}

/// A condition that must hold for every row. The query returns one text per violation.
struct Invariant {
    code: &'static str,
    sql: &'static str,
}

/// Retention removes the oldest events of ended runs: the log of such a run may start late, but it never has a gap.
const INVARIANTS: &[Invariant] = &[
    Invariant {
        code: "event_gap",
        sql: "SELECT e.run_id || ' has ' || e.n || ' events numbered ' || e.lo || ' to ' || e.hi
                FROM (SELECT run_id, min(seq) AS lo, max(seq) AS hi, count(*) AS n FROM run_event GROUP BY run_id) e
               WHERE e.hi - e.lo + 1 <> e.n LIMIT ?1",
    },
    Invariant {
        code: "event_counter",
        sql: "SELECT r.id || ' has its last event at ' || e.hi || ' and expects ' || r.next_seq || ' next'
                FROM run r JOIN (SELECT run_id, max(seq) AS hi FROM run_event GROUP BY run_id) e ON e.run_id = r.id
               WHERE e.hi <> r.next_seq - 1 LIMIT ?1",
    },
    Invariant {
        code: "event_missing",
        sql: "SELECT r.id || ' has not ended and its events do not start at 1' FROM run r
               WHERE r.ended IS NULL AND r.next_seq > 1
                 AND NOT EXISTS (SELECT 1 FROM run_event e WHERE e.run_id = r.id AND e.seq = 1) LIMIT ?1",
    },
    Invariant {
        code: "event_orphan",
        sql: "SELECT DISTINCT e.run_id || ' has events and does not exist' FROM run_event e
               WHERE NOT EXISTS (SELECT 1 FROM run r WHERE r.id = e.run_id) LIMIT ?1",
    },
    Invariant {
        code: "step_counter",
        sql: "SELECT r.id || ' has step ' || s.hi || ' and expects ' || r.next_step || ' next'
                FROM run r JOIN (SELECT run_id, max(step) AS hi FROM run_step GROUP BY run_id) s ON s.run_id = r.id
               WHERE s.hi >= r.next_step LIMIT ?1",
    },
    Invariant {
        code: "input_counter",
        sql: "SELECT t.id || ' has input ' || i.hi || ' and expects ' || t.next_input || ' next'
                FROM task t JOIN (SELECT task_id, max(seq) AS hi FROM input GROUP BY task_id) i ON i.task_id = t.id
               WHERE i.hi >= t.next_input LIMIT ?1",
    },
    Invariant {
        code: "class_slots",
        sql: "SELECT c.key || ' counts ' || c.running || ' running and has ' || c.leased
                FROM (SELECT key, running, (SELECT count(*) FROM run r
                        WHERE r.class_key = exec_class.key AND r.phase = 'leased') AS leased FROM exec_class) c
               WHERE c.running <> c.leased LIMIT ?1",
    },
    Invariant {
        code: "session_holder",
        sql: "SELECT s.namespace || '/' || s.id || ' is held by ' || s.holder_run_id || ', which does not hold it'
                FROM session s WHERE s.holder_run_id IS NOT NULL AND NOT EXISTS (
                  SELECT 1 FROM run r WHERE r.id = s.holder_run_id AND r.holds_session = 1) LIMIT ?1",
    },
    Invariant {
        code: "session_held",
        sql: "SELECT r.id || ' holds ' || r.namespace || '/' || r.session_id || ', which does not know it'
                FROM run r WHERE r.holds_session = 1 AND NOT EXISTS (
                  SELECT 1 FROM session s WHERE s.namespace = r.namespace AND s.id = r.session_id
                     AND s.holder_run_id = r.id) LIMIT ?1",
    },
    Invariant {
        code: "message_missing",
        sql: "SELECT u.place || ' names ' || u.message_id || ', which does not exist' FROM (
                  SELECT namespace || '/' || session_id AS place, message_id FROM session_entry
                  UNION ALL SELECT id, message_id FROM input
                  UNION ALL SELECT run_id, message_id FROM run_step WHERE message_id IS NOT NULL
                  UNION ALL SELECT run_id, message_id FROM run_event WHERE message_id IS NOT NULL) u
               WHERE NOT EXISTS (SELECT 1 FROM message m WHERE m.id = u.message_id) LIMIT ?1",
    },
    Invariant {
        code: "blob_missing",
        sql: "SELECT u.place || ' names blob ' || u.blob || ', which does not exist' FROM (
                  SELECT id AS place, blob FROM message WHERE blob IS NOT NULL
                  UNION ALL SELECT run_id, blob FROM run_step WHERE blob IS NOT NULL
                  UNION ALL SELECT run_id, blob FROM run_snapshot WHERE blob IS NOT NULL
                  UNION ALL SELECT run_id, blob FROM run_event WHERE blob IS NOT NULL) u
               WHERE NOT EXISTS (SELECT 1 FROM blob b WHERE b.hash = u.blob) LIMIT ?1",
    },
];

impl Store {
    /// Checks the file, the references, the rows and the blobs on one snapshot. Other operations continue during the
    /// check.
    pub async fn check(&self) -> Result<CheckReport, StoreError> {
        self.blocking(check).await
    }
}

/// Checks the database on a snapshot. Unreadable data is a finding, not an error.
fn check(options: &StoreOptions) -> Result<CheckReport, StoreError> {
    let mut db = sqlite::connect(options, ConnectionRole::Reader)?;
    db.begin_read()?;
    let checked = check_all(&mut db, options);
    db.rollback()?;
    match checked {
        Ok(failures) => Ok(CheckReport { failures }),
        // Unreadable data is a finding, not an error of the check.
        Err(StoreError::Corrupt { detail }) => {
            Ok(CheckReport { failures: vec![CheckFailure { code: "damaged", detail }] })
        }
        Err(error) => Err(error),
    }
}

/// Returns the findings about the file. If it is intact, also those about rows and blobs.
fn check_all(db: &mut Sqlite, options: &StoreOptions) -> Result<Vec<CheckFailure>, StoreError> {
    let mut failures = check_file(db)?;
    if !failures.is_empty() {
        // Queries over a corrupt file return results that cannot be trusted.
        return Ok(failures);
    }
    let mut attempt = TxAttempt::new(&options.env);
    let mut tx = Tx::new(db, &mut attempt);
    failures.extend(check_rows(&mut tx)?);
    failures.extend(check_blobs(&mut tx)?);
    Ok(failures)
}

/// Returns the findings about damaged pages and missing references.
fn check_file(db: &mut Sqlite) -> Result<Vec<CheckFailure>, StoreError> {
    let mut failures = Vec::new();
    db.query(&format!("PRAGMA integrity_check({FINDINGS_MAX})"), &[], &mut |row| {
        let detail: String = row.take()?;
        if detail != "ok" {
            failures.push(CheckFailure { code: "damaged", detail });
        }
        Ok(ControlFlow::Continue(()))
    })?;
    db.query("SELECT \"table\", parent FROM pragma_foreign_key_check LIMIT 20", &[], &mut |row| {
        let (table, parent): (String, String) = (row.take()?, row.take()?);
        let detail = format!("a row of {table} refers to a row of {parent} that does not exist");
        failures.push(CheckFailure { code: "reference_missing", detail });
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(failures)
}

/// Returns the rows that violate an invariant.
fn check_rows(tx: &mut Tx<'_>) -> Result<Vec<CheckFailure>, StoreError> {
    let mut failures = Vec::new();
    for Invariant { code, sql } in INVARIANTS {
        let findings: Vec<String> = tx.fetch_all(sql, params![FINDINGS_MAX])?;
        failures.extend(findings.into_iter().map(|detail| CheckFailure { code, detail }));
    }
    Ok(failures)
}

/// Decompresses all blobs, one at a time, and returns those that are damaged.
fn check_blobs(tx: &mut Tx<'_>) -> Result<Vec<CheckFailure>, StoreError> {
    let mut failures = Vec::new();
    let mut last = String::new();
    let sql = BlobRow::select("WHERE hash > ?1 ORDER BY hash LIMIT 1");
    while let Some(row) = tx.fetch_optional::<BlobRow>(&sql, params![last])? {
        if let Err(error) = blob::unpack(&row) {
            failures.push(CheckFailure { code: "blob_damaged", detail: error.to_string() });
        }
        last = row.hash;
        if failures.len() as u64 >= FINDINGS_MAX {
            break;
        }
    }
    Ok(failures)
}
