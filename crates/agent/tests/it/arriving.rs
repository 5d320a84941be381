//! Answers that come in pieces, in runs that nobody watches: whoever awaits such a run reads the pieces itself.

use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, StreamExt};
use provost_agent::{Agent, Error, RunOutcome};
use provost_core::{Limits, StopReason};
use provost_model::{ChatModel, ChatRequest, ModelError, ModelEvent, ModelInfo, ModelStream};
use tokio_util::sync::CancellationToken;

type Piece = Result<ModelEvent, ModelError>;

/// A model whose answer wakes the run for each of its pieces; `make` gives them by their number.
struct Pieces {
    info: ModelInfo,
    make: Arc<dyn Fn(usize) -> Option<Piece> + Send + Sync>,
}

impl ChatModel for Pieces {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, _request: ChatRequest) -> ModelStream {
        let make = Arc::clone(&self.make);
        stream::unfold(0, move |number| {
            let piece = make(number);
            async move {
                tokio::time::sleep(Duration::from_millis(1)).await;
                Some((piece?, number + 1))
            }
        })
        .boxed()
    }
}

fn agent(make: impl Fn(usize) -> Option<Piece> + Send + Sync + 'static) -> Agent {
    let info = ModelInfo::unknown("pieces", "pieces-1");
    Agent::builder("reader", Pieces { info, make: Arc::new(make) }).build().unwrap()
}

fn word(number: usize) -> Piece {
    Ok(ModelEvent::Text(format!("{number} ")))
}

/// An answer without an end.
fn endless() -> Agent {
    agent(|number| Some(word(number)))
}

#[tokio::test(start_paused = true)]
async fn all_pieces_are_in_the_answer() {
    let agent = agent(|number| match number {
        0..100 => Some(word(number)),
        100 => Some(Ok(ModelEvent::Stop(StopReason::EndTurn))),
        _ => None,
    });
    let result = agent.run("go").await.unwrap();
    assert_eq!(result.output.split_whitespace().count(), 100);
}

#[tokio::test(start_paused = true)]
async fn a_model_that_panics_in_the_middle_is_an_error_of_the_run() {
    let agent = agent(|number| {
        assert!(number < 10, "enough");
        Some(word(number))
    });
    let error = agent.run("go").await.unwrap_err();
    assert!(matches!(&error, Error::Bug(text) if text.contains("enough")), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_answer_never_ends_can_be_cancelled() {
    let stop = CancellationToken::new();
    let run = endless().run("go").cancel_token(stop.clone()).outcome();
    let cancel = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        stop.cancel();
    };
    let (outcome, ()) = tokio::join!(run, cancel);
    let Ok(RunOutcome::Cancelled(summary)) = outcome else { panic!("{outcome:?}") };
    assert!(summary.text.starts_with("0 1 2 "), "what had come is kept: {}", summary.text);
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_answer_never_ends_ends_with_its_time() {
    let limits = Limits::default().wall(Duration::from_secs(2));
    let result = endless().run("go").limits(limits).await.unwrap();
    assert_eq!(result.stop, StopReason::Limit);
    assert!(result.output.starts_with("0 1 2 "), "{}", result.output);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_moves_to_another_task_while_it_reads_can_be_cancelled_there() {
    let stop = CancellationToken::new();
    let mut run = endless().run("go").cancel_token(stop.clone()).into_future();
    for _ in 0..5 {
        assert!(futures::poll!(&mut run).is_pending());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let moved = tokio::spawn(run);
    tokio::time::sleep(Duration::from_millis(100)).await;
    stop.cancel();
    let ended = tokio::time::timeout(Duration::from_secs(1), moved).await.unwrap();
    assert!(matches!(ended.unwrap(), Err(Error::Cancelled { .. })));
}
