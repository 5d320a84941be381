//! Commands that come by themselves.

use std::time::Duration;

use provost_bus::{Topic, Wakeup};
use provost_core::Env;
use provost_core::command::TaskRequest;
use provost_engine::{
    Engine, EngineDeps, EngineOptions, MissedRunPolicy, OverlapPolicy, Schedule, ScheduleSpec,
    ScheduleState,
};
use provost_model as scripted;
use provost_model::ScriptedModel;
use provost_store::{Store, StoreOptions, params};
use provost_tool::GuardServices;

use crate::harness::{Harness, command, options, text};

/// 2024-03-09T12:00:00Z, the day before clocks in New York go forward.
const DAY: &str = "2024-03-09T12:00:00Z";

fn agents(
    _: &provost_engine::AgentRevision,
    _: &provost_engine::Lease,
) -> Result<provost_agent::Agent, provost_engine::EngineError> {
    let model = ScriptedModel::from_fn(|request, _| {
        let said = request.messages.last().unwrap().text();
        match said.as_str() {
            "slow" => scripted::text("slow").delay(Duration::from_secs(3600)),
            _ => scripted::text(format!("did {said}")),
        }
    });
    Ok(provost_agent::Agent::builder("default", model).build().unwrap())
}

/// A stage whose clock stands at a moment.
async fn at(moment: &str) -> Harness {
    let env = Env::simulated(1);
    let moment: jiff::Timestamp = moment.parse().unwrap();
    let ahead = moment.as_millisecond() - env.now().as_millis();
    env.advance(Duration::from_millis(u64::try_from(ahead).unwrap()));
    Harness::of(options(), env, agents).await
}

fn every_minute(id: &str) -> Schedule {
    Schedule {
        id: id.to_owned(),
        timing: ScheduleSpec::Cron("* * * * *".to_owned()),
        zone: "UTC".to_owned(),
        command: TaskRequest::text("tick"),
        catch_up: MissedRunPolicy::One,
        overlap: OverlapPolicy::Allow,
        jitter_ms: 0,
    }
}

async fn tasks(engine: &Engine) -> Vec<(String, String)> {
    let read = engine.store().read(|tx| {
        tx.fetch_all::<(String, String)>(
            "SELECT state, session_id FROM task ORDER BY id",
            params![],
        )
    });
    read.await.unwrap()
}

async fn ticks(engine: &Engine) -> Vec<String> {
    let read = engine.store().read(|tx| {
        let sql = "SELECT idem_key FROM idem WHERE idem_key LIKE 'schedule:%' ORDER BY idem_key";
        tx.fetch_all::<String>(sql, params![])
    });
    read.await.unwrap()
}

