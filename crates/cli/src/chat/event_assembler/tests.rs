use provost_api::DateTime;
use provost_core::durable::{AttemptStarted, RunEnded, ToolFinished, TurnStarted, UserMessage};
use provost_core::{Env, StopReason, ToolCall, Usage};
use serde_json::json;

use super::*;

struct Log {
    env: Env,
    run: RunId,
    seq: u64,
    epoch: u64,
}

impl Log {
    fn new() -> Self {
        let env = Env::simulated(1);
        Self { run: env.id(), env, seq: 0, epoch: 1 }
    }

    fn assembler(&self) -> EventAssembler {
        EventAssembler::new(self.run, "a")
    }

    fn event(&mut self, event: DurableEvent) -> RunEvent {
        self.seq += 1;
        RunEvent {
            run: self.run,
            seq: self.seq,
            epoch: self.epoch,
            attempt: self.epoch,
            agent: None,
            call_id: None,
            kind: event.kind().to_owned(),
            at: DateTime(self.env.now()),
            data: serde_json::from_str(&event.body().unwrap()).unwrap(),
            message: None,
            result: None,
        }
    }

    fn durable(&mut self, event: DurableEvent) -> StreamItem {
        let event = Box::new(self.event(event));
        StreamItem::Event { cursor: event.seq.to_string(), event }
    }

    fn finished(&mut self, turn: u32, message: Message) -> StreamItem {
        let (stop, usage) = (StopReason::EndTurn, Usage::default());
        let event = self.event(DurableEvent::TurnFinished(TurnFinished { turn, stop, usage }));
        let event = Box::new(RunEvent { message: Some(message), ..event });
        StreamItem::Event { cursor: event.seq.to_string(), event }
    }

    fn delta(&self, seq: u64, kind: EventKind) -> StreamItem {
        let (run_id, at) = (self.run, self.env.now());
        let event = Event { v: EVENT_VERSION, run_id, seq, at, agent: "a".into(), kind };
        let event = serde_json::to_value(event).unwrap();
        StreamItem::Delta(Box::new(Delta { run: self.run, epoch: self.epoch, event }))
    }

    fn text(&self, seq: u64, text: &str) -> StreamItem {
        self.delta(seq, EventKind::TextDelta { text: text.to_owned() })
    }
}

/// What is shown of some items: a word for each event, with texts.
fn shown(
    assembler: &mut EventAssembler,
    items: impl IntoIterator<Item = StreamItem>,
) -> Vec<String> {
    let mut shown = Vec::new();
    let first = assembler.next_seq;
    for item in items {
        for event in assembler.apply(item).unwrap() {
            assert_eq!(event.seq, first + shown.len() as u64, "no number is left out");
            shown.push(match event.kind {
                EventKind::TextDelta { text } => format!("text {text}"),
                EventKind::ToolCallReady { call } => format!("call {}", call.name),
                EventKind::ToolFinished { result, duration } => {
                    format!("result {} {}", result.to_text(), duration.as_millis())
                }
                kind => serde_json::to_value(kind).unwrap()["type"].as_str().unwrap().to_owned(),
            });
        }
    }
    shown
}

fn turn_started(turn: u32) -> DurableEvent {
    DurableEvent::TurnStarted(TurnStarted { turn })
}

