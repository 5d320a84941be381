//! What operators set: how many runs work at once, and what may be spent.

use http::Method;
use provost_api::{
    Budget, BudgetChange, BudgetKey, Class, ClassTarget, Page, Paging, Problem, Scope,
};
use provost_core::ErrorKind;
use provost_core::work::{ClassKey, WorkError};
use provost_engine::{BudgetScope, EngineError};
use provost_store::row::exec_class;

use super::within;
use crate::convert;
use crate::error::of_engine;
use crate::input::{Cx, Json, Query, limit};
use crate::operation::Operation;
use crate::output::{Answer, Done};

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::new(
            (Method::GET, within!("classes")),
            "listClasses",
            "Scheduling classes, by key",
            classes,
        ),
        Operation::new(
            (Method::PUT, within!("classes/{class}/target")),
            "setClassTarget",
            "Set how many runs of a class may work at once; zero pauses it",
            set_target,
        )
        .scope(Scope::Admin),
        Operation::new(
            (Method::GET, within!("budgets")),
            "listBudgets",
            "Budgets, by scope",
            budgets,
        ),
        Operation::new(
            (Method::PUT, within!("budgets")),
            "setBudget",
            "Bound what may be spent; what was spent before stays counted",
            set_budget,
        )
        .scope(Scope::Admin),
        Operation::new(
            (Method::DELETE, within!("budgets")),
            "removeBudget",
            "Take a bound away",
            remove_budget,
        )
        .scope(Scope::Admin),
    ]
}

async fn classes(cx: Cx, Query(asked): Query<Paging>) -> Result<Answer<Page<Class>>, Problem> {
    let (limit, after) = (limit(asked.limit)?, asked.cursor.unwrap_or_default());
    let rows = cx.app.engine().classes(&cx.namespace, &after, limit).await.map_err(of_engine)?;
    Ok(Answer(convert::page_of(rows, limit, convert::class, |class: &Class| class.key.clone())?))
}

async fn set_target(cx: Cx, Json(target): Json<ClassTarget>) -> Result<Answer<Class>, Problem> {
    let (engine, key): (_, ClassKey) = (cx.app.engine(), cx.id("class")?);
    let set = engine.set_class_target(&cx.namespace, &key, target.desired).await;
    set.map_err(of_engine)?;
    let namespace = cx.namespace.clone();
    let read = engine.store().read(move |tx| {
        let row = exec_class::find(tx, namespace.as_str(), key.as_str())?;
        row.ok_or_else(|| EngineError::from(WorkError::not_found("class", &key)))
    });
    Ok(Answer(convert::class(read.await.map_err(of_engine)?)?))
}

async fn budgets(cx: Cx, Query(asked): Query<Paging>) -> Result<Answer<Page<Budget>>, Problem> {
    let states = cx.app.engine().budgets(&cx.namespace).await.map_err(of_engine)?;
    let budgets = states.into_iter().map(convert::budget).collect::<Result<_, _>>()?;
    Ok(Answer(convert::cut(budgets, &asked, |budget: &Budget| budget.scope.clone())?))
}

async fn set_budget(cx: Cx, Json(change): Json<BudgetChange>) -> Result<Answer<Budget>, Problem> {
    let engine = cx.app.engine();
    let scope = scope(&change.scope)?;
    let period = change.period.map(convert::budget_period);
    let budget = provost_engine::Budget { cap: change.cap, period };
    let set = engine.set_budget(&cx.namespace, scope.clone(), Some(budget)).await;
    set.map_err(of_engine)?;
    let state = engine.budget(&cx.namespace, scope).await.map_err(of_engine)?;
    Ok(Answer(convert::budget(state.ok_or_else(|| missing(&change.scope))?)?))
}

async fn remove_budget(cx: Cx, Query(key): Query<BudgetKey>) -> Result<Done, Problem> {
    let (engine, scope) = (cx.app.engine(), scope(&key.scope)?);
    let known = engine.budget(&cx.namespace, scope.clone()).await.map_err(of_engine)?;
    known.ok_or_else(|| missing(&key.scope))?;
    engine.set_budget(&cx.namespace, scope, None).await.map_err(of_engine)?;
    Ok(Done)
}

fn scope(text: &str) -> Result<BudgetScope, Problem> {
    text.parse().map_err(|error: WorkError| of_engine(error.into()))
}

fn missing(scope: &str) -> Problem {
    let scope: String = scope.chars().take(64).collect();
    Problem::new(ErrorKind::NotFound, "not_found", format!("there is no budget `{scope}`"))
}
