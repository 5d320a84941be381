//! Outgoing webhooks.

use axum::Json;
use axum::extract::State;
use provost_api::{NewWebhook, Page, Paging, Problem, Webhook, WebhookCreated, WebhookPost};
use provost_core::{ErrorKind, WebhookDeliveryId, WebhookId};
use provost_store::table::outbound::webhook_delivery::PostFilter;

use crate::app::App;
use crate::convert;
use crate::error;
use crate::extract::{ApiJson, ApiPath, ApiQuery, Auth, Read, Write, limit};
use crate::response::{ApiResult, Created, NoContent};
use crate::webhook::{MasterKey, check_url};

const KINDS_MAX: usize = 64;
const KIND_BYTES_MAX: usize = 64;

pub(crate) async fn create(
    State(app): State<App>,
    auth: Auth<Write>,
    ApiJson(asked): ApiJson<NewWebhook>,
) -> ApiResult<Created<WebhookCreated>> {
    let options = app.options();
    let key: &MasterKey = options.master_key.as_ref().ok_or_else(|| {
        let detail = "this server has no key to sign with: start it with `provost serve`";
        Problem::new(ErrorKind::Unavailable, "no_master_key", detail)
    })?;
    let url = check_url(&asked.url, options.allow_private_webhooks)?;
    check_kinds(&asked.kinds)?;
    // The key is derived from the server's own, so there is none to store.
    let new = provost_engine::NewWebhook { url: url.into(), kinds: asked.kinds };
    let made = app.engine().webhooks().create(&auth.namespace, new).await?;
    let secret = key.of(made.id).text();
    Ok(Created {
        value: WebhookCreated { webhook: convert::webhook::view(made), secret },
        is_new: true,
    })
}

fn check_kinds(kinds: &[String]) -> Result<(), Problem> {
    if kinds.len() > KINDS_MAX {
        return Err(error::invalid(
            "kinds",
            "there are too many: name 64 at most, or none for all",
        ));
    }
    let is_word = |kind: &String| {
        let letters = kind.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        letters && (1..=KIND_BYTES_MAX).contains(&kind.len())
    };
    match kinds.iter().position(|kind| !is_word(kind)) {
        Some(place) => {
            let field = format!("kinds[{place}]");
            Err(error::invalid(&field, "it is no kind of event, as `finished` is"))
        }
        None => Ok(()),
    }
}

pub(crate) async fn list(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiQuery(asked): ApiQuery<Paging>,
) -> ApiResult<Json<Page<Webhook>>> {
    let after: Option<WebhookId> = convert::page::cursor(asked.cursor.as_deref())?;
    let page = app.engine().webhooks().list(&auth.namespace, after, limit(asked.limit)?).await;
    Ok(Json(convert::page::map(page?, |row| Ok(convert::webhook::view(row)))?))
}

pub(crate) async fn get(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiPath(id): ApiPath<WebhookId>,
) -> ApiResult<Json<Webhook>> {
    let found = app.engine().webhooks().get(&auth.namespace, id).await;
    Ok(Json(convert::webhook::view(found?)))
}

pub(crate) async fn delete(
    State(app): State<App>,
    auth: Auth<Write>,
    ApiPath(id): ApiPath<WebhookId>,
) -> ApiResult<NoContent> {
    app.engine().webhooks().delete(&auth.namespace, id).await?;
    Ok(NoContent)
}

pub(crate) async fn list_posts(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiPath(id): ApiPath<WebhookId>,
    ApiQuery(asked): ApiQuery<Paging>,
) -> ApiResult<Json<Page<WebhookPost>>> {
    let before: Option<WebhookDeliveryId> = convert::page::cursor(asked.cursor.as_deref())?;
    let limit = limit(asked.limit)?;
    let filter = PostFilter { before, ..PostFilter::default() };
    let page = app.engine().webhooks().posts(&auth.namespace, id, filter, limit).await;
    Ok(Json(convert::page::map(page?, convert::webhook::post)?))
}

pub(crate) async fn resend(
    State(app): State<App>,
    auth: Auth<Write>,
    ApiPath(id): ApiPath<WebhookId>,
    ApiPath(post): ApiPath<WebhookDeliveryId>,
) -> ApiResult<Json<WebhookPost>> {
    let row = app.engine().webhooks().resend(&auth.namespace, id, post).await?;
    Ok(Json(convert::webhook::post(row)?))
}
