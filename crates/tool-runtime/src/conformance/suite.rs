//! Plays the scenes through the guarded path.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use provost_core::contract::ToolErrorCode;
use provost_core::resource::{HumanDuration, IsolationMode};
use provost_tool::{Attempt, Credentials, NoCredentials, Ruling};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::call::{PATIENCE, Play, Played, TIMEOUT, TOKEN, fails, unseen, until, works};
use super::expect::{self, Expected, FINAL, code};
use super::{Check, Group, Outcome, Report, Scene, Seen, Stage};

/// How long a call that hangs may take.
const TIMEOUT_SHORT: Duration = Duration::from_millis(400);
/// How much later than its deadline an answer may come.
const GRACE: Duration = Duration::from_millis(100);
/// How often a machine may be too busy.
const TRIES: usize = 5;
/// Calls at the same time.
const PARALLEL: usize = 8;

/// Plays all scenes of a stage.
pub async fn conform(stage: &dyn Stage) -> Report {
    let mut report = Report { stage: stage.name().to_owned(), checks: Vec::new() };
    contract(stage, &mut report).await;
    timeout_and_cancel(stage, &mut report).await;
    retry(stage, &mut report).await;
    auth(stage, &mut report).await;
    policy(stage, &mut report).await;
    observability(stage, &mut report).await;
    determinism(stage, &mut report).await;
    report
}

impl Report {
    async fn check(
        &mut self,
        group: Group,
        name: &'static str,
        play: impl Future<Output = Played>,
    ) {
        let outcome = match tokio::time::timeout(3 * PATIENCE, play).await {
            Ok(Ok(Some(()))) => Outcome::Held,
            Ok(Ok(None)) => Outcome::NotPlayed,
            Ok(Err(why)) => Outcome::Broken(why),
            Err(_) => Outcome::Broken("it never ended".to_owned()),
        };
        self.checks.push(Check { group, name, outcome });
    }
}

async fn contract(stage: &dyn Stage, report: &mut Report) {
    let group = Group::Contract;
    report.check(group, "success", works(Play::of(stage, Scene::Echo))).await;
    let changed = |change: fn(&mut Play<'_>)| {
        Play::of(stage, Scene::Echo).map(|mut play| {
            change(&mut play);
            play
        })
    };
    let version = changed(|play| play.request.tool_contract_version = "v9".to_owned());
    let invalid = code(ToolErrorCode::InvalidInput);
    report.check(group, "unknown version", unseen(stage, fails(version, invalid))).await;
    let unsupported = changed(|play| play.request.tool.name = "nonsense".to_owned());
    let expected = code(ToolErrorCode::UnsupportedTool);
    report.check(group, "unknown tool", unseen(stage, fails(unsupported, expected))).await;
    let definition = changed(|play| {
        play.tool.endpoint = "nonsense://".to_owned();
        if let Some(named) = &mut play.tool.mcp {
            named.server = "nonsense".to_owned();
        }
    });
    let is_mcp = stage.runtime().kind() == provost_core::resource::ToolType::Mcp;
    let wrong =
        if is_mcp { ToolErrorCode::UnsupportedTool } else { ToolErrorCode::RuntimePolicyInvalid };
    report
        .check(group, "impossible definition", unseen(stage, fails(definition, code(wrong))))
        .await;
    let breach = Expected { code: stage.breach(), ..FINAL };
    for (name, scene, expected) in [
        ("a failure that stays", Scene::Broken, FINAL),
        ("garbage", Scene::Garbage, breach),
        ("another request's id", Scene::WrongId, breach),
        ("an endless answer", Scene::Endless, FINAL),
    ] {
        report.check(group, name, fails(Play::of(stage, scene), expected)).await;
    }
}

