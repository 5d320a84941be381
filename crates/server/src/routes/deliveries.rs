//! Answers on their way out: what an operator looks through and mends.

use http::Method;
use provost_api::{Delivery, DeliveryList, Page, Problem, Scope};
use provost_store::row::delivery::DeliveryFilter;

use super::within;
use crate::input::{Cx, Query, limit};
use crate::operation::Operation;
use crate::output::Answer;
use crate::problem::of_engine;
use crate::wire;

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::new(
            (Method::GET, within!("deliveries")),
            "listDeliveries",
            "Answers on their way out, newest first",
            list,
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
        before: wire::cursor(asked.cursor.as_deref())?,
    };
    let page = cx.app.engine().deliveries_page(&cx.namespace, filter, limit(asked.limit)?).await;
    Ok(Answer(wire::page(page.map_err(of_engine)?, wire::delivery)?))
}

async fn retry(cx: Cx, (): ()) -> Result<Answer<Delivery>, Problem> {
    let row = cx.app.engine().retry_delivery(&cx.namespace, cx.id("delivery")?).await;
    Ok(Answer(wire::delivery(row.map_err(of_engine)?)?))
}

async fn dismiss(cx: Cx, (): ()) -> Result<Answer<Delivery>, Problem> {
    let row = cx.app.engine().dismiss_delivery(&cx.namespace, cx.id("delivery")?).await;
    Ok(Answer(wire::delivery(row.map_err(of_engine)?)?))
}
