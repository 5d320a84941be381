//! Sets made of others, sets that change, sets that are searched: as a run sees them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use provost_agent::{Agent, ApprovalMode, RunOutcome, SuspendedRun};
use provost_core::ToolResult;
use provost_model::{ChatRequest, ScriptedModel, call, calls, text};
use provost_tool::{
    FnTool, MutableToolset, StaticToolset, Tool, ToolError, ToolsetExt, tool_fn, toolset_fn,
};
use serde_json::json;

use super::{guarded, offered, plain, set, warnings};
use crate::support::{Say, echo, events, final_text};

/// Whether a result is an error, and its text.
fn told(result: &ToolResult) -> (bool, String) {
    (result.is_error, result.to_text())
}

fn last_told(request: &ChatRequest) -> (bool, String) {
    told(request.last_tool_result().unwrap())
}

/// A tool that closes the vault again.
fn lock() -> FnTool {
    let lock = tool_fn("lock", "Closes the vault", |cx, _args: Say| async move {
        cx.state().set("open", false)?;
        Ok("closed")
    });
    lock.unwrap()
}

#[tokio::test]
async fn s155_what_a_call_hides_does_not_run_in_the_same_turn() {
    let model = ScriptedModel::new()
        .turn(calls([("vault", json!({})), ("lock", json!({})), ("vault", json!({}))]))
        .turn(text("done"));
    let agent = Agent::builder("tester", model.clone()).tool(lock()).toolset(guarded());
    let agent = agent.max_parallel_tools(1).build().unwrap();
    let result = agent.run("go").state("open", true).await.unwrap();
    assert_eq!(offered(&model.request(0)), ["lock", "unlock", "vault"]);
    let results: Vec<_> = result.tool_results.iter().map(told).collect();
    assert_eq!(results[0], (false, "vault ran".to_owned()));
    let gone = "tool `vault` is no longer available; it did not run";
    assert_eq!(results[2], (true, gone.to_owned()));
    assert_eq!(offered(&model.request(1)), ["lock", "unlock"]);
}

#[tokio::test]
async fn s157_two_sets_of_the_same_names_live_together_under_prefixes() {
    let model = ScriptedModel::new()
        .turn(calls([("here_find", json!({})), ("there_find", json!({}))]))
        .turn(text("done"));
    let here = set("here", [plain("find")]).prefix("here_").unwrap();
    let there = set("there", [plain("find")]).prefix("there_").unwrap();
    let agent = Agent::builder("tester", model.clone()).toolset(here.and(there));
    let result = agent.build().unwrap().run("go").await.unwrap();
    assert_eq!(offered(&model.request(0)), ["here_find", "there_find"]);
    let texts: Vec<_> = result.tool_results.iter().map(|result| result.to_text()).collect();
    assert_eq!(texts, ["here_find ran", "there_find ran"]);
}

/// A set whose names collide is left out as a whole and says so; the run goes on.
#[tokio::test]
async fn a_rename_that_collides_is_a_warning() {
    let model = ScriptedModel::new().turn(text("done"));
    let renamed = set("files", [plain("a"), plain("b")]).rename([("a", "b")]).unwrap();
    let agent = Agent::builder("tester", model.clone()).toolset(renamed).tool(plain("own"));
    let events = events(agent.build().unwrap().run("go").stream()).await;
    assert_eq!(final_text(&events), "done");
    assert_eq!(offered(&model.request(0)), ["own"]);
    assert!(warnings(&events)[0].contains("two tools named `b`"), "{events:?}");
}

/// An agent whose payments above 100 need approval, as a fresh process builds it.
fn cashier(model: &ScriptedModel, paid: &Arc<AtomicUsize>) -> Agent {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Pay {
        amount: u32,
    }
    let paid = Arc::clone(paid);
    let pay = tool_fn("pay", "Pays an amount", move |_cx, args: Pay| {
        paid.fetch_add(args.amount as usize, Ordering::SeqCst);
        async move { Ok::<_, ToolError>(format!("paid {}", args.amount)) }
    });
    let others = (0..200).map(|n| plain(&format!("other_{n}")));
    let tools = set("bank", others.chain([pay.unwrap()]))
        .require_approval_if(|_cx, spec, arguments| {
            spec.name() == "pay" && arguments["amount"].as_u64() > Some(100)
        })
        .searchable();
    let agent = Agent::builder("cashier", model.clone()).toolset(tools);
    agent.approvals(ApprovalMode::Suspend).build().unwrap()
}

