//! Why something waits, or why it failed.

use http::Method;
use provost_api::{Explanation, Problem};
use provost_engine::Subject;

use super::within;
use crate::convert;
use crate::error::{self, of_engine};
use crate::input::Cx;
use crate::operation::Operation;
use crate::output::Answer;

pub(super) fn operations() -> Vec<Operation> {
    vec![Operation::new(
        (Method::GET, within!("explain/{id}")),
        "explain",
        "Why a run, a task, a question, a session or a delivery stands where it stands",
        explain,
    )]
}

async fn explain(cx: Cx, (): ()) -> Result<Answer<Explanation>, Problem> {
    let subject: Subject = cx.parameter("id").parse().map_err(|error| error::bug(&error))?;
    let told = cx.app.engine().explain(&cx.namespace, subject).await.map_err(of_engine)?;
    Ok(Answer(convert::explanation(told)))
}