async fn timeout_and_cancel(stage: &dyn Stage, report: &mut Report) {
    let group = Group::TimeoutCancel;
    let ends = async || {
        let Some(mut play) = Play::of(stage, Scene::Hang) else { return Ok(None) };
        play.tool.runtime.timeout = HumanDuration(TIMEOUT_SHORT);
        let started = Instant::now();
        let response = play.call().await?;
        expect::failed(&response, code(ToolErrorCode::Timeout))?;
        Ok(Some(started.elapsed()))
    };
    report.check(group, "deadline + 100 ms", timely(ends, TIMEOUT_SHORT + GRACE)).await;
    let at_once = async || {
        let Some(play) = Play::of(stage, Scene::Hang) else { return Ok(None) };
        play.cancel.cancel();
        let started = Instant::now();
        let response = play.call().await?;
        expect::failed(&response, code(ToolErrorCode::Canceled))?;
        Ok(Some(started.elapsed()))
    };
    report.check(group, "stopped before it began", timely(at_once, GRACE)).await;
    let midway = async || {
        until(|| stage.busy().is_none_or(|busy| busy == 0)).await;
        let Some(play) = Play::of(stage, Scene::Hang) else { return Ok(None) };
        let cancel = play.cancel.clone();
        let arrived = async {
            match stage.busy() {
                Some(_) => until(|| stage.busy() != Some(0)).await,
                None => tokio::time::sleep(TIMEOUT_SHORT).await,
            }
            cancel.cancel();
            Instant::now()
        };
        let called = async { (play.call().await, Instant::now()) };
        let ((response, ended), stopped) = tokio::join!(called, arrived);
        expect::failed(&response?, code(ToolErrorCode::Canceled))?;
        Ok(Some(ended.saturating_duration_since(stopped)))
    };
    report.check(group, "stopped midway within 100 ms", timely(midway, GRACE)).await;
    let nothing = async {
        if stage.busy().is_none() || stage.tool(Scene::Hang).is_none() {
            return Ok(None);
        }
        until(|| stage.busy() == Some(0)).await;
        match stage.busy() {
            Some(0) => Ok(Some(())),
            busy => Err(format!("{busy:?} calls go on at the backend")),
        }
    };
    report.check(group, "nothing left behind", nothing).await;
}

/// Plays what must end within a time. A busy machine may make one late; that all are is no accident.
async fn timely(
    play: impl AsyncFn() -> Result<Option<Duration>, String>,
    limit: Duration,
) -> Played {
    let mut late = Vec::new();
    for _ in 0..TRIES {
        match play().await? {
            None => return Ok(None),
            Some(took) if took <= limit => return Ok(Some(())),
            Some(took) => late.push(took),
        }
    }
    Err(format!("{late:?} instead of {limit:?}"))
}

async fn retry(stage: &dyn Stage, report: &mut Report) {
    let group = Group::Retry;
    let tried =
        |scene: Scene, attempts: u32| Play::of(stage, scene).map(|play| play.retry(attempts));
    let mends = async {
        let before = stage.seen().map_or(0, |seen| seen.len());
        let played = works(tried(Scene::Flaky, 3)).await?;
        match stage.seen().filter(|_| played.is_some()) {
            Some(seen) => attempts(&seen[before..], &[1, 2, 3]).map(Some),
            None => Ok(played),
        }
    };
    report.check(group, "a failure that passes is tried again", mends).await;
    let passing = Expected { code: ToolErrorCode::ExecutionFailed, retryable: true };
    let bounded = fails(tried(Scene::Flaky, 2), passing);
    report.check(group, "no more often than declared", bounded).await;
    let stays = async {
        let before = stage.seen().map_or(0, |seen| seen.len());
        let played = fails(tried(Scene::Broken, 3), FINAL).await?;
        match stage.seen().filter(|_| played.is_some()) {
            Some(seen) => attempts(&seen[before..], &[1]).map(Some),
            None => Ok(played),
        }
    };
    report.check(group, "a failure that stays is not", stays).await;
}

fn attempts(seen: &[Seen], expected: &[u32]) -> Result<(), String> {
    let numbers: Vec<u32> = seen.iter().map(|seen| seen.attempt).collect();
    if numbers == expected {
        Ok(())
    } else {
        Err(format!("attempts {numbers:?}, not {expected:?}"))
    }
}

async fn auth(stage: &dyn Stage, report: &mut Report) {
    let group = Group::AuthSecret;
    if !stage.takes_credentials() {
        let play = Play::of(stage, Scene::Echo).map(Play::token);
        let refused = unseen(stage, fails(play, code(ToolErrorCode::RuntimePolicyInvalid)));
        return report.check(group, "a credential that cannot be sent is refused", refused).await;
    }
    let arrives = async {
        let Some(play) = Play::of(stage, Scene::Echo).map(Play::token) else { return Ok(None) };
        let response = play.call().await?;
        expect::succeeded(&response, "grüezi")?;
        let Some(seen) = stage.seen() else { return Ok(None) };
        let last = seen.last().cloned().unwrap_or_default();
        if last.authorization != format!("Bearer {TOKEN}") {
            return Err("the credential did not arrive".to_owned());
        }
        if last.body.contains(TOKEN) || format!("{response:?}").contains(TOKEN) {
            return Err("the credential is in an envelope".to_owned());
        }
        Ok(Some(()))
    };
    report.check(group, "a credential arrives, and in no envelope", arrives).await;
    let missing = Play::of(stage, Scene::Echo)
        .map(|play| Play { authenticator: Arc::new(NoCredentials), ..play.token() });
    let expected = code(ToolErrorCode::SecretResolutionFailed);
    report.check(group, "no secret, no call", unseen(stage, fails(missing, expected))).await;
    for (name, scene, expected) in [
        ("not valid", Scene::Unauthorised, ToolErrorCode::AuthInvalid),
        ("may not do this", Scene::Forbidden, ToolErrorCode::AuthForbidden),
    ] {
        let play = Play::of(stage, scene).map(Play::token);
        report.check(group, name, fails(play, code(expected))).await;
    }
}

