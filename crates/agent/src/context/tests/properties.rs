//! What holds for every strategy, every history and every budget.

use proptest::prelude::*;

use super::*;

fn results(count: usize, long: bool, pending: bool, turn: usize) -> Vec<Message> {
    let calls: Vec<_> = (0..count)
        .map(|number| ToolCall::new(format!("{turn}.{number}"), "look", &json!({"at": turn})))
        .collect();
    let answers = calls.iter().map(|call| {
        if pending {
            return ToolResult::placeholder(call);
        }
        let text = if long { "found ".repeat(200) } else { "ok".into() };
        ToolResult::text(call, text)
    });
    let answers = Message::results(answers.collect::<Vec<_>>());
    vec![Message::calls(calls), answers]
}

/// Histories as runs leave them: valid, and with a user message or a summary first.
fn histories() -> impl Strategy<Value = Vec<Arc<Message>>> {
    let step = (0..10u8, 1..4usize, any::<bool>(), 0..60usize);
    (any::<bool>(), prop::collection::vec(step, 0..25)).prop_map(|(summarized, steps)| {
        let mut messages = vec![if summarized {
            Message::summary("what was before")
        } else {
            Message::user("the first request")
        }];
        for (turn, (kind, count, flag, words)) in steps.into_iter().enumerate() {
            let said = format!("{turn} {}", "word ".repeat(words));
            messages.extend(match kind {
                0..3 => vec![Message::user(said)],
                3..5 => vec![Message::assistant(said)],
                5 => vec![Message::summary(said)],
                6 => results(count, flag, true, turn),
                _ => results(count, flag, false, turn),
            });
        }
        shared(messages)
    })
}

/// Returns all strategies with all sorts of settings.
fn strategies(number: usize) -> Vec<(&'static str, Arc<dyn ContextStrategy>)> {
    let model = || Arc::new(ScriptedModel::from_fn(|_, _| text("notes")));
    let broken = ScriptedModel::from_fn(|_, _| fail(ModelErrorClass::Overloaded, "busy"));
    let shorten = ClearToolResults::new().keep_groups(number);
    vec![
        ("truncate", Arc::new(Truncate::new())),
        ("min", Arc::new(Truncate::new().min_messages(number))),
        ("sliding", Arc::new(SlidingWindow::keep_last(number))),
        ("shorten", Arc::new(shorten)),
        ("summarize", Arc::new(Summarize::new(model()).keep_recent(number))),
        (
            "chain",
            Arc::new(StrategyChain::clear_tool_results().then_summarize(model()).then_truncate()),
        ),
        ("broken", Arc::new(StrategyChain::new().then_summarize(Arc::new(broken)).then_truncate())),
    ]
}

/// Returns the same message, or the same results in fewer words.
fn is_kin(before: &Message, after: &Message) -> bool {
    let ids = |message: &Message| -> Vec<_> {
        message.tool_results().map(|r| (r.call_id.clone(), r.is_error, r.pending)).collect()
    };
    before == after || (before.role == Role::Tool && ids(before) == ids(after))
}

