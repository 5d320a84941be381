//! Questions to people, their answers, and answers that reach further than one call.

use http::Method;
use provost_api::{
    Answer as Said, Answered, Approval, ApprovalList, Decision, Grant, GrantKey, Page, Paging,
    Problem, Scope,
};
use provost_core::work::ApprovalState;
use provost_core::{ApprovalDecision, ApprovalId};
use provost_store::row::approval::ApprovalFilter;

use super::within;
use crate::convert;
use crate::error::{self, of_engine};
use crate::input::{Cx, Json, Query, limit};
use crate::operation::Operation;
use crate::output::{Answer, Done};

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::new(
            (Method::GET, within!("approvals")),
            "listApprovals",
            "Questions that wait for a person, newest first",
            list,
        ),
        Operation::new(
            (Method::GET, within!("approvals/{approval}")),
            "getApproval",
            "A question as it stands",
            get,
        ),
        Operation::new(
            (Method::POST, within!("approvals/{approval}/answer")),
            "answerApproval",
            "Answer a question; the first answer counts",
            answer,
        )
        .scope(Scope::Approve),
        Operation::new(
            (Method::GET, within!("grants")),
            "listGrants",
            "What was approved beyond single calls",
            grants,
        ),
        Operation::new(
            (Method::DELETE, within!("grants")),
            "revokeGrant",
            "Take a grant back: the next such call asks again",
            revoke,
        )
        .scope(Scope::Approve),
    ]
}

async fn list(
    cx: Cx,
    Query(asked): Query<ApprovalList>,
) -> Result<Answer<Page<Approval>>, Problem> {
    let state = match (asked.state, asked.all.unwrap_or(false)) {
        (Some(_), true) => return Err(error::invalid("all", "`state` is there, too: say one")),
        (state, false) => Some(state.unwrap_or(ApprovalState::Pending)),
        (None, true) => None,
    };
    let filter = ApprovalFilter {
        state: state.map(|state| state.as_str().to_owned()),
        run: asked.run,
        task: asked.task,
        before: convert::cursor(asked.cursor.as_deref())?,
    };
    let page = cx.app.engine().approvals(&cx.namespace, filter, limit(asked.limit)?).await;
    Ok(Answer(convert::page(page.map_err(of_engine)?, convert::approval)?))
}

async fn get(cx: Cx, (): ()) -> Result<Answer<Approval>, Problem> {
    let row = cx.app.engine().approval(&cx.namespace, cx.id("approval")?).await;
    Ok(Answer(convert::approval(row.map_err(of_engine)?)?))
}

async fn answer(cx: Cx, Json(said): Json<Said>) -> Result<Answer<Answered>, Problem> {
    let (engine, id): (_, ApprovalId) = (cx.app.engine(), cx.id("approval")?);
    let (ns, by) = (&cx.namespace, cx.who.name.as_str());
    if said.grant.is_some() && said.decision != Decision::Approve {
        return Err(error::invalid("grant", "only a yes reaches further: leave it out"));
    }
    let answered = match (said.decision, said.text) {
        (Decision::Approve, None) => {
            engine.approve(ns, id, said.grant.unwrap_or_default(), by).await
        }
        (Decision::Approve, Some(_)) => {
            return Err(error::invalid("text", "a yes has none: leave it out, or use `answer`"));
        }
        (Decision::Deny, reason) => {
            let decision = ApprovalDecision::Deny { reason: reason.unwrap_or_default() };
            engine.answer(ns, id, decision, by).await
        }
        (Decision::Answer, Some(text)) => engine.answer_text(ns, id, &text, by).await,
        (Decision::Answer, None) => return Err(error::invalid("text", "say what the answer is")),
    };
    let counts = answered.map_err(of_engine)?.counted;
    let row = engine.approval(ns, id).await.map_err(of_engine)?;
    Ok(Answer(Answered { counts, approval: convert::approval(row)? }))
}

async fn grants(cx: Cx, Query(asked): Query<Paging>) -> Result<Answer<Page<Grant>>, Problem> {
    let limit = limit(asked.limit)?;
    // The key of a call is a hash, so the first colon ends it, whatever the scope is called.
    let after = match asked.cursor.as_deref() {
        None => ("", ""),
        Some(cursor) => {
            let place = cursor.split_once(':').map(|(key, scope)| (scope, key));
            place.ok_or_else(|| error::invalid("cursor", "use `next` of the page before"))?
        }
    };
    let rows = cx.app.engine().grants(&cx.namespace, after, limit).await.map_err(of_engine)?;
    let place = |grant: &Grant| format!("{}:{}", grant.call_key, grant.scope);
    Ok(Answer(convert::page_of(rows, limit, convert::grant, place)?))
}

async fn revoke(cx: Cx, Query(key): Query<GrantKey>) -> Result<Done, Problem> {
    let revoked = cx.app.engine().revoke_grant(&cx.namespace, &key.scope, &key.call_key).await;
    revoked.map_err(of_engine)?;
    Ok(Done)
}