#[test]
fn a_run_is_shown_the_same_with_deltas_and_without() {
    let call = ToolCall::new("c1", "clock", &json!({}));
    let parts = vec![ContentPart::text("Let me look."), ContentPart::ToolCall(call.clone())];
    let message = Message { parts, ..Message::assistant("") };
    let mut log = Log::new();
    let worker = log.env.id();
    let begun = AttemptStarted { attempt: 1, strategy: AttemptReason::Primary, worker };
    let begun = log.durable(DurableEvent::AttemptStarted(begun));
    let said = RunEvent {
        message: Some(Message::user("hi")),
        ..log.event(DurableEvent::UserMessage(UserMessage {}))
    };
    let said = StreamItem::Event { cursor: "2".to_owned(), event: Box::new(said) };
    let turn = log.durable(turn_started(1));
    let deltas = [
        // It may come before the log says that the turn begins.
        log.delta(2, EventKind::TurnStarted { turn: 1 }),
        log.text(3, "Let me "),
        log.text(4, "look."),
        log.delta(5, EventKind::ToolCallReady { call: call.clone().into() }),
    ];
    let finished = log.finished(1, message);
    let event = log.event(DurableEvent::ToolFinished(ToolFinished {
        step: 2,
        call_id: "c1".to_owned(),
        duration_ms: Some(7),
    }));
    let result = RunEvent { result: Some(ToolResult::text(&call, "noon")), ..event };
    let result = StreamItem::Event { cursor: "5".to_owned(), event: Box::new(result) };
    let before = [begun, said, turn];
    let after = [finished, result];

    let logged = before.iter().chain(&after).cloned();
    let logged = shown(&mut log.assembler(), logged);
    let live = before.iter().chain(&deltas).chain(&after).cloned();
    let live = shown(&mut log.assembler(), live);
    let around = ["run_started", "user_message", "turn_started"];
    let end = ["call clock", "turn_finished", "result noon 7"];
    assert_eq!(logged, [&around[..], &["text Let me look."], &end].concat());
    assert_eq!(live, [&around[..], &["text Let me ", "text look."], &end].concat());
}

#[test]
fn deltas_that_come_again_are_shown_once_and_missed_ones_come_from_the_log() {
    let mut log = Log::new();
    let mut assembler = log.assembler();
    let started = log.durable(turn_started(1));
    assert_eq!(shown(&mut assembler, [started]), ["turn_started"]);
    let first = [log.delta(1, EventKind::TurnStarted { turn: 1 }), log.text(2, "one ")];
    assert_eq!(shown(&mut assembler, first.clone()), ["text one "]);
    // After a lost connection.
    let again = first.into_iter().chain([log.text(3, "two ")]);
    assert_eq!(shown(&mut assembler, again), ["text two "]);
    assert!(shown(&mut assembler, [StreamItem::Lagged, log.text(9, "nine")]).is_empty());
    let finished = log.finished(1, Message::assistant("one two three nine"));
    assert_eq!(shown(&mut assembler, [finished]), ["text three nine", "turn_finished"]);
}

#[test]
fn a_turn_that_a_lost_worker_had_begun_is_shown_from_its_beginning() {
    let mut log = Log::new();
    let mut assembler = log.assembler();
    let lost = [log.durable(turn_started(1)), log.text(2, "It is ")];
    assert_eq!(shown(&mut assembler, lost), ["turn_started", "text It is "]);
    log.epoch = 2;
    let again = [log.durable(turn_started(1)), log.text(1, "It is 42.")];
    assert_eq!(shown(&mut assembler, again), ["turn_started", "text It is 42."]);
    // Of the lost attempt nothing more is shown.
    let late = Delta { epoch: 1, ..delta_of(log.text(3, "late")) };
    assert!(shown(&mut assembler, [StreamItem::Delta(Box::new(late))]).is_empty());
}

fn delta_of(item: StreamItem) -> Delta {
    match item {
        StreamItem::Delta(delta) => *delta,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_end_has_the_error_of_the_log_or_that_of_its_code() {
    let mut log = Log::new();
    for (error, kind, code) in [
        (None, ErrorKind::Invalid, "provider_bad_request"),
        (Some(("not_found", "model")), ErrorKind::NotFound, "model"),
    ] {
        let error = error.map(|(kind, code)| json!({"kind": kind, "code": code}));
        let ended = RunEnded {
            code: Some(OutcomeCode::ProviderBadRequest),
            detail: Some("no such model".to_owned()),
            result: None,
            status: RunStatus::Error,
            error: error.map(|error| serde_json::from_value(error).unwrap()),
        };
        let mut assembler = log.assembler();
        let event = assembler.apply(log.durable(DurableEvent::end(ended))).unwrap().remove(0);
        let EventKind::Failed { error } = event.kind else { panic!("{event:?}") };
        assert_eq!(*error, ErrorInfo::new(kind, code, "no such model"));
        assert!(assembler.has_ended());
    }
}
