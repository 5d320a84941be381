//! Each table's struct is held against the schema: same columns, same order, same emptiness, and a row survives the
//! trip.

use provost_core::lifecycle::{
    ApprovalKind, ApprovalState, ApprovalTimeoutAction, AttemptReason, AttemptStatus,
    DeliveryState, InputKind, InputOutcome, InputState, JoinMode, RunKind, RunPhase, RunStatus,
    StepKind, StepState, TaskState, WaitReason, WebhookDeliveryState,
};
use provost_core::recovery::{EffectClass, EffectKey, OutcomeCode};
use provost_core::scheduling::{ClassHealth, InputMode, MissedRunPolicy, OverlapPolicy, TimerKind};
use provost_core::usage::{BudgetPeriod, BudgetScope};
use provost_core::{Currency, Env, Timestamp, TypedId};

use crate::transaction::value::{FromColumn, FromRow, Value};
use crate::{Store, StoreError, StoreOptions, ThreadMode, Tx, params};

/// A value for a test row.
pub(crate) trait Sample {
    fn sample(seed: u64) -> Self;
}

impl Sample for u64 {
    fn sample(seed: u64) -> Self {
        seed + 1
    }
}

impl Sample for i64 {
    fn sample(seed: u64) -> Self {
        i64::try_from(seed).unwrap() + 1
    }
}

impl Sample for bool {
    fn sample(seed: u64) -> Self {
        seed.is_multiple_of(2)
    }
}

impl Sample for String {
    fn sample(seed: u64) -> Self {
        format!("text {seed}")
    }
}

impl Sample for Vec<u8> {
    fn sample(seed: u64) -> Self {
        seed.to_le_bytes().to_vec()
    }
}

impl Sample for Timestamp {
    fn sample(seed: u64) -> Self {
        Self::from_millis(1_700_000_000_000 + i64::try_from(seed).unwrap())
    }
}

impl<T: Sample> Sample for Option<T> {
    fn sample(seed: u64) -> Self {
        seed.is_multiple_of(2).then(|| T::sample(seed))
    }
}

macro_rules! sample_ids {
    ($($name:ident),*) => {$(
        impl Sample for provost_core::$name {
            fn sample(seed: u64) -> Self {
                Self::from_uuid(Env::simulated(seed).id::<provost_core::RunId>().uuid())
            }
        }
    )*};
}
sample_ids!(
    ApprovalId,
    AuditId,
    DeliveryId,
    ExecutionId,
    InputId,
    MessageId,
    UsageRecordId,
    RunId,
    TaskId,
    TokenId,
    WebhookId,
    WebhookDeliveryId,
    WorkerId
);

macro_rules! sample_enums {
    ($($name:ty),* $(,)?) => {$(
        impl Sample for $name {
            fn sample(seed: u64) -> Self {
                Self::ALL[usize::try_from(seed).unwrap() % Self::ALL.len()]
            }
        }
    )*};
}
sample_enums!(
    ApprovalKind,
    ApprovalState,
    ApprovalTimeoutAction,
    AttemptReason,
    AttemptStatus,
    BudgetPeriod,
    ClassHealth,
    DeliveryState,
    EffectClass,
    InputKind,
    InputMode,
    InputOutcome,
    InputState,
    JoinMode,
    OutcomeCode,
    OverlapPolicy,
    RunKind,
    RunPhase,
    RunStatus,
    StepKind,
    StepState,
    TaskState,
    TimerKind,
    WaitReason,
    WebhookDeliveryState,
);

impl Sample for BudgetScope {
    fn sample(seed: u64) -> Self {
        Self::Agent(String::sample(seed))
    }
}

impl Sample for Currency {
    fn sample(_: u64) -> Self {
        Self::default()
    }
}

impl Sample for EffectKey {
    fn sample(seed: u64) -> Self {
        Self::new(provost_core::RunId::sample(seed), seed, 0)
    }
}

impl Sample for MissedRunPolicy {
    fn sample(seed: u64) -> Self {
        Self::All { max: u32::try_from(seed).unwrap() }
    }
}

/// A column as the struct sees it.
#[derive(Debug, PartialEq)]
pub(crate) struct Field {
    name: String,
    required: bool,
}

impl Field {
    pub(crate) fn of<T: FromColumn>(name: &str) -> Self {
        Self { name: name.to_owned(), required: T::from_value(Value::Null).is_err() }
    }
}