#[tokio::test]
async fn what_was_found_is_still_offered_after_a_suspension() {
    let model = ScriptedModel::new()
        .turn(call("pay", json!({"amount": 1})))
        .turn(call("search_tools", json!({"query": "pay an amount"})))
        .turn(call("pay", json!({"amount": 5})))
        .turn(call("pay", json!({"amount": 500})))
        .turn(call("pay", json!({"amount": 7})))
        .turn(text("done"));
    let paid = Arc::new(AtomicUsize::new(0));
    let outcome = cashier(&model, &paid).run("go").outcome().await.unwrap();
    let RunOutcome::Suspended(suspended) = outcome else { panic!("{outcome:?}") };
    assert_eq!(offered(&model.request(0)), ["search_tools"]);
    let first = last_told(&model.request(1));
    assert!(first.0 && first.1.contains("no tool `pay`"), "not found yet: {first:?}");
    assert_eq!(offered(&model.request(2)), ["search_tools", "pay"]);
    assert_eq!(last_told(&model.request(3)), (false, "paid 5".to_owned()));
    assert_eq!(paid.load(Ordering::SeqCst), 5, "the large payment waits");
    let stored = SuspendedRun::from_bytes(&suspended.to_bytes().unwrap()).unwrap();
    let resumed = cashier(&model, &paid).resume(stored.approve_all()).await.unwrap();
    assert_eq!((resumed.output.as_str(), paid.load(Ordering::SeqCst)), ("done", 512));
    assert_eq!(offered(&model.request(4)), ["search_tools", "pay"]);
}

#[tokio::test]
async fn a_run_that_starts_anew_searches_anew() {
    let model = ScriptedModel::new()
        .turn(call("search_tools", json!({"query": "other_7"})))
        .turn(text("one"))
        .turn(text("two"));
    let agent = cashier(&model, &Arc::default());
    agent.run("one").await.unwrap();
    agent.run("two").await.unwrap();
    assert_eq!(offered(&model.request(1))[..2], ["search_tools", "other_7"]);
    assert_eq!(offered(&model.request(2)), ["search_tools"]);
}

#[tokio::test]
async fn a_tool_can_add_and_remove_tools_of_a_live_run() {
    let plugins = MutableToolset::new("plugins");
    let handle = plugins.clone();
    let install = tool_fn("install", "Installs a plugin", move |_cx, args: Say| {
        let added = handle.add(plain(&args.text));
        async move { added.map(|()| "installed").map_err(ToolError::from) }
    });
    let handle = plugins.clone();
    let uninstall = tool_fn("uninstall", "Removes a plugin", move |_cx, args: Say| {
        let removed = handle.remove(&args.text);
        async move { Ok::<_, ToolError>(removed) }
    });
    let model = ScriptedModel::new()
        .turn(call("install", json!({"text": "moon"})))
        .turn(calls([("install", json!({"text": "moon"})), ("moon", json!({}))]))
        .turn(calls([("uninstall", json!({"text": "moon"})), ("moon", json!({}))]))
        .turn(text("done"));
    let agent = Agent::builder("tester", model.clone()).tool(install.unwrap());
    let agent =
        agent.tool(uninstall.unwrap()).toolset(plugins).max_parallel_tools(1).build().unwrap();
    let result = agent.run("go").await.unwrap();
    assert_eq!(offered(&model.request(0)), ["install", "uninstall"]);
    assert_eq!(offered(&model.request(1)), ["install", "uninstall", "moon"]);
    assert_eq!(offered(&model.request(3)), ["install", "uninstall"]);
    let results: Vec<_> = result.tool_results.iter().map(told).collect();
    assert!(results[1].0 && results[1].1.contains("two tools named `moon`"), "{results:?}");
    assert_eq!(results[2], (false, "moon ran".to_owned()));
    assert!(results[4].0 && results[4].1.contains("no longer available"), "{results:?}");
}

#[tokio::test]
async fn a_function_of_the_turn_gives_the_tools() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let by_turn = toolset_fn("by_turn", move |cx| {
        let tool: Arc<dyn Tool> = Arc::new(echo(&counted));
        async move { Ok(if cx.turn == 1 { vec![tool] } else { Vec::new() }) }
    });
    let model = ScriptedModel::new().turn(call("echo", json!({}))).turn(text("done"));
    let agent = Agent::builder("tester", model.clone()).toolset(by_turn).build().unwrap();
    agent.run("go").await.unwrap();
    assert_eq!((offered(&model.request(0)), offered(&model.request(1)).len()), (vec!["echo"], 0));
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

/// Runs of one agent share the set and its index, not what they have found.
#[tokio::test]
async fn runs_at_the_same_time_do_not_see_each_others_findings() {
    let tools = Arc::new(
        StaticToolset::new("many", (0..50).map(|n| Arc::new(plain(&format!("t{n}x"))) as _))
            .searchable(),
    );
    let run = |wanted: &'static str| {
        let model = ScriptedModel::new()
            .turn(call("search_tools", json!({"query": wanted, "limit": 1})))
            .turn(text("done"));
        let agent = Agent::builder("tester", model.clone()).toolset(Arc::clone(&tools));
        let agent = agent.build().unwrap();
        async move {
            agent.run("go").await.unwrap();
            offered(&model.request(1)).join(" ")
        }
    };
    let (one, two) = tokio::join!(run("t3x"), run("t4x"));
    assert_eq!((one.as_str(), two.as_str()), ("search_tools t3x", "search_tools t4x"));
}
