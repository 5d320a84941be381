//! Outgoing webhooks.

use axum::Json;
use axum::extract::State;
use provost_api::{CreatedWebhook, NewWebhook, Page, PageQuery, Problem, Webhook, WebhookDelivery};
use provost_core::{ErrorKind, WebhookDeliveryId, WebhookId};
use provost_store::table::outbound::webhook_delivery::WebhookDeliveryFilter;

use crate::app::App;
use crate::convert;
use crate::error;
use crate::extract::{ApiJson, ApiPath, ApiQuery, Auth, Read, Write, limit};
use crate::response::{ApiResult, Created, NoContent};
use crate::webhook::{WebhookSigningKey, check_url};

/// Maximum number of kinds.
const KINDS_MAX: usize = 64;
/// Maximum length of a kind.
const KIND_BYTES_MAX: usize = 64;

pub(crate) async fn create(
    State(app): State<App>,
    auth: Auth<Write>,
    ApiJson(params): ApiJson<NewWebhook>,
) -> ApiResult<Created<CreatedWebhook>> {
    let options = app.options();
    let key: &WebhookSigningKey = options.webhook_signing_key.as_ref().ok_or_else(|| {
        let detail = "this server has no signing key for webhooks: start it with `provost serve`";
        Problem::new(ErrorKind::Unavailable, "no_master_key", detail)
    })?;
    let url = check_url(&params.url, options.allow_private_webhooks)?;
    check_kinds(&params.kinds)?;
    // The signing key is derived from the key of the server, so none is stored.
    let new = provost_engine::NewWebhook { url: url.into(), kinds: params.kinds };
    let created = app.engine().webhooks().create(&auth.namespace, new).await?;
    let secret = key.derive(created.id).text();
    Ok(Created {
        value: CreatedWebhook { webhook: convert::webhook::view(created), secret },
        is_new: true,
    })
}

/// Returns an error if there are too many kinds or one is unknown.
fn check_kinds(kinds: &[String]) -> Result<(), Problem> {
    if kinds.len() > KINDS_MAX {
        return Err(error::invalid(
            "kinds",
            "send at most 64 kinds, or an empty list for all kinds",
        ));
    }
    let is_kind = |kind: &String| {
        let letters = kind.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        letters && (1..=KIND_BYTES_MAX).contains(&kind.len())
    };
    match kinds.iter().position(|kind| !is_kind(kind)) {
        Some(index) => {
            let field = format!("kinds[{index}]");
            Err(error::invalid(&field, "it is not a kind of event: send a kind such as `finished`"))
        }
        None => Ok(()),
    }
}

pub(crate) async fn list(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiQuery(params): ApiQuery<PageQuery>,
) -> ApiResult<Json<Page<Webhook>>> {
    let after: Option<WebhookId> = convert::page::cursor(params.cursor.as_deref())?;
    let page = app.engine().webhooks().list(&auth.namespace, after, limit(params.limit)?).await;
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

pub(crate) async fn list_deliveries(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiPath(id): ApiPath<WebhookId>,
    ApiQuery(params): ApiQuery<PageQuery>,
) -> ApiResult<Json<Page<WebhookDelivery>>> {
    let before: Option<WebhookDeliveryId> = convert::page::cursor(params.cursor.as_deref())?;
    let limit = limit(params.limit)?;
    let filter = WebhookDeliveryFilter { before, ..WebhookDeliveryFilter::default() };
    let page = app.engine().webhooks().deliveries(&auth.namespace, id, filter, limit).await;
    Ok(Json(convert::page::map(page?, convert::webhook::delivery)?))
}

pub(crate) async fn resend(
    State(app): State<App>,
    auth: Auth<Write>,
    ApiPath(id): ApiPath<WebhookId>,
    ApiPath(post): ApiPath<WebhookDeliveryId>,
) -> ApiResult<Json<WebhookDelivery>> {
    let row = app.engine().webhooks().redeliver(&auth.namespace, id, post).await?;
    Ok(Json(convert::webhook::delivery(row)?))
}