/// What the macro gives each table for this test.
pub(crate) trait SampleRow: FromRow + PartialEq + std::fmt::Debug {
    const TABLE: &'static str;
    fn sample(seed: u64) -> Self;
    fn fields() -> Vec<Field>;
    fn select_all() -> String;
    fn insert_into(&self, tx: &mut Tx<'_>) -> Result<(), StoreError>;
}

fn check<T: SampleRow>(tx: &mut Tx<'_>) -> Result<(), StoreError> {
    let schema: Vec<(String, bool, u64)> = tx.fetch_all(
        "SELECT name, \"notnull\", pk FROM pragma_table_info(?1) ORDER BY cid",
        params![T::TABLE],
    )?;
    let schema: Vec<Field> = schema
        .into_iter()
        .map(|(name, required, key)| Field { name, required: required || key > 0 })
        .collect();
    assert_eq!(T::fields(), schema, "columns of {}", T::TABLE);
    tx.execute(&format!("DELETE FROM {}", T::TABLE), params![])?;
    // One with every optional column filled, one with none.
    for seed in [10, 11] {
        let row = T::sample(seed);
        row.insert_into(tx)?;
        assert_eq!(tx.fetch_all::<T>(&T::select_all(), params![])?, [row], "{}", T::TABLE);
        tx.execute(&format!("DELETE FROM {}", T::TABLE), params![])?;
    }
    Ok(())
}

macro_rules! check_all {
    ($tx:ident: $($area:ident :: $module:ident :: $name:ident),* $(,)?) => {
        $( check::<super::$area::$module::$name>($tx)?; )*
        const CHECKED: &[&str] = &[$( <super::$area::$module::$name as SampleRow>::TABLE ),*];
    };
}

#[test]
fn every_table_has_a_struct_that_fits() {
    let dir = tempfile::tempdir().unwrap();
    let options =
        StoreOptions { thread_mode: ThreadMode::Inline, ..StoreOptions::in_dir(dir.path()) };
    let store = Store::open(options).unwrap();
    let checked = store.write(|tx| {
        // Rows of one table at a time: what they refer to is not there.
        tx.execute("PRAGMA defer_foreign_keys = ON", params![])?;
        check_all!(tx:
            governance::agent::AgentRow,
            governance::approval::ApprovalRow,
            governance::approval_grant::ApprovalGrantRow,
            governance::audit::AuditRow,
            governance::budget::BudgetRow,
            governance::idempotency::IdempotencyRow,
            governance::resource_set::ResourceSetRow,
            governance::resource_set::ResourceSetVersionRow,
            governance::secret::SecretRow,
            governance::token::TokenRow,
            governance::usage_record::UsageRecordRow,
            outbound::delivery::DeliveryRow,
            outbound::outbox::OutboxRow,
            outbound::webhook::WebhookRow,
            outbound::webhook_delivery::WebhookDeliveryRow,
            scheduling::concurrency_limit::ConcurrencyLimitRow,
            scheduling::execution_class::ExecutionClassRow,
            scheduling::process_start::ProcessStartRow,
            scheduling::schedule::ScheduleRow,
            scheduling::timer::TimerRow,
            scheduling::worker::WorkerRow,
            state::blob::BlobRow,
            state::meta::MetaRow,
            state::shared_state::SharedStateRow,
            state::team::TeamRow,
            work::attempt::AttemptRow,
            work::input::InputRow,
            work::message::MessageRow,
            work::run::RunRow,
            work::run_dependency::RunDependencyRow,
            work::run_event::RunEventRow,
            work::run_join::RunJoinRow,
            work::run_snapshot::RunSnapshotRow,
            work::run_step::RunStepRow,
            work::session::SessionRow,
            work::session_entry::SessionMessageRow,
            work::task::TaskRow,
        );
        let tables: Vec<String> = tx.fetch_all(
            "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name",
            params![],
        )?;
        let mut checked = CHECKED.to_vec();
        checked.sort_unstable();
        assert_eq!(tables, checked, "a table without a struct, or the reverse");
        Ok::<_, StoreError>(())
    });
    checked.wait().unwrap();
}

#[test]
fn a_wrong_number_of_parameters_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let options =
        StoreOptions { thread_mode: ThreadMode::Inline, ..StoreOptions::in_dir(dir.path()) };
    let store = Store::open(options).unwrap();
    let outcome = store.write(|tx| tx.execute("DELETE FROM timer WHERE kind = ?1", params![]));
    let error = outcome.wait().unwrap_err();
    assert!(error.to_string().contains("takes 1 parameters, 0 were given"), "{error}");
}

#[test]
fn an_unknown_value_is_named_with_its_table_column_and_row() {
    let dir = tempfile::tempdir().unwrap();
    let options =
        StoreOptions { thread_mode: ThreadMode::Inline, ..StoreOptions::in_dir(dir.path()) };
    let store = Store::open(options).unwrap();
    let row = super::scheduling::timer::TimerRow::sample(1);
    let outcome = store.write(move |tx| {
        row.insert(tx)?;
        tx.execute("UPDATE timer SET kind = 'later'", params![]).map(drop)?;
        tx.fetch_all::<super::scheduling::timer::TimerRow>(
            &super::scheduling::timer::TimerRow::select(""),
            params![],
        )
    });
    let error = outcome.wait().unwrap_err();
    assert_eq!(error.code(), "unreadable");
    let text = error.to_string();
    assert!(text.contains("column `kind` of table `timer` is wrong: `later`"), "{text}");
    assert!(text.contains("ref `text 1`"), "{text}");
}

#[test]
fn a_column_of_another_type_is_named() {
    struct ColumnSource;
    impl crate::ColumnSource for ColumnSource {
        fn cell(&self, _: usize) -> Result<Value<'_>, StoreError> {
            Ok(Value::Int(2))
        }
    }
    let mut row = crate::Row::new(&ColumnSource);
    let error = row.take::<String>().unwrap_err();
    assert!(error.to_string().contains("column 1 of an answer is a number, not text"), "{error}");
    let error = row.take::<bool>().unwrap_err();
    assert!(error.to_string().contains("column 2 of an answer is 2"), "{error}");
    assert!(matches!(row.take::<u64>(), Ok(2)));
}