/// Waits until a schedule has moved on to a later time than now.
async fn settled(harness: &Harness, id: &str) -> ScheduleState {
    let looking = async {
        loop {
            let state = harness.engine.schedules().get(&harness.namespace, id).await.unwrap();
            if state.next_at.is_none_or(|next| next > harness.env.now()) {
                return state;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), looking).await.expect("it moves on")
}

#[tokio::test(flavor = "multi_thread")]
async fn each_committed_change_of_a_schedule_wakes_the_schedulers() {
    let harness = at(DAY).await;
    let (schedules, namespace) = (harness.engine.schedules(), &harness.namespace);
    let mut changes = harness.engine.store().bus().subscribe(Topic::Wakeup(Wakeup::Schedule));
    schedules.put(namespace, every_minute("tick")).await.unwrap();
    changes.recv().await.unwrap();
    for paused in [true, false] {
        schedules.set_paused(namespace, "tick", paused).await.unwrap();
        changes.recv().await.unwrap();
    }
    let invalid =
        Schedule { timing: ScheduleSpec::Cron("never".to_owned()), ..every_minute("tick") };
    schedules.put(namespace, invalid).await.unwrap_err();
    schedules.set_paused(namespace, "tick", false).await.unwrap();
    assert!(changes.try_recv().is_none(), "a rejected or empty change wakes nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_asks_at_its_times() {
    let harness = at(DAY).await;
    let put =
        harness.engine.schedules().put(&harness.namespace, every_minute("tick")).await.unwrap();
    assert_eq!(put.next_at.unwrap().since(harness.env.now()), Duration::from_secs(60));
    let next = harness.engine.schedules().next_times(&harness.namespace, "tick", 3).await.unwrap();
    assert_eq!(next[2].since(next[0]), Duration::from_secs(120));
    let _worker = harness.worker().await;
    for n in 1..=3 {
        harness.env.advance(Duration::from_secs(60));
        let state = settled(&harness, "tick").await;
        assert_eq!(ticks(&harness.engine).await.len(), n);
        let read = harness
            .engine
            .store()
            .read(move |tx| provost_store::table::work::task::get(tx, state.last_task.unwrap()));
        let task = read.await.unwrap().unwrap();
        let run = harness.wait(task.current_run_id.unwrap()).await;
        assert_eq!(
            (text(&run).as_str(), task.spawned_by.as_deref()),
            ("did tick", Some("schedule:tick"))
        );
    }
    harness.engine.schedules().set_paused(&harness.namespace, "tick", true).await.unwrap();
    harness.env.advance(Duration::from_secs(600));
    let resumed =
        harness.engine.schedules().set_paused(&harness.namespace, "tick", false).await.unwrap();
    assert!(
        resumed.next_at.unwrap() > harness.env.now(),
        "what came while it was paused is left out"
    );
    harness.engine.schedules().delete(&harness.namespace, "tick").await.unwrap();
    let gone = harness.engine.schedules().delete(&harness.namespace, "tick").await.unwrap_err();
    assert_eq!(gone.code(), "not_found");
    assert_eq!(ticks(&harness.engine).await.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn g53_two_schedulers_and_one_tick_make_one_task() {
    let harness = at(DAY).await;
    harness.engine.schedules().put(&harness.namespace, every_minute("tick")).await.unwrap();
    // A second process, as far as the database can tell: it has its own writer and its own readers.
    let opened =
        StoreOptions { env: harness.env.clone(), ..StoreOptions::for_test(harness.dir.path()) };
    let options = EngineOptions { poll: Duration::from_millis(1), ..options() };
    let twin = Engine::new(
        EngineDeps::new(
            Store::open(opened).unwrap(),
            agents,
            GuardServices::default(),
            harness.env.clone(),
        ),
        options,
    );
    let _workers = (harness.worker().await, twin.start().await.unwrap());
    for n in 1..=20 {
        harness.env.advance(Duration::from_secs(60));
        settled(&harness, "tick").await;
        assert_eq!(tasks(&twin).await.len(), n);
    }
    assert_eq!(ticks(&twin).await.len(), 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn g53_missed_ticks_follow_the_stated_rule() {
    for (rule, late, expected) in [
        (MissedRunPolicy::Skip, 30, 1),
        (MissedRunPolicy::Skip, 61, 0),
        (MissedRunPolicy::One, 3600, 1),
        (MissedRunPolicy::All { max: 2 }, 30, 2),
        (MissedRunPolicy::All { max: 9 }, 30, 3),
    ] {
        let harness = at(DAY).await;
        let timing = ScheduleSpec::EveryMs(3_600_000);
        let schedule = Schedule { timing, catch_up: rule, ..every_minute("s") };
        harness.engine.schedules().put(&harness.namespace, schedule).await.unwrap();
        // No scheduler runs for three ticks and a while.
        harness.env.advance(Duration::from_secs(3 * 3600 + late));
        let _worker = harness.worker().await;
        let state = settled(&harness, "s").await;
        let expected = if late == 3600 { 1 } else { expected };
        assert_eq!(tasks(&harness.engine).await.len(), expected, "{rule} {late}");
        assert_eq!(state.last_task.is_some(), expected > 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn g54_a_daily_job_fires_once_on_the_day_whose_hour_is_missing() {
    let harness = at(DAY).await;
    let schedule = Schedule {
        timing: ScheduleSpec::Cron("30 2 * * *".to_owned()),
        zone: "America/New_York".to_owned(),
        ..every_minute("nightly")
    };
    harness.engine.schedules().put(&harness.namespace, schedule).await.unwrap();
    let _worker = harness.worker().await;
    for _ in 0..48 {
        harness.env.advance(Duration::from_secs(3600));
        settled(&harness, "nightly").await;
    }
    let times = ticks(&harness.engine).await;
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
        (OverlapPolicy::Allow, vec!["running", "running"]),
        (OverlapPolicy::Skip, vec!["running"]),
        (OverlapPolicy::Queue, vec!["running", "queued"]),
        (OverlapPolicy::CancelPrevious, vec!["cancelled", "running"]),
    ] {
        let harness = at(DAY).await;
        let command = TaskRequest { timeout_ms: Some(0), ..TaskRequest::text("slow") };
        let schedule = Schedule { overlap, command, ..every_minute("s") };
        harness.engine.schedules().put(&harness.namespace, schedule).await.unwrap();
        let _worker = harness.worker().await;
        for _ in 0..2 {
            harness.env.advance(Duration::from_secs(60));
            settled(&harness, "s").await;
            let begun = async {
                while !tasks(&harness.engine).await.iter().any(|(state, _)| state == "running") {
                    tokio::task::yield_now().await;
                }
            };
            tokio::time::timeout(Duration::from_secs(20), begun).await.expect("one begins");
        }
        let reached = async {
            loop {
                let now: Vec<String> =
                    tasks(&harness.engine).await.into_iter().map(|(state, _)| state).collect();
                if now == states {
                    return;
                }
                tokio::task::yield_now().await;
            }
        };
        let reached = tokio::time::timeout(Duration::from_secs(10), reached).await;
        assert!(reached.is_ok(), "{overlap:?}: {:?}", tasks(&harness.engine).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_that_cannot_ask_says_why_and_goes_on() {
    let harness = at(DAY).await;
    let command = TaskRequest { agent: Some("nobody".to_owned()), ..TaskRequest::text("tick") };
    let schedule = Schedule { command, ..every_minute("s") };
    harness.engine.schedules().put(&harness.namespace, schedule.clone()).await.unwrap();
    let _worker = harness.worker().await;
    harness.env.advance(Duration::from_secs(60));
    let state = settled(&harness, "s").await;
    assert!(state.last_error.unwrap().contains("no agent `nobody`"));
    harness.engine.put_agent(&harness.namespace, "nobody", None, Default::default()).await.unwrap();
    harness.env.advance(Duration::from_secs(60));
    let state = settled(&harness, "s").await;
    assert_eq!((state.last_error, tasks(&harness.engine).await.len()), (None, 1));
    for wrong in [
        Schedule { id: "a b".to_owned(), ..schedule.clone() },
        Schedule { zone: "Mars".to_owned(), ..schedule.clone() },
        Schedule { timing: ScheduleSpec::Cron("nonsense".to_owned()), ..schedule.clone() },
        Schedule { catch_up: MissedRunPolicy::All { max: 0 }, ..schedule.clone() },
        Schedule { command: TaskRequest::default(), ..schedule.clone() },
        Schedule { jitter_ms: u64::MAX, ..schedule },
    ] {
        let error = harness.engine.schedules().put(&harness.namespace, wrong).await.unwrap_err();
        assert_eq!(error.code(), "invalid", "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_that_is_put_again_keeps_its_times() {
    let harness = at(DAY).await;
    let hourly = Schedule { timing: ScheduleSpec::EveryMs(3_600_000), ..every_minute("s") };
    let first = harness.engine.schedules().put(&harness.namespace, hourly.clone()).await.unwrap();
    harness.env.advance(Duration::from_secs(600));
    let said = Schedule { command: command("other", "tick"), ..hourly.clone() };
    let again = harness.engine.schedules().put(&harness.namespace, said).await.unwrap();
    assert_eq!(again.next_at, first.next_at, "only what it asks for has changed");
    let once = Schedule { timing: ScheduleSpec::At(harness.env.now()), ..hourly };
    harness.engine.schedules().put(&harness.namespace, once).await.unwrap();
    let _worker = harness.worker().await;
    let done = settled(&harness, "s").await;
    assert_eq!((done.next_at, done.last_task.is_some()), (None, true));
    let listed = harness.engine.schedules().list(&harness.namespace, "", 9).await.unwrap();
    assert_eq!(listed, [done]);
}