fn check_fitted(before: &[Arc<Message>], fitted: &CompactionResult) -> Result<(), TestCaseError> {
    let after = &fitted.messages;
    prop_assert_eq!(repair(after.clone()), (after.clone(), 0), "needs no repair");
    prop_assert!(size(after) <= size(before), "not larger");
    let first = after.first().map(|message| message.role);
    prop_assert!(matches!(first, Some(Role::User | Role::Summary)), "{:?}", first);
    let newest = since_last_summary(before).iter().rev().find(|message| message.role == Role::User);
    if let Some(newest) = newest {
        prop_assert!(
            after.iter().any(|message| Arc::ptr_eq(message, newest)),
            "the newest user message stays"
        );
    }
    // Nothing is new but one summary at the front, and the rest is in its order.
    let is_new = |message: &Message| message.role == Role::Summary && message.text() == "notes";
    let rest = after.iter().skip(usize::from(is_new(&after[0])));
    let mut left = before.iter();
    for message in rest {
        prop_assert!(left.any(|old| is_kin(old, message)), "{:?}", message);
    }
    if let Some(update) = &fitted.session {
        let stored = change(before, update);
        prop_assert_eq!(repair(stored.clone()), (stored.clone(), 0));
        prop_assert_eq!(since_last_summary(&stored)[0].text(), "notes");
        for message in after {
            prop_assert!(stored.iter().any(|kept| is_kin(kept, message)));
        }
        for message in before {
            prop_assert!(
                stored.iter().any(|kept| Arc::ptr_eq(kept, message)),
                "nothing stored is lost"
            );
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn s239_every_compaction_keeps_the_history_valid(
        messages in histories(),
        percent in 0..120u64,
        number in 1..8usize,
    ) {
        let budget = size(&messages) * percent / 100;
        for (name, strategy) in strategies(number) {
            match fit(&*strategy, &messages, budget) {
                Ok(fitted) => {
                    check_fitted(&messages, &fitted)
                        .map_err(|error| TestCaseError::fail(format!("{name}: {error}")))?;
                    let done = size(&fitted.messages);
                    if matches!(name, "truncate" | "min" | "chain" | "broken") {
                        prop_assert!(done <= budget, "{}: {} of {}", name, done, budget);
                    }
                    if done <= budget {
                        let again = fit(&*strategy, &fitted.messages, budget).unwrap();
                        prop_assert_eq!(again, CompactionResult::messages(fitted.messages), "{}", name);
                    }
                }
                Err(ContextError::TooLarge { needed, budget: allowed }) => {
                    prop_assert!(needed > allowed && allowed == budget, "{}", name);
                    if name != "min" {
                        prop_assert!(needed <= least(&messages), "{}: {}", name, needed);
                    }
                }
                Err(error) => return Err(TestCaseError::fail(format!("{name}: {error}"))),
            }
        }
    }

    #[test]
    fn compaction_after_compaction_stays_valid(
        messages in histories(),
        percents in prop::collection::vec(20..100u64, 1..5),
        more in histories(),
    ) {
        let chain = &strategies(5)[5].1;
        let (mut sent, mut stored) = (messages.clone(), messages);
        for (percent, next) in percents.into_iter().zip(more.chunks(3)) {
            let Ok(fitted) = fit(&**chain, &sent, size(&sent) * percent / 100) else {
                return Ok(());
            };
            check_fitted(&sent, &fitted)?;
            if let Some(update) = &fitted.session {
                stored = change(&stored, update);
            }
            sent = fitted.messages;
            // A run goes on with whole turns only.
            let (next, _) = repair(next.to_vec());
            sent.extend(next.iter().cloned());
            stored.extend(next);
            prop_assert_eq!(repair(sent.clone()).1, 0);
            prop_assert_eq!(repair(stored.clone()).1, 0, "the stored session too");
            let mut left = stored.iter();
            for message in &sent {
                prop_assert!(left.any(|old| is_kin(old, message)), "not stored: {:?}", message);
            }
        }
    }
}

/// Returns the newest user message and the newest step: what no strategy leaves out.
fn least(messages: &[Arc<Message>]) -> u64 {
    let all = group::groups(messages, &sizes(messages));
    let newest = messages.iter().rposition(|message| message.role == Role::User);
    let summary = messages.iter().rposition(|message| message.role == Role::Summary);
    // Without a user message after it, the summary is what leads the conversation.
    let lead = summary.filter(|summary| newest.is_none_or(|user| user < *summary));
    all.iter()
        .enumerate()
        .filter(|(index, group)| {
            [newest, lead].contains(&Some(group.range.start)) || index + 1 == all.len()
        })
        .map(|(_, group)| group.tokens)
        .sum()
}
