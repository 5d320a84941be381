//! Runs: what they do, what was said to them, how they came where they are, and what else could have become of them.

use http::Method;
use provost_api::{
    Attempt, Cancelled, Delivery, Fork, Forked, InputReceipt, Interaction, NewInput, Page, Paging,
    PendingInput, Problem, Replay, Run, RunList, Scope, Snapshot, Step,
};
use provost_core::{DeliveryId, ErrorKind, InputId, RunId};
use provost_engine::EngineError;
use provost_store::row::input;
use provost_store::row::run::RunFilter;

use super::within;
use crate::convert;
use crate::error::of_engine;
use crate::input::{Cx, Json, Query, limit};
use crate::operation::Operation;
use crate::output::{Answer, Done, Made};

pub(super) fn operations() -> Vec<Operation> {
    [looking(), doing(), saying()].into_iter().flatten().collect()
}

fn looking() -> Vec<Operation> {
    vec![
        Operation::new((Method::GET, within!("runs")), "listRuns", "Runs, newest first", list),
        Operation::new((Method::GET, within!("runs/{run}")), "getRun", "A run as it stands", get),
        Operation::new(
            (Method::GET, within!("runs/{run}/steps")),
            "listSteps",
            "The steps of a run, in order",
            steps,
        ),
        Operation::new(
            (Method::GET, within!("runs/{run}/snapshots")),
            "listSnapshots",
            "The changes of a run's life, in order",
            snapshots,
        ),
        Operation::new(
            (Method::GET, within!("runs/{run}/attempts")),
            "listAttempts",
            "The tries of a run, in order",
            attempts,
        ),
        Operation::new(
            (Method::GET, within!("runs/{run}/replay")),
            "replayRun",
            "Fold a run again from what is stored and compare; nothing is changed",
            replay,
        ),
        Operation::new(
            (Method::GET, within!("runs/{run}/deliveries")),
            "listRunDeliveries",
            "What became of sending a run's answer out",
            deliveries,
        ),
    ]
}

fn doing() -> Vec<Operation> {
    vec![
        Operation::new(
            (Method::POST, within!("runs/{run}/cancel")),
            "cancelRun",
            "Cancel a run and every run below it",
            cancel,
        )
        .scope(Scope::Write),
        Operation::new(
            (Method::POST, within!("runs/{run}/resume")),
            "resumeRun",
            "Let a run go on that waits for an operator",
            resume,
        )
        .scope(Scope::Write),
        Operation::new(
            (Method::POST, within!("runs/{run}/fork")),
            "forkRun",
            "Make a new run that shares the first steps of this one",
            fork,
        )
        .scope(Scope::Write)
        .keyed()
        .large(),
    ]
}

fn saying() -> Vec<Operation> {
    vec![
        Operation::new(
            (Method::POST, within!("runs/{run}/inputs")),
            "sayToRun",
            "Say something to a run; if it has ended, to its task",
            say,
        )
        .scope(Scope::Write)
        .keyed()
        .large(),
        Operation::new(
            (Method::GET, within!("runs/{run}/inputs")),
            "listRunInputs",
            "What was said to a run and it has not read yet",
            pending,
        ),
        Operation::new(
            (Method::DELETE, within!("runs/{run}/inputs/{input}")),
            "withdrawInput",
            "Take a message back that nobody has read yet",
            withdraw,
        )
        .scope(Scope::Write),
        Operation::new(
            (Method::GET, within!("runs/{run}/interaction")),
            "getInteraction",
            "What can be said to a run now",
            interaction,
        ),
    ]
}

async fn list(cx: Cx, Query(asked): Query<RunList>) -> Result<Answer<Page<Run>>, Problem> {
    let filter = RunFilter {
        task_id: asked.task,
        session_id: asked.session,
        agent: asked.agent,
        status: asked.status.map(|status| status.as_str().to_owned()),
        phase: asked.phase.map(|phase| phase.as_str().to_owned()),
        parent: asked.parent,
        before: convert::cursor(asked.cursor.as_deref())?,
    };
    let page = cx.app.engine().runs(&cx.namespace, filter, limit(asked.limit)?).await;
    Ok(Answer(convert::page(page.map_err(of_engine)?, convert::run)?))
}

async fn get(cx: Cx, (): ()) -> Result<Answer<Run>, Problem> {
    let row = cx.app.engine().run(&cx.namespace, cx.id("run")?).await.map_err(of_engine)?;
    Ok(Answer(convert::run(row)?))
}

async fn steps(cx: Cx, Query(asked): Query<Paging>) -> Result<Answer<Page<Step>>, Problem> {
    let after = convert::cursor(asked.cursor.as_deref())?.unwrap_or(0);
    let (run, limit) = (cx.id("run")?, limit(asked.limit)?);
    let page = cx.app.engine().shown_steps(&cx.namespace, run, after, limit).await;
    Ok(Answer(convert::page(page.map_err(of_engine)?, convert::step)?))
}

