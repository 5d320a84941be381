//! Answers on their way out: what an operator looks through and mends.

use http::Method;
use provost_api::{Delivery, DeliveryList, Page, Problem, Scope};
use provost_core::DeliveryId;
use provost_core::work::WorkError;
use provost_engine::EngineError;
use provost_store::row::delivery::{self, DeliveryFilter};

use super::within;
use crate::convert;
use crate::error::of_engine;
use crate::input::{Cx, Query, limit};
use crate::operation::Operation;
use crate::output::Answer;

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::new(
            (Method::GET, within!("deliveries")),
            "listDeliveries",
            "Answers on their way out, newest first",
            list,
        ),
        Operation::new(
            (Method::GET, within!("deliveries/{delivery}")),
            "getDelivery",
            "An answer on its way out, as it stands",
            get,
        ),
        Operation::new(
            (Method::POST, within!("deliveries/{delivery}/retry")),
            "retryDelivery",
            "Send an answer again; if it had arrived after all, it arrives twice",
            retry,
        )
        .scope(Scope::Write),
        Operation::new(
            (Method::POST, within!("deliveries/{delivery}/dismiss")),
            "dismissDelivery",
            "Put an answer away that has not arrived",
            dismiss,
        )
        .scope(Scope::Write),
    ]
}

async fn list(
    cx: Cx,
    Query(asked): Query<DeliveryList>,
) -> Result<Answer<Page<Delivery>>, Problem> {
    let filter = DeliveryFilter {
        state: asked.state.map(|state| state.as_str().to_owned()),
        run: asked.run,
        before: convert::cursor(asked.cursor.as_deref())?,
    };
    let page = cx.app.engine().deliveries_page(&cx.namespace, filter, limit(asked.limit)?).await;
    Ok(Answer(convert::page(page.map_err(of_engine)?, convert::delivery)?))
}

async fn get(cx: Cx, (): ()) -> Result<Answer<Delivery>, Problem> {
    let (namespace, id): (_, DeliveryId) = (cx.namespace.clone(), cx.id("delivery")?);
    let found = cx.app.engine().store().read(move |tx| {
        let row = delivery::find(tx, namespace.as_str(), id)?;
        row.ok_or_else(|| EngineError::Work(WorkError::not_found("delivery", id)))
    });
    Ok(Answer(convert::delivery(found.await.map_err(of_engine)?)?))
}

async fn retry(cx: Cx, (): ()) -> Result<Answer<Delivery>, Problem> {
    let row = cx.app.engine().retry_delivery(&cx.namespace, cx.id("delivery")?).await;
    Ok(Answer(convert::delivery(row.map_err(of_engine)?)?))
}

async fn dismiss(cx: Cx, (): ()) -> Result<Answer<Delivery>, Problem> {
    let row = cx.app.engine().dismiss_delivery(&cx.namespace, cx.id("delivery")?).await;
    Ok(Answer(convert::delivery(row.map_err(of_engine)?)?))
}
