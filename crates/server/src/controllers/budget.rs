//! Budgets: spending limits.

use axum::Json;
use axum::extract::State;
use provost_api::{Budget, BudgetChange, BudgetKey, Page, PageQuery, Problem};
use provost_core::lifecycle::RequestError;
use provost_core::text::first_chars;
use provost_engine::{BudgetScope, EngineError};

use crate::app::App;
use crate::convert;
use crate::error;
use crate::extract::{Admin, ApiJson, ApiQuery, Auth, Read};
use crate::response::{ApiResult, NoContent};

pub(crate) async fn list(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiQuery(params): ApiQuery<PageQuery>,
) -> ApiResult<Json<Page<Budget>>> {
    let states = app.engine().budgets().list(&auth.namespace).await?;
    let budgets = states.into_iter().map(convert::budget::view).collect::<Result<_, _>>()?;
    Ok(Json(convert::page::paginate(budgets, &params, |budget: &Budget| budget.scope.clone())?))
}

pub(crate) async fn set(
    State(app): State<App>,
    auth: Auth<Admin>,
    ApiJson(change): ApiJson<BudgetChange>,
) -> ApiResult<Json<Budget>> {
    let engine = app.engine();
    let scope = scope(&change.scope)?;
    let period = change.period.map(convert::budget::period);
    let budget = provost_engine::Budget { cap: change.cap, period };
    engine.budgets().set(&auth.namespace, scope.clone(), Some(budget)).await?;
    let state = engine.budgets().get(&auth.namespace, scope).await?;
    Ok(Json(convert::budget::view(state.ok_or_else(|| missing(&change.scope))?)?))
}

pub(crate) async fn remove(
    State(app): State<App>,
    auth: Auth<Admin>,
    ApiQuery(key): ApiQuery<BudgetKey>,
) -> ApiResult<NoContent> {
    let (engine, scope) = (app.engine(), scope(&key.scope)?);
    let budget = engine.budgets().get(&auth.namespace, scope.clone()).await?;
    budget.ok_or_else(|| missing(&key.scope))?;
    engine.budgets().set(&auth.namespace, scope, None).await?;
    Ok(NoContent)
}

fn scope(text: &str) -> ApiResult<BudgetScope> {
    text.parse().map_err(|error: RequestError| EngineError::from(error).into())
}

fn missing(scope: &str) -> Problem {
    let scope = first_chars(scope, 64);
    error::not_found(format!("there is no budget `{scope}`"))
}