async fn policy(stage: &dyn Stage, report: &mut Report) {
    let group = Group::PolicyHooks;
    let ruled = |ruling: Ruling| {
        Play::of(stage, Scene::Echo).map(|mut play| {
            play.guard.add_rule(move |_| ruling.clone());
            play
        })
    };
    let denied = fails(ruled(Ruling::Deny("no".to_owned())), code(ToolErrorCode::PermissionDenied));
    report.check(group, "what is denied does not run", unseen(stage, denied)).await;
    let asked = fails(ruled(Ruling::Ask), code(ToolErrorCode::ApprovalPending));
    report.check(group, "what must be approved does not run", unseen(stage, asked)).await;
    let schema = Play::of(stage, Scene::Echo).map(|mut play| {
        play.tool.input_schema = json!({ "type": "object", "required": ["never"] });
        play
    });
    let refused = fails(schema, code(ToolErrorCode::InvalidInput));
    report.check(group, "wrong arguments do not run", unseen(stage, refused)).await;
    let other = match stage.runtime().isolation() {
        IsolationMode::Container => IsolationMode::Process,
        _ => IsolationMode::Container,
    };
    let isolated = Play::of(stage, Scene::Echo).map(|mut play| {
        play.tool.runtime.isolation_mode = Some(other);
        play
    });
    let refused = fails(isolated, code(ToolErrorCode::IsolationUnavailable));
    let name = "another isolation than asked for does not run";
    report.check(Group::Isolation, name, unseen(stage, refused)).await;
}

async fn observability(stage: &dyn Stage, report: &mut Report) {
    let follows = async {
        let (Some(mut play), Some(_)) = (Play::of(stage, Scene::Echo), stage.seen()) else {
            return Ok(None);
        };
        play.request.attempt = 2;
        let request = play.request.clone().normalized().map_err(|fault| fault.to_string())?;
        let attempt = Attempt {
            arguments: Arc::new(stage.arguments(Scene::Echo, "grüezi")),
            tool: Arc::new(play.tool),
            request: Arc::new(request.clone()),
            effect_key: "conformance".to_owned(),
            conversation: None,
            credentials: Credentials::default(),
            deadline: Instant::now() + TIMEOUT,
            cancel: CancellationToken::new(),
            progress: Arc::new(|_| {}),
            redact: None,
        };
        stage.runtime().invoke(attempt).await.map_err(|fault| fault.to_string())?;
        let seen = stage.seen().and_then(|seen| seen.last().cloned()).unwrap_or_default();
        let is = (&seen.request_id, &seen.trace_id, seen.attempt);
        let should = (&request.request_id, &request.trace.trace_id, 2);
        if is == should { Ok(Some(())) } else { Err(format!("{is:?} instead of {should:?}")) }
    };
    report.check(Group::Observability, "request id, trace and attempt arrive", follows).await;
    let echoed = works(Play::of(stage, Scene::Echo));
    report.check(Group::Observability, "request id, trace and attempt come back", echoed).await;
}

async fn determinism(stage: &dyn Stage, report: &mut Report) {
    let group = Group::Determinism;
    let same = async {
        let mut results = Vec::new();
        for _ in 0..3 {
            let Some(play) = Play::of(stage, Scene::Echo) else { return Ok(None) };
            results.push(play.call().await?.output.result);
        }
        match results.iter().all(|result| *result == results[0]) {
            true => Ok(Some(())),
            false => Err(format!("{results:?}")),
        }
    };
    report.check(group, "the same call has the same result", same).await;
    let apart = async {
        let calls = (0..PARALLEL).map(|at| async move {
            let text = format!("text-{at}-");
            let Some(mut play) = Play::of(stage, Scene::Echo) else { return Ok(None) };
            play.request.request_id.push_str(&text);
            play.request.input_raw = stage.arguments(Scene::Echo, &text).to_string();
            expect::succeeded(&play.call().await?, &text).map(Some)
        });
        let played = futures::future::join_all(calls).await;
        played.into_iter().reduce(Result::and).unwrap_or(Ok(None))
    };
    report.check(group, "calls at the same time are kept apart", apart).await;
}
