use futures::StreamExt;
use provost_core::{StopReason, Usage};

use super::*;
use crate::{ModelResponse, ResponseAccumulator, complete};

async fn answer(turn: ScriptedTurn) -> ModelResponse {
    complete(&ScriptedModel::new().turn(turn), ChatRequest::default()).await.unwrap()
}

#[tokio::test]
async fn a_turn_says_what_it_used_unless_told_not_to() {
    for (turn, usage, known) in [
        (text("x"), Usage::default(), true),
        (text("x").usage(Usage::new(3, 4)), Usage::new(3, 4), true),
        (text("x").usage(Usage::new(3, 4)).without_usage(), Usage::default(), false),
    ] {
        let answer = answer(turn).await;
        assert_eq!((answer.usage, answer.usage_known), (usage, known));
    }
    assert!(ModelResponse::text("by hand").usage_known);
}

#[tokio::test]
async fn a_turn_that_breaks_off_says_nothing_of_its_usage() {
    for turn in [
        text("x").truncate(),
        text("x").then_fail(ModelError::new(ModelErrorClass::Transport, "y")),
    ] {
        let mut stream = ScriptedModel::new().turn(turn).stream(ChatRequest::default());
        let mut fold = ResponseAccumulator::default();
        while let Some(Ok(event)) = stream.next().await {
            fold.push(&event).unwrap();
        }
        let partial = fold.into_interrupted();
        assert_eq!((partial.stop, partial.usage_known), (StopReason::Cancelled, false));
    }
}
