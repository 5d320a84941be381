//! Questions to people, their answers, and answers that reach further than one call.

use axum::Json;
use axum::extract::State;
use provost_api::{
    Answer, Answered, Approval, ApprovalList, Decision, Grant, GrantKey, Page, Paging,
};
use provost_core::lifecycle::ApprovalState;
use provost_core::{ApprovalDecision, ApprovalId};
use provost_store::query;
use provost_store::table::governance::approval::ApprovalFilter;
use provost_store::table::governance::approval_grant;

use crate::app::App;
use crate::convert;
use crate::error;
use crate::extract::{ApiJson, ApiPath, ApiQuery, Approve, Auth, Read, limit};
use crate::response::{ApiResult, NoContent};

pub(crate) async fn list(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiQuery(asked): ApiQuery<ApprovalList>,
) -> ApiResult<Json<Page<Approval>>> {
    let state = match (asked.state, asked.all.unwrap_or(false)) {
        (Some(_), true) => {
            return Err(error::invalid("all", "`state` is there, too: say one").into());
        }
        (state, false) => Some(state.unwrap_or(ApprovalState::Pending)),
        (None, true) => None,
    };
    let filter = ApprovalFilter {
        state: state.map(|state| state.as_str().to_owned()),
        run: asked.run,
        task: asked.task,
        before: convert::page::cursor(asked.cursor.as_deref())?,
    };
    let page =
        query::approval::list(app.engine().store(), &auth.namespace, filter, limit(asked.limit)?)
            .await;
    Ok(Json(convert::page::map(page?, convert::approval::view)?))
}

pub(crate) async fn get(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiPath(approval): ApiPath<ApprovalId>,
) -> ApiResult<Json<Approval>> {
    let row = query::approval::get(app.engine().store(), &auth.namespace, approval).await;
    Ok(Json(convert::approval::view(row?)?))
}

pub(crate) async fn answer(
    State(app): State<App>,
    auth: Auth<Approve>,
    ApiPath(id): ApiPath<ApprovalId>,
    ApiJson(said): ApiJson<Answer>,
) -> ApiResult<Json<Answered>> {
    let engine = app.engine();
    let (ns, by) = (&auth.namespace, auth.principal.name.as_str());
    if said.grant.is_some() && said.decision != Decision::Approve {
        return Err(error::invalid("grant", "only a yes reaches further: leave it out").into());
    }
    let answered = match (said.decision, said.text) {
        (Decision::Approve, None) => {
            engine.approvals().approve(ns, id, said.grant.unwrap_or_default(), by).await
        }
        (Decision::Approve, Some(_)) => {
            return Err(
                error::invalid("text", "a yes has none: leave it out, or use `answer`").into()
            );
        }
        (Decision::Deny, reason) => {
            let decision = ApprovalDecision::Deny { reason: reason.unwrap_or_default() };
            engine.approvals().answer(ns, id, decision, by).await
        }
        (Decision::Answer, Some(text)) => engine.approvals().answer_text(ns, id, &text, by).await,
        (Decision::Answer, None) => {
            return Err(error::invalid("text", "say what the answer is").into());
        }
    };
    let counts = answered?.counted;
    let row = query::approval::get(engine.store(), ns, id).await?;
    Ok(Json(Answered { counts, approval: convert::approval::view(row)? }))
}

pub(crate) async fn list_grants(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiQuery(asked): ApiQuery<Paging>,
) -> ApiResult<Json<Page<Grant>>> {
    let limit = limit(asked.limit)?;
    // The key of a call is a hash, so the first colon ends it, whatever the scope is called.
    let after = match asked.cursor.as_deref() {
        None => approval_grant::GrantKey { scope: "", call_key: "" },
        Some(cursor) => {
            let key = cursor.split_once(':');
            let (call_key, scope) =
                key.ok_or_else(|| error::invalid("cursor", "use `next` of the page before"))?;
            approval_grant::GrantKey { scope, call_key }
        }
    };
    let rows = query::approval::grants(app.engine().store(), &auth.namespace, after, limit).await?;
    let place = |grant: &Grant| format!("{}:{}", grant.call_key, grant.scope);
    Ok(Json(convert::page::from_rows(rows, limit, convert::approval::grant, place)?))
}

pub(crate) async fn revoke_grant(
    State(app): State<App>,
    auth: Auth<Approve>,
    ApiQuery(key): ApiQuery<GrantKey>,
) -> ApiResult<NoContent> {
    app.engine().approvals().revoke_grant(&auth.namespace, &key.scope, &key.call_key).await?;
    Ok(NoContent)
}
