//! Approvals, decisions about them, and standing approvals.

use axum::Json;
use axum::extract::State;
use provost_api::{
    Approval, ApprovalQuery, ApprovalReceipt, Decision, DecisionRequest, Page, PageQuery,
    StandingApproval, StandingApprovalKey,
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
    ApiQuery(params): ApiQuery<ApprovalQuery>,
) -> ApiResult<Json<Page<Approval>>> {
    let state = match (params.state, params.all.unwrap_or(false)) {
        (Some(_), true) => {
            return Err(error::invalid("all", "it cannot be combined with `state`").into());
        }
        (state, false) => Some(state.unwrap_or(ApprovalState::Pending)),
        (None, true) => None,
    };
    let filter = ApprovalFilter {
        state,
        run: params.run,
        task: params.task,
        before: convert::page::cursor(params.cursor.as_deref())?,
    };
    let page =
        query::approval::list(app.engine().store(), &auth.namespace, filter, limit(params.limit)?)
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

pub(crate) async fn decide(
    State(app): State<App>,
    auth: Auth<Approve>,
    ApiPath(id): ApiPath<ApprovalId>,
    ApiJson(input): ApiJson<DecisionRequest>,
) -> ApiResult<Json<ApprovalReceipt>> {
    let engine = app.engine();
    let (ns, by) = (&auth.namespace, auth.principal.name.as_str());
    if input.grant.is_some() && input.decision != Decision::Approve {
        return Err(error::invalid("grant", "it is valid only with the decision `approve`").into());
    }
    let decided = match (input.decision, input.text) {
        (Decision::Approve, None) => {
            engine.approvals().approve(ns, id, input.grant.unwrap_or_default(), by).await
        }
        (Decision::Approve, Some(_)) => {
            return Err(
                error::invalid("text", "it is not valid with the decision `approve`").into()
            );
        }
        (Decision::Deny, reason) => {
            let decision = ApprovalDecision::Deny { reason: reason.unwrap_or_default() };
            engine.approvals().answer(ns, id, decision, by).await
        }
        (Decision::Reply, Some(text)) => engine.approvals().answer_text(ns, id, &text, by).await,
        (Decision::Reply, None) => {
            return Err(error::invalid("text", "it is required with the decision `answer`").into());
        }
    };
    let accepted = decided?.is_recorded;
    let row = query::approval::get(engine.store(), ns, id).await?;
    Ok(Json(ApprovalReceipt { accepted, approval: convert::approval::view(row)? }))
}

pub(crate) async fn list_standing(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiQuery(params): ApiQuery<PageQuery>,
) -> ApiResult<Json<Page<StandingApproval>>> {
    let limit = limit(params.limit)?;
    // The call key is a hash without a colon, so the first colon separates it from the scope.
    let after = match params.cursor.as_deref() {
        None => approval_grant::GrantKey { scope: "", call_key: "" },
        Some(cursor) => {
            let key = cursor.split_once(':');
            let (call_key, scope) = key.ok_or_else(|| {
                error::invalid("cursor", "send the `next` value of the previous page")
            })?;
            approval_grant::GrantKey { scope, call_key }
        }
    };
    let rows = query::approval::grants(app.engine().store(), &auth.namespace, after, limit).await?;
    let cursor = |grant: &StandingApproval| format!("{}:{}", grant.call_key, grant.scope);
    Ok(Json(convert::page::from_rows(rows, limit, convert::approval::standing, cursor)?))
}

pub(crate) async fn revoke_standing(
    State(app): State<App>,
    auth: Auth<Approve>,
    ApiQuery(key): ApiQuery<StandingApprovalKey>,
) -> ApiResult<NoContent> {
    app.engine().approvals().revoke_grant(&auth.namespace, &key.scope, &key.call_key).await?;
    Ok(NoContent)
}
