//! Commands that come by themselves.

use std::time::Duration;

use provost_core::Env;
use provost_core::command::TaskRequest;
use provost_engine::{
    CatchUp, Engine, EngineDeps, EngineOptions, Overlap, Schedule, ScheduleState, Timing,
};
use provost_model as scripted;
use provost_model::ScriptedModel;
use provost_store::{Store, StoreOptions, params};

use crate::stage::{Stage, command, options, text};

/// 2024-03-09T12:00:00Z, the day before clocks in New York go forward.
const DAY: &str = "2024-03-09T12:00:00Z";

fn agents(
    _: &provost_engine::AgentProfile,
    _: &provost_engine::Lease,
) -> Result<provost_agent::Agent, provost_engine::EngineError> {
    let model = ScriptedModel::answering(|request, _| {
        let said = request.messages.last().unwrap().text();
        match said.as_str() {
            "slow" => scripted::text("slow").delay(Duration::from_secs(3600)),
            _ => scripted::text(format!("did {said}")),
        }
    });
    Ok(provost_agent::Agent::builder("default", model).build().unwrap())
}

/// A stage whose clock stands at a moment.
async fn at(moment: &str) -> Stage {
    let env = Env::simulated(1);
    let moment: jiff::Timestamp = moment.parse().unwrap();
    let ahead = moment.as_millisecond() - env.now().as_millis();
    env.advance(Duration::from_millis(u64::try_from(ahead).unwrap()));
    Stage::of(options(), env, agents).await
}

fn every_minute(id: &str) -> Schedule {
    Schedule {
        id: id.to_owned(),
        timing: Timing::Cron("* * * * *".to_owned()),
        zone: "UTC".to_owned(),
        command: TaskRequest::text("tick"),
        catch_up: CatchUp::One,
        overlap: Overlap::Allow,
        jitter_ms: 0,
    }
}

async fn tasks(engine: &Engine) -> Vec<(String, String)> {
    let read = engine.store().read(|tx| {
        tx.all::<(String, String)>("SELECT state, session_id FROM task ORDER BY id", params![])
    });
    read.await.unwrap()
}

async fn ticks(engine: &Engine) -> Vec<String> {
    let read = engine.store().read(|tx| {
        let sql = "SELECT idem_key FROM idem WHERE idem_key LIKE 'schedule:%' ORDER BY idem_key";
        tx.all::<String>(sql, params![])
    });
    read.await.unwrap()
}

