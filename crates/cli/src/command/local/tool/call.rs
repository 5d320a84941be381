//! One call, by the way that calls of agents go.

use std::io::{self, BufRead, IsTerminal, Write};
use std::sync::Arc;
use std::time::Instant;

use provost_core::contract::{
    RequestTool, ToolContractError, ToolErrorCode, ToolRequest, ToolResponse,
};
use provost_core::policy::PolicyDecision;
use provost_core::recovery::EffectKey;
use provost_core::{Env, ErrorKind, RunId, ToolCall};
use provost_tool::{Confirm, Deps, Guard, Origin, State, Tool, ToolCx, ToolCxParts, Verdict};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::Bench;
use crate::interrupt::Interrupt;
use crate::problem::Problem;
use crate::render::output::{Output, printable};
use crate::render::show::Format;
use crate::stdin;

/// What a call takes.
#[derive(Debug, clap::Args)]
pub(crate) struct CallArgs {
    /// The tool
    name: String,
    /// The arguments as a JSON object; from standard input if nothing is said
    arguments: Option<String>,
    /// Say yes where a person must be asked
    #[arg(long, short)]
    yes: bool,
}

/// How a call went.
pub(super) struct Called {
    pub(super) came: Result<String, ToolContractError>,
    pub(super) response: ToolResponse,
}

impl Bench<'_> {
    /// Calls a tool and prints what it says.
    pub(super) async fn call(&self, args: &CallArgs) -> Result<u8, Problem> {
        let tool = self.find(&args.name)?;
        let text = match &args.arguments {
            Some(text) => text.clone(),
            None => stdin::read_piped()?.unwrap_or_else(|| "{}".to_owned()),
        };
        let arguments: Value = serde_json::from_str(text.trim()).map_err(|error| {
            Problem::invalid(format!("the arguments are no JSON: {error}"))
                .help("write them like '{\"q\": \"pears\"}'")
        })?;
        let called = self.perform(&tool, &arguments, args.yes).await?;
        match (self.show.format, &called.came) {
            (Format::Table, Ok(text)) => self.show.write(&format!("{}\n", printable(text)))?,
            (Format::Table, Err(fault)) => {
                let what = format!("{}: {}", fault.code, fault.message);
                return Err(Problem::new(fault.code.kind(), what));
            }
            _ => self.show.one(&called.response, &args.name)?,
        }
        Ok(called.came.map_or_else(|fault| fault.code.kind().exit_code(), |_| 0))
    }

    /// What the rules say about calling a tool; nothing where nobody governs.
    pub(super) fn decision(&self, tool: &dyn Tool) -> Result<Option<PolicyDecision>, Problem> {
        let Some(declared) = &self.tools.declared else { return Ok(None) };
        let governance = declared.governor.governance_of(&self.origin(None));
        let governance =
            governance.map_err(|error| Problem::new(ErrorKind::Unavailable, error.to_string()))?;
        Ok(Some(governance.decide(&tool.spec().tool_facts(), "invoke")))
    }

    fn origin(&self, run: Option<RunId>) -> Origin {
        Origin {
            namespace: self.namespace().to_owned(),
            agent: self.setting.agent.clone(),
            run,
            ..Origin::default()
        }
    }

    /// Makes one call, asking where the rules want that.
    pub(super) async fn perform(
        &self,
        tool: &Arc<dyn Tool>,
        arguments: &Value,
        yes: bool,
    ) -> Result<Called, Problem> {
        let env = Env::system();
        let run: RunId = env.id();
        let guard = Guard::default().with_oversight(self.tools.oversight());
        let guard = guard.for_run(self.origin(Some(run))).await;
        let name = tool.spec().name().to_owned();
        let call = ToolCall::new("call_1", &name, arguments);
        let began = Instant::now();
        let came = self.guarded(&guard, tool, run, &call, yes).await?;
        let request = ToolRequest {
            request_id: EffectKey::new(run, 0, 0).to_string(),
            tool: RequestTool { name, ..RequestTool::default() },
            ..ToolRequest::default()
        };
        let millis = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        Ok(Called { response: ToolResponse::of(&request, came.clone(), millis), came })
    }

    async fn guarded(
        &self,
        guard: &Guard,
        tool: &Arc<dyn Tool>,
        run: RunId,
        call: &ToolCall,
        yes: bool,
    ) -> Result<Result<String, ToolContractError>, Problem> {
        let mut verdict = guard.admit(tool, call, /*approved*/ false).await;
        if let Verdict::Ask(asked) = &verdict {
            let why =
                asked.why.clone().unwrap_or_else(|| "the tool wants a person's yes".to_owned());
            if !yes && !ask(&self.show.output, &call.name, &why)? {
                return Ok(Err(ToolContractError::new(
                    ToolErrorCode::ApprovalDenied,
                    "nobody said yes",
                )));
            }
            verdict = guard.admit(tool, call, /*approved*/ true).await;
        }
        let permit = match verdict {
            Verdict::Allow(permit) => permit,
            Verdict::Deny(fault) => return Ok(Err(fault)),
            Verdict::Invalid(problem) => {
                return Ok(Err(ToolContractError::new(ToolErrorCode::InvalidInput, problem)));
            }
            Verdict::Ask(_) => {
                let message = "more people must say yes than one command can ask";
                return Ok(Err(ToolContractError::new(ToolErrorCode::ApprovalPending, message)));
            }
        };
        let cancel = CancellationToken::new();
        let parts = ToolCxParts {
            run_id: run,
            agent: self.setting.agent.as_str().into(),
            depth: 0,
            depth_max: None,
            call_id: call.id.clone(),
            tool: call.name.clone(),
            effect_key: EffectKey::new(run, 0, 0),
            retries_left: 0,
            cancel: cancel.clone(),
            deps: Deps::default(),
            state: State::default(),
            outside: Arc::new(Person(self.show.output)),
        };
        let mut interrupt = Interrupt::listen().map_err(|error| Problem::io("signals", &error))?;
        let running = guard.run(permit, ToolCx::new(parts));
        tokio::pin!(running);
        let ran = tokio::select! {
            ran = &mut running => ran,
            _signal = interrupt.next() => {
                cancel.cancel();
                running.await
            }
        };
        Ok(match ran {
            Ok(output) if output.is_error => {
                Err(ToolContractError::final_failure(output.to_text()))
            }
            Ok(output) => Ok(output.to_text()),
            Err(error) => Err(error.fault()),
        })
    }
}

/// Asks the person at the terminal. Where there is none, nobody says yes.
fn ask(output: &Output, tool: &str, why: &str) -> Result<bool, Problem> {
    if !io::stdin().is_terminal() || !output.stderr_tty {
        return Ok(false);
    }
    let broken = |error: io::Error| Problem::io("the terminal", &error);
    let why = printable(why);
    write!(io::stderr(), "call `{}`? {why} [y/N] ", printable(tool)).map_err(broken)?;
    io::stderr().flush().map_err(broken)?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map_err(broken)?;
    Ok(matches!(line.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// Who is told how far a call is.
struct Person(Output);

impl Confirm for Person {
    fn progress(&self, _cx: &ToolCx, message: String) {
        self.0.dim(&message);
    }
}
