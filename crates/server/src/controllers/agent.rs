//! Agents: create, read, update and delete.

use axum::Json;
use axum::extract::State;
use provost_api::{Agent, AgentChange, NewAgent, Page, PageQuery, Scope};
use provost_core::lifecycle::RequestError;
use provost_core::resource::{AgentSpec, TERMINAL_AGENT_PREFIX, check_agent_name};
use provost_engine::EngineError;

use crate::app::App;
use crate::convert;
use crate::extract::{AgentName, ApiJson, ApiPath, ApiQuery, Auth, IfMatch, Read, Write, limit};
use crate::response::{ApiResult, Created, NoContent, Versioned};

pub(crate) async fn create(
    State(app): State<App>,
    auth: Auth<Write>,
    ApiJson(new): ApiJson<NewAgent>,
) -> ApiResult<Created<Agent>> {
    if !auth.principal.has_scope(Scope::Admin) {
        if new.name.starts_with(TERMINAL_AGENT_PREFIX) {
            let what = format!("names with `{TERMINAL_AGENT_PREFIX}`");
            return Err(EngineError::from(RequestError::OperatorOnly { what }).into());
        }
        new.config.require_no_operator_fields().map_err(EngineError::from)?;
    }
    let config = new.config.or_default_for(&new.name);
    let title = new.title.as_deref().filter(|title| !title.is_empty());
    let created = app.engine().create_agent(&auth.namespace, &new.name, title, config).await;
    Ok(Created { value: convert::agent::view(created?), is_new: true })
}

pub(crate) async fn list(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiQuery(params): ApiQuery<PageQuery>,
) -> ApiResult<Json<Page<Agent>>> {
    let limit = limit(params.limit)?;
    let page = app.engine().agents(&auth.namespace, params.cursor.as_deref(), limit).await;
    Ok(Json(convert::page::map(page?, |profile| Ok(convert::agent::view(profile)))?))
}

pub(crate) async fn get(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiPath(AgentName(agent)): ApiPath<AgentName>,
) -> ApiResult<Versioned<Agent>> {
    let profile = app.engine().agent(&auth.namespace, &agent).await;
    Ok(versioned(convert::agent::view(profile?)))
}

pub(crate) async fn update(
    State(app): State<App>,
    auth: Auth<Write>,
    ApiPath(AgentName(agent)): ApiPath<AgentName>,
    if_match: IfMatch,
    ApiJson(change): ApiJson<AgentChange>,
) -> ApiResult<Versioned<Agent>> {
    let change = provost_engine::AgentUpdate {
        title: change.title.map(|title| Some(title).filter(|title| !title.is_empty())),
        config: change.config,
        by_operator: auth.principal.has_scope(Scope::Admin),
        revision: if_match.0,
    };
    let profile = app.engine().update_agent(&auth.namespace, &agent, change).await;
    Ok(versioned(convert::agent::view(profile?)))
}

pub(crate) async fn delete(
    State(app): State<App>,
    auth: Auth<Write>,
    ApiPath(AgentName(agent)): ApiPath<AgentName>,
) -> ApiResult<NoContent> {
    app.engine().delete_agent(&auth.namespace, &agent).await?;
    Ok(NoContent)
}

pub(crate) async fn default_config(
    _: Auth<Read>,
    ApiPath(AgentName(agent)): ApiPath<AgentName>,
) -> ApiResult<Json<AgentSpec>> {
    check_agent_name(&agent).map_err(|error| {
        EngineError::from(RequestError::invalid("agent.name", error.problem, error.fix))
    })?;
    Ok(Json(AgentSpec::default_for(&agent)))
}

fn versioned(agent: Agent) -> Versioned<Agent> {
    Versioned { revision: agent.revision, value: agent }
}