/// Waits until a schedule has moved on to a later time than now.
async fn settled(stage: &Stage, id: &str) -> ScheduleState {
    let looking = async {
        loop {
            let state = stage.engine.schedules().get(&stage.namespace, id).await.unwrap();
            if state.next_at.is_none_or(|next| next > stage.env.now()) {
                return state;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), looking).await.expect("it moves on")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_asks_at_its_times() {
    let stage = at(DAY).await;
    let put = stage.engine.schedules().put(&stage.namespace, every_minute("tick")).await.unwrap();
    assert_eq!(put.next_at.unwrap().since(stage.env.now()), Duration::from_secs(60));
    let next = stage.engine.schedules().next_times(&stage.namespace, "tick", 3).await.unwrap();
    assert_eq!(next[2].since(next[0]), Duration::from_secs(120));
    let _worker = stage.worker().await;
    for n in 1..=3 {
        stage.env.advance(Duration::from_secs(60));
        let state = settled(&stage, "tick").await;
        assert_eq!(ticks(&stage.engine).await.len(), n);
        let read = stage
            .engine
            .store()
            .read(move |tx| provost_store::table::work::task::get(tx, state.last_task.unwrap()));
        let task = read.await.unwrap().unwrap();
        let run = stage.wait(task.current_run_id.unwrap()).await;
        assert_eq!(
            (text(&run).as_str(), task.spawned_by.as_deref()),
            ("did tick", Some("schedule:tick"))
        );
    }
    stage.engine.schedules().set_paused(&stage.namespace, "tick", true).await.unwrap();
    stage.env.advance(Duration::from_secs(600));
    let resumed =
        stage.engine.schedules().set_paused(&stage.namespace, "tick", false).await.unwrap();
    assert!(
        resumed.next_at.unwrap() > stage.env.now(),
        "what came while it was paused is left out"
    );
    stage.engine.schedules().delete(&stage.namespace, "tick").await.unwrap();
    let gone = stage.engine.schedules().delete(&stage.namespace, "tick").await.unwrap_err();
    assert_eq!(gone.code(), "not_found");
    assert_eq!(ticks(&stage.engine).await.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn g53_two_schedulers_and_one_tick_make_one_task() {
    let stage = at(DAY).await;
    stage.engine.schedules().put(&stage.namespace, every_minute("tick")).await.unwrap();
    // A second process, as far as the database can tell: it has its own writer and its own readers.
    let opened =
        StoreOptions { env: stage.env.clone(), ..StoreOptions::for_test(stage.dir.path()) };
    let options = EngineOptions { poll: Duration::from_millis(1), ..options() };
    let twin = Engine::new(
        EngineDeps::new(Store::open(opened).unwrap(), agents, stage.env.clone()),
        options,
    );
    let _workers = (stage.worker().await, twin.start().await.unwrap());
    for n in 1..=20 {
        stage.env.advance(Duration::from_secs(60));
        settled(&stage, "tick").await;
        assert_eq!(tasks(&twin).await.len(), n);
    }
    assert_eq!(ticks(&twin).await.len(), 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn g53_missed_ticks_follow_the_stated_rule() {
    for (rule, late, expected) in [
        (CatchUp::Skip, 30, 1),
        (CatchUp::Skip, 61, 0),
        (CatchUp::One, 3600, 1),
        (CatchUp::All { max: 2 }, 30, 2),
        (CatchUp::All { max: 9 }, 30, 3),
    ] {
        let stage = at(DAY).await;
        let timing = Timing::EveryMs(3_600_000);
        let schedule = Schedule { timing, catch_up: rule, ..every_minute("s") };
        stage.engine.schedules().put(&stage.namespace, schedule).await.unwrap();
        // No scheduler runs for three ticks and a while.
        stage.env.advance(Duration::from_secs(3 * 3600 + late));
        let _worker = stage.worker().await;
        let state = settled(&stage, "s").await;
        let expected = if late == 3600 { 1 } else { expected };
        assert_eq!(tasks(&stage.engine).await.len(), expected, "{rule} {late}");
        assert_eq!(state.last_task.is_some(), expected > 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn g54_a_daily_job_fires_once_on_the_day_whose_hour_is_missing() {
    let stage = at(DAY).await;
    let schedule = Schedule {
        timing: Timing::Cron("30 2 * * *".to_owned()),
        zone: "America/New_York".to_owned(),
        ..every_minute("nightly")
    };
    stage.engine.schedules().put(&stage.namespace, schedule).await.unwrap();
    let _worker = stage.worker().await;
    for _ in 0..48 {
        stage.env.advance(Duration::from_secs(3600));
        settled(&stage, "nightly").await;
    }
    let times = ticks(&stage.engine).await;
    let times: Vec<_> = times
        .iter()
        .map(|key| {
            let millis: i64 = key.rsplit(':').next().unwrap().parse().unwrap();
            jiff::Timestamp::from_millisecond(millis).unwrap().to_string()
        })
        .collect();
    assert_eq!(times, ["2024-03-10T07:00:00Z", "2024-03-11T06:30:00Z"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_happens_while_the_last_one_runs_is_stated() {
    for (overlap, states) in [
        (Overlap::Allow, vec!["running", "running"]),
        (Overlap::Skip, vec!["running"]),
        (Overlap::Queue, vec!["running", "queued"]),
        (Overlap::CancelPrevious, vec!["cancelled", "running"]),
    ] {
        let stage = at(DAY).await;
        let command = TaskRequest { timeout_ms: Some(0), ..TaskRequest::text("slow") };
        let schedule = Schedule { overlap, command, ..every_minute("s") };
        stage.engine.schedules().put(&stage.namespace, schedule).await.unwrap();
        let _worker = stage.worker().await;
        for _ in 0..2 {
            stage.env.advance(Duration::from_secs(60));
            settled(&stage, "s").await;
            let begun = async {
                while !tasks(&stage.engine).await.iter().any(|(state, _)| state == "running") {
                    tokio::task::yield_now().await;
                }
            };
            tokio::time::timeout(Duration::from_secs(20), begun).await.expect("one begins");
        }
        let reached = async {
            loop {
                let now: Vec<String> =
                    tasks(&stage.engine).await.into_iter().map(|(state, _)| state).collect();
                if now == states {
                    return;
                }
                tokio::task::yield_now().await;
            }
        };
        let reached = tokio::time::timeout(Duration::from_secs(10), reached).await;
        assert!(reached.is_ok(), "{overlap:?}: {:?}", tasks(&stage.engine).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_that_cannot_ask_says_why_and_goes_on() {
    let stage = at(DAY).await;
    let command = TaskRequest { agent: Some("nobody".to_owned()), ..TaskRequest::text("tick") };
    let schedule = Schedule { command, ..every_minute("s") };
    stage.engine.schedules().put(&stage.namespace, schedule.clone()).await.unwrap();
    let _worker = stage.worker().await;
    stage.env.advance(Duration::from_secs(60));
    let state = settled(&stage, "s").await;
    assert!(state.last_error.unwrap().contains("no agent `nobody`"));
    stage.engine.put_agent(&stage.namespace, "nobody", None, Default::default()).await.unwrap();
    stage.env.advance(Duration::from_secs(60));
    let state = settled(&stage, "s").await;
    assert_eq!((state.last_error, tasks(&stage.engine).await.len()), (None, 1));
    for wrong in [
        Schedule { id: "a b".to_owned(), ..schedule.clone() },
        Schedule { zone: "Mars".to_owned(), ..schedule.clone() },
        Schedule { timing: Timing::Cron("nonsense".to_owned()), ..schedule.clone() },
        Schedule { catch_up: CatchUp::All { max: 0 }, ..schedule.clone() },
        Schedule { command: TaskRequest::default(), ..schedule.clone() },
        Schedule { jitter_ms: u64::MAX, ..schedule },
    ] {
        let error = stage.engine.schedules().put(&stage.namespace, wrong).await.unwrap_err();
        assert_eq!(error.code(), "invalid", "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_that_is_put_again_keeps_its_times() {
    let stage = at(DAY).await;
    let hourly = Schedule { timing: Timing::EveryMs(3_600_000), ..every_minute("s") };
    let first = stage.engine.schedules().put(&stage.namespace, hourly.clone()).await.unwrap();
    stage.env.advance(Duration::from_secs(600));
    let said = Schedule { command: command("other", "tick"), ..hourly.clone() };
    let again = stage.engine.schedules().put(&stage.namespace, said).await.unwrap();
    assert_eq!(again.next_at, first.next_at, "only what it asks for has changed");
    let once = Schedule { timing: Timing::At(stage.env.now()), ..hourly };
    stage.engine.schedules().put(&stage.namespace, once).await.unwrap();
    let _worker = stage.worker().await;
    let done = settled(&stage, "s").await;
    assert_eq!((done.next_at, done.last_task.is_some()), (None, true));
    let listed = stage.engine.schedules().list(&stage.namespace, "", 9).await.unwrap();
    assert_eq!(listed, [done]);
}
