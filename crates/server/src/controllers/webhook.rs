//! Outgoing webhooks.

use http::Method;
use provost_api::{NewWebhook, Page, Paging, Problem, Scope, Webhook, WebhookCreated, WebhookPost};
use provost_core::{ErrorKind, WebhookId, WebhookPostId};
use provost_store::row::webhook_post::{PostFilter, WebhookPostRow};

use super::within;
use crate::convert;
use crate::error::{self, of_engine};
use crate::input::{Cx, Json, Query, limit};
use crate::operation::Operation;
use crate::output::{Answer, Done, Made};
use crate::webhook::{MasterKey, check_url};

const KINDS_MAX: usize = 64;
const KIND_BYTES_MAX: usize = 64;

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::new(
            (Method::POST, within!("webhooks")),
            "createWebhook",
            "Have an address told of what happens; its secret is shown this once",
            create,
        )
        .scope(Scope::Write),
        Operation::new(
            (Method::GET, within!("webhooks")),
            "listWebhooks",
            "Webhooks, oldest first",
            list,
        ),
        Operation::new(
            (Method::GET, within!("webhooks/{webhook}")),
            "getWebhook",
            "A webhook",
            get,
        ),
        Operation::new(
            (Method::DELETE, within!("webhooks/{webhook}")),
            "deleteWebhook",
            "Remove a webhook and what it was to be told",
            delete,
        )
        .scope(Scope::Write),
        Operation::new(
            (Method::GET, within!("webhooks/{webhook}/posts")),
            "listWebhookPosts",
            "What a webhook was told, newest first",
            posts,
        ),
        Operation::new(
            (Method::POST, within!("webhooks/{webhook}/posts/{post}/resend")),
            "resendWebhookPost",
            "Tell a webhook once more",
            resend,
        )
        .scope(Scope::Write),
    ]
}

async fn create(cx: Cx, Json(asked): Json<NewWebhook>) -> Result<Made<WebhookCreated>, Problem> {
    let options = &cx.app.shared.options;
    let key: &MasterKey = options.master_key.as_ref().ok_or_else(|| {
        let detail = "this server has no key to sign with: start it with `provost serve`";
        Problem::new(ErrorKind::Unavailable, "no_master_key", detail)
    })?;
    let url = check_url(&asked.url, options.allow_private_webhooks)?;
    check_kinds(&asked.kinds)?;
    // The key is derived from the server's own, so there is none to store.
    let new = provost_engine::NewWebhook { url: url.into(), kinds: asked.kinds };
    let made = cx.app.engine().create_webhook(&cx.namespace, new).await.map_err(of_engine)?;
    let secret = key.of(made.id).text();
    Ok(Made { what: WebhookCreated { webhook: webhook(made), secret }, new: true })
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

async fn list(cx: Cx, Query(asked): Query<Paging>) -> Result<Answer<Page<Webhook>>, Problem> {
    let after: Option<WebhookId> = convert::cursor(asked.cursor.as_deref())?;
    let page = cx.app.engine().webhooks(&cx.namespace, after, limit(asked.limit)?).await;
    Ok(Answer(convert::page(page.map_err(of_engine)?, |row| Ok(webhook(row)))?))
}

async fn get(cx: Cx, (): ()) -> Result<Answer<Webhook>, Problem> {
    let found = cx.app.engine().webhook(&cx.namespace, cx.id("webhook")?).await;
    Ok(Answer(webhook(found.map_err(of_engine)?)))
}

async fn delete(cx: Cx, (): ()) -> Result<Done, Problem> {
    let deleted = cx.app.engine().delete_webhook(&cx.namespace, cx.id("webhook")?).await;
    deleted.map_err(of_engine)?;
    Ok(Done)
}

async fn posts(cx: Cx, Query(asked): Query<Paging>) -> Result<Answer<Page<WebhookPost>>, Problem> {
    let before: Option<WebhookPostId> = convert::cursor(asked.cursor.as_deref())?;
    let (id, limit) = (cx.id("webhook")?, limit(asked.limit)?);
    let filter = PostFilter { before, ..PostFilter::default() };
    let page = cx.app.engine().webhook_posts(&cx.namespace, id, filter, limit).await;
    Ok(Answer(convert::page(page.map_err(of_engine)?, post)?))
}

async fn resend(cx: Cx, (): ()) -> Result<Answer<WebhookPost>, Problem> {
    let (id, which) = (cx.id("webhook")?, cx.id("post")?);
    let row = cx.app.engine().webhook_resend(&cx.namespace, id, which).await.map_err(of_engine)?;
    Ok(Answer(post(row)?))
}

fn webhook(row: provost_engine::Webhook) -> Webhook {
    Webhook {
        id: row.id.to_string(),
        url: row.url,
        kinds: row.kinds,
        created: row.created.into(),
        disabled: row.disabled.map(Into::into),
    }
}

fn post(row: WebhookPostRow) -> Result<WebhookPost, Problem> {
    let status = |status: u64| u16::try_from(status).map_err(|error| error::bug(&error));
    Ok(WebhookPost {
        id: row.id.to_string(),
        event: row.event_key,
        state: row.state,
        tries: row.tries,
        next_at: row.next_at.into(),
        last_status: row.last_status.map(status).transpose()?,
        last_error: row.last_error,
        created: row.created.into(),
    })
}
