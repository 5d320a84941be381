//! Rows of one family: what a command begins.
//!
//! Its task, its session, its first run and its first message have the same digits in their ids. Such a row is found by those, and
//! the indexes that lead from one to another leave it out, which is a third of the entries that a command would need. Whoever
//! looks for the rows of a task, a run or a session looks in both places: the conditions for it are here.
//!
//! Digits prove nothing: a caller may choose the id of a run or of a session. So each condition also asks what the row says.

use provost_core::{SessionId, TypedId};

use super::input::InputRow;
use super::run::RunRow;
use super::task::TaskRow;

impl TaskRow {
    /// Its session has its digits.
    pub(super) fn is_kin(&self) -> bool {
        is_session(&self.session_id, self.id)
    }
}

impl RunRow {
    /// Its task and its session have its digits.
    pub(super) fn is_kin(&self) -> bool {
        self.id.uuid() == self.task_id.uuid() && is_session(&self.session_id, self.id)
    }
}

impl InputRow {
    /// Its task and its run have its digits.
    pub(super) fn is_kin(&self) -> bool {
        self.id.uuid() == self.task_id.uuid()
            && self.run_id.is_some_and(|run| run.uuid() == self.id.uuid())
    }
}

fn is_session(session: &str, id: impl TypedId) -> bool {
    id.kin::<SessionId>().to_string() == session
}

/// The run `run` is one of the task `task`; both are SQL.
pub(super) fn run_of_task(run: &str, task: &str) -> String {
    format!(
        "({run}.task_id = {task} AND {run}.kin = 0
          OR {run}.id = 'run_' || substr({task}, 6) AND {run}.task_id = {task})"
    )
}

/// The message `input` was said to the task `task`; both are SQL.
pub(super) fn input_of_task(input: &str, task: &str) -> String {
    format!(
        "({input}.task_id = {task} AND {input}.kin = 0
          OR {input}.id = 'inp_' || substr({task}, 6) AND {input}.task_id = {task})"
    )
}

/// A message is for the run `?1`.
macro_rules! input_of_run {
    () => {
        "(run_id = ?1 AND kin = 0 OR id = 'inp_' || substr(?1, 5) AND run_id = ?1)"
    };
}
pub(super) use input_of_run;

/// The ids of the tasks of the session `session` in the namespace `?1`.
pub(super) fn tasks_of_session(session: &str) -> String {
    format!(
        "(SELECT a.id FROM task a WHERE a.namespace = ?1 AND a.session_id = {session} AND a.kin = 0
          UNION ALL SELECT k.id FROM task k
           WHERE k.id = 'task_' || substr({session}, 5) AND k.namespace = ?1 AND k.session_id = {session})"
    )
}

/// The newest of the tasks of the session `?2` in the namespace `?1` that meet a condition on `a`.
pub(super) fn newest_task(when: &str) -> String {
    format!(
        "(SELECT max(id) FROM (
            SELECT (SELECT a.id FROM task a WHERE a.namespace = ?1 AND a.session_id = ?2 AND a.kin = 0 AND {when}
                     ORDER BY a.id DESC LIMIT 1) AS id
            UNION ALL SELECT a.id FROM task a
             WHERE a.id = 'task_' || substr(?2, 5) AND a.namespace = ?1 AND a.session_id = ?2 AND {when}))"
    )
}

/// The runs that wait in a session, as two selects of which the second finds one run at most. All is SQL, and a condition names
/// the run `w`.
struct Waiting {
    indexed: String,
    kin: String,
}

impl Waiting {
    fn new(namespace: &str, session: &str, when: &str) -> Self {
        let place = format!("w.namespace = {namespace} AND w.session_id = {session}");
        Self {
            indexed: format!(
                "SELECT w.id FROM run w WHERE {place} AND w.phase = 'queued' AND (w.kin = 0 OR w.ready = 0) AND {when}"
            ),
            kin: format!(
                "SELECT w.id FROM run w WHERE w.id = 'run_' || substr({session}, 5) AND w.kin = 1 AND {place}
                    AND w.phase = 'queued' AND w.ready = 1 AND {when}"
            ),
        }
    }
}

/// The ids of the runs that wait in a session and meet a condition.
pub(super) fn waiting(namespace: &str, session: &str, when: &str) -> String {
    let Waiting { indexed, kin } = Waiting::new(namespace, session, when);
    format!("({indexed} UNION ALL {kin})")
}

/// A run waits in a session and meets a condition.
pub(super) fn any_waiting(namespace: &str, session: &str, when: &str) -> String {
    let Waiting { indexed, kin } = Waiting::new(namespace, session, when);
    format!("(EXISTS ({indexed}) OR EXISTS ({kin}))")
}

/// The ids of at most two runs, one of which is the first of those that wait in the session `?2` of the namespace `?1` and meet a
/// condition.
pub(super) fn first_waiting(when: &str) -> String {
    let Waiting { indexed, kin } = Waiting::new("?1", "?2", when);
    format!("(SELECT id FROM ({indexed} ORDER BY w.rank, w.id LIMIT 1) UNION ALL {kin})")
}