async fn snapshots(cx: Cx, Query(asked): Query<Paging>) -> Result<Answer<Page<Snapshot>>, Problem> {
    let after = convert::cursor(asked.cursor.as_deref())?.unwrap_or(0);
    let (run, limit) = (cx.id("run")?, limit(asked.limit)?);
    let page = cx.app.engine().changes(&cx.namespace, run, after, limit).await;
    Ok(Answer(convert::page(page.map_err(of_engine)?, convert::snapshot)?))
}

async fn attempts(cx: Cx, Query(asked): Query<Paging>) -> Result<Answer<Page<Attempt>>, Problem> {
    let rows = cx.app.engine().attempts(&cx.namespace, cx.id("run")?).await.map_err(of_engine)?;
    let attempts = rows.into_iter().map(convert::attempt).collect::<Result<_, _>>()?;
    Ok(Answer(convert::cut(attempts, &asked, |attempt: &Attempt| attempt.number)?))
}

async fn replay(cx: Cx, (): ()) -> Result<Answer<Replay>, Problem> {
    let report = cx.app.engine().replay(&cx.namespace, cx.id("run")?).await;
    Ok(Answer(convert::replay(report.map_err(of_engine)?)))
}

async fn deliveries(
    cx: Cx,
    Query(asked): Query<Paging>,
) -> Result<Answer<Page<Delivery>>, Problem> {
    let rows = cx.app.engine().deliveries(&cx.namespace, cx.id("run")?).await;
    let rows = rows.map_err(of_engine)?.into_iter().map(convert::delivery);
    let deliveries = rows.collect::<Result<_, _>>()?;
    Ok(Answer(convert::cut(deliveries, &asked, |delivery: &Delivery| -> DeliveryId {
        delivery.id
    })?))
}

async fn cancel(cx: Cx, (): ()) -> Result<Answer<Cancelled>, Problem> {
    let found = cx.app.engine().cancel_run(&cx.namespace, cx.id("run")?).await;
    Ok(Answer(convert::cancelled(found.map_err(of_engine)?)))
}

async fn resume(cx: Cx, (): ()) -> Result<Answer<Run>, Problem> {
    let (engine, run) = (cx.app.engine(), cx.id("run")?);
    engine.resume_run(&cx.namespace, run, &cx.who.name).await.map_err(of_engine)?;
    Ok(Answer(convert::run(engine.run(&cx.namespace, run).await.map_err(of_engine)?)?))
}

async fn fork(cx: Cx, Json(asked): Json<Fork>) -> Result<Made<Forked>, Problem> {
    let (run, step): (RunId, _) = (cx.id("run")?, asked.step);
    let mut edits = convert::fork_edits(asked)?;
    edits.idempotency_key = cx.idempotency_key(edits.idempotency_key.take())?;
    edits.by = Some(cx.who.name.clone());
    let forked = cx.app.engine().fork(&cx.namespace, run, step, edits).await.map_err(of_engine)?;
    Ok(Made { new: !forked.deduped, what: convert::forked(forked) })
}

async fn say(cx: Cx, Json(said): Json<NewInput>) -> Result<Made<InputReceipt>, Problem> {
    let run: RunId = cx.id("run")?;
    super::say(&cx, run, said).await
}

async fn pending(
    cx: Cx,
    Query(asked): Query<Paging>,
) -> Result<Answer<Page<PendingInput>>, Problem> {
    let run: RunId = cx.id("run")?;
    super::pending(&cx, run, &asked).await
}

async fn withdraw(cx: Cx, (): ()) -> Result<Done, Problem> {
    let (engine, run): (_, RunId) = (cx.app.engine(), cx.id("run")?);
    let id: InputId = cx.id("input")?;
    let namespace = cx.namespace.to_string();
    let read =
        engine.store().read(move |tx| Ok::<_, EngineError>(input::find(tx, &namespace, id)?));
    let found = read.await.map_err(of_engine)?;
    if found.is_none_or(|row| row.run_id != Some(run)) {
        let detail = format!("there is no input `{id}` of {run}: check the ids and the namespace");
        return Err(Problem::new(ErrorKind::NotFound, "not_found", detail));
    }
    engine.withdraw_input(&cx.namespace, id).await.map_err(of_engine)?;
    Ok(Done)
}

async fn interaction(cx: Cx, (): ()) -> Result<Answer<Interaction>, Problem> {
    let found = cx.app.engine().interaction(&cx.namespace, cx.id("run")?).await;
    Ok(Answer(convert::interaction(found.map_err(of_engine)?)))
}
