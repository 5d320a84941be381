//! Agents: making, reading, changing and removing them.

use http::Method;
use provost_api::{Agent, AgentChange, AgentConfig, NewAgent, Page, Paging, Problem, Scope};

use super::within;
use crate::convert;
use crate::error::{self, of_engine};
use crate::input::{Cx, Json, Query, limit};
use crate::operation::Operation;
use crate::output::{Answer, Done, Made, Tagged};

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::new((Method::POST, within!("agents")), "createAgent", "Make an agent", create)
            .scope(Scope::Write),
        Operation::new((Method::GET, within!("agents")), "listAgents", "Agents, by name", list),
        Operation::new(
            (Method::GET, within!("agents/{agent}")),
            "getAgent",
            "An agent as it stands; its ETag is its revision",
            get,
        ),
        Operation::new(
            (Method::PATCH, within!("agents/{agent}")),
            "updateAgent",
            "Change an agent; runs that were accepted before keep what they had",
            update,
        )
        .scope(Scope::Write)
        .guarded(),
        Operation::new(
            (Method::DELETE, within!("agents/{agent}")),
            "deleteAgent",
            "Remove an agent; its tasks stay",
            delete,
        )
        .scope(Scope::Write),
        Operation::new(
            (Method::GET, within!("agents/{agent}/default-config")),
            "getDefaultConfig",
            "What a new agent of this name is configured with",
            default_config,
        ),
    ]
}

async fn create(cx: Cx, Json(new): Json<NewAgent>) -> Result<Made<Agent>, Problem> {
    let config = convert::agent_config(&new.name, &new.config)?;
    let title = new.title.as_deref().filter(|title| !title.is_empty());
    let made = cx.app.engine().create_agent(&cx.namespace, &new.name, title, config).await;
    Ok(Made { what: convert::agent(made.map_err(of_engine)?), new: true })
}

async fn list(cx: Cx, Query(asked): Query<Paging>) -> Result<Answer<Page<Agent>>, Problem> {
    let limit = limit(asked.limit)?;
    let page = cx.app.engine().agents(&cx.namespace, asked.cursor.as_deref(), limit).await;
    Ok(Answer(convert::page(page.map_err(of_engine)?, |profile| Ok(convert::agent(profile)))?))
}

async fn get(cx: Cx, (): ()) -> Result<Tagged<Agent>, Problem> {
    let profile = cx.app.engine().agent(&cx.namespace, cx.parameter("agent")).await;
    Ok(tagged(convert::agent(profile.map_err(of_engine)?)))
}

async fn update(cx: Cx, Json(change): Json<AgentChange>) -> Result<Tagged<Agent>, Problem> {
    let change = provost_engine::AgentChange {
        title: change.title.map(|title| Some(title).filter(|title| !title.is_empty())),
        config: change.config,
        revision: seen(&cx)?,
    };
    let profile = cx.app.engine().update_agent(&cx.namespace, cx.parameter("agent"), change).await;
    Ok(tagged(convert::agent(profile.map_err(of_engine)?)))
}

async fn delete(cx: Cx, (): ()) -> Result<Done, Problem> {
    cx.app.engine().delete_agent(&cx.namespace, cx.parameter("agent")).await.map_err(of_engine)?;
    Ok(Done)
}

async fn default_config(cx: Cx, (): ()) -> Result<Answer<AgentConfig>, Problem> {
    let config = provost_engine::AgentConfig::default_named(cx.parameter("agent"));
    Ok(Answer(convert::config(config.map_err(of_engine)?)))
}

fn tagged(agent: Agent) -> Tagged<Agent> {
    Tagged { revision: agent.revision, what: agent }
}

/// The revision that `If-Match` names; `*` is whatever there is.
fn seen(cx: &Cx) -> Result<Option<u64>, Problem> {
    let Some(text) = cx.header("if-match")?.map(str::trim).filter(|text| *text != "*") else {
        return Ok(None);
    };
    let tag = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let revision = tag.and_then(|tag| tag.parse().ok());
    let refused = || error::invalid("if-match", "use the ETag of the agent, with its quotes");
    revision.ok_or_else(refused).map(Some)
}
