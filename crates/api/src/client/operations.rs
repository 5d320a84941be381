//! Calls of operators: classes, budgets, schedules, and why something waits.

use http::Method;

use super::path::segment;
use super::{ApiError, Call, Client};
use crate::{
    Budget, BudgetChange, BudgetKey, Class, ClassTarget, Explanation, Page, Paging, PauseSchedule,
    Schedule, ScheduleChange,
};

impl Client {
    /// The scheduling classes.
    pub async fn classes(&self, list: &Paging) -> Result<Page<Class>, ApiError> {
        self.call(Call::get(self.path("classes")).query(list)?).await
    }

    /// Says how many runs of a class may work at once; zero pauses it.
    pub async fn set_class_target(&self, key: &str, desired: u64) -> Result<Class, ApiError> {
        let path = self.named("classes", key, "/target")?;
        self.call(Call::new(Method::PUT, path).body(&ClassTarget { desired })?).await
    }

    /// What may be spent and what was.
    pub async fn budgets(&self, list: &Paging) -> Result<Page<Budget>, ApiError> {
        self.call(Call::get(self.path("budgets")).query(list)?).await
    }

    /// Bounds what may be spent.
    pub async fn set_budget(&self, change: &BudgetChange) -> Result<Budget, ApiError> {
        self.call(Call::new(Method::PUT, self.path("budgets")).body(change)?).await
    }

    /// Takes a bound away.
    pub async fn remove_budget(&self, key: &BudgetKey) -> Result<(), ApiError> {
        self.done(Call::delete(self.path("budgets")).query(key)?).await
    }

    /// The schedules.
    pub async fn schedules(&self, list: &Paging) -> Result<Page<Schedule>, ApiError> {
        self.call(Call::get(self.path("schedules")).query(list)?).await
    }

    /// A schedule as it stands.
    pub async fn schedule(&self, id: &str) -> Result<Schedule, ApiError> {
        self.call(Call::get(self.named("schedules", id, "")?)).await
    }

    /// Makes or changes a schedule.
    pub async fn put_schedule(
        &self,
        id: &str,
        change: &ScheduleChange,
    ) -> Result<Schedule, ApiError> {
        let path = self.named("schedules", id, "")?;
        self.call(Call::new(Method::PUT, path).body(change)?).await
    }

    /// Pauses a schedule, or lets it go on.
    pub async fn pause_schedule(&self, id: &str, paused: bool) -> Result<Schedule, ApiError> {
        let path = self.named("schedules", id, "/pause")?;
        self.call(Call::post(path).body(&PauseSchedule { paused })?).await
    }

    /// Removes a schedule.
    pub async fn delete_schedule(&self, id: &str) -> Result<(), ApiError> {
        self.done(Call::delete(self.named("schedules", id, "")?)).await
    }

    /// Why something waits or failed: a run, a task, a question or a conversation.
    pub async fn explain(&self, id: &str) -> Result<Explanation, ApiError> {
        self.call(Call::get(self.path(&format!("explain/{}", segment(id)?)))).await
    }
}
