//! Tokens: who may call. Only whoever has the scope `admin` sees them, and only as far as their own token reaches.

use http::Method;
use provost_api::{NewToken, Page, Paging, Problem, Scope, Token, TokenCreated};

use crate::auth;
use crate::convert;
use crate::input::{Cx, Json, Query, limit};
use crate::operation::Operation;
use crate::output::{Answer, Made};

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::new(
            (Method::POST, "/v1/tokens"),
            "createToken",
            "Make a token; its secret is shown this once",
            create,
        )
        .scope(Scope::Admin),
        Operation::new((Method::GET, "/v1/tokens"), "listTokens", "Tokens, oldest first", list)
            .scope(Scope::Admin),
        Operation::new(
            (Method::DELETE, "/v1/tokens/{token}"),
            "revokeToken",
            "Take a token back",
            revoke,
        )
        .scope(Scope::Admin),
    ]
}

async fn create(cx: Cx, Json(new): Json<NewToken>) -> Result<Made<TokenCreated>, Problem> {
    let what = auth::create(&cx.app, &cx.who, new).await?;
    Ok(Made { what, new: true })
}

async fn list(cx: Cx, Query(asked): Query<Paging>) -> Result<Answer<Page<Token>>, Problem> {
    let after = convert::cursor(asked.cursor.as_deref())?;
    Ok(Answer(auth::list(&cx.app, &cx.who, after, limit(asked.limit)?).await?))
}

async fn revoke(cx: Cx, (): ()) -> Result<Answer<Token>, Problem> {
    Ok(Answer(auth::revoke(&cx.app, &cx.who, cx.id("token")?).await?))
}
