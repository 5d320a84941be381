//! Whether tools can be called: definition, runtime, secret, address; and calls of which the outcome is known.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use provost_api::Page;
use provost_core::Timestamp;
use provost_core::contract::ToolErrorCode;
use provost_core::resource::ToolResource;
use provost_host::tool::ToolNetwork;
use provost_net::{Dialer, SystemLookup, Url};
use provost_tool::Tool;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Bench;
use crate::problem::Problem;
use crate::render::show::Shown;
use crate::render::table::{Cell, Column, rigid, text};

/// How long a connection may take.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of a file of fixtures.
const FIXTURE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// What to try.
#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    /// The tools, or one file of a WASM module; all that are declared if nothing is said
    pub(super) names: Vec<String>,
    /// A file of calls and what must come of them; for a module also a directory of such files
    #[arg(long, value_name = "PATH")]
    pub(super) fixtures: Option<PathBuf>,
    /// Try no connection
    #[arg(long)]
    offline: bool,
}

/// A call and what must come of it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fixture {
    /// The tool; that of a module needs no name.
    #[serde(default)]
    tool: String,
    #[serde(default = "no_arguments")]
    args: Value,
    #[serde(default)]
    expect: Expect,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Expect {
    /// The code of the fault; without one it must work.
    code: Option<ToolErrorCode>,
    /// What must be in the answer.
    contains: Option<String>,
}

fn no_arguments() -> Value {
    json!({})
}

/// What came of one try.
#[derive(Serialize)]
pub(super) struct Tried {
    pub(super) tool: String,
    pub(super) check: String,
    pub(super) ok: bool,
    pub(super) found: String,
}

impl Shown for Tried {
    const COLUMNS: &'static [Column] =
        &[rigid("TOOL"), rigid("CHECK"), rigid("RESULT"), text("FOUND")];

    fn cells(&self, _: Timestamp) -> Vec<Cell> {
        let state = if self.ok { "ok" } else { "failed" };
        vec![
            Cell::from(&self.tool),
            Cell::from(&self.check),
            Cell::state(state),
            Cell::from(&self.found),
        ]
    }

    fn name(&self) -> String {
        self.tool.clone()
    }
}

impl Bench<'_> {
    /// Tries every tool, and says what stands in the way.
    pub(super) async fn test(&self, args: &CheckArgs) -> Result<u8, Problem> {
        let mut items = Vec::new();
        let wanted = |name: &str| {
            args.names.is_empty() || args.names.iter().any(|other| other.eq_ignore_ascii_case(name))
        };
        for name in &args.names {
            self.find(name)?;
        }
        if let Some(declared) = &self.tools.declared {
            for rule in declared.workshop().declared().loose_rules() {
                self.show.output.dim(&rule);
            }
            for tool in declared.workshop().tools(self.namespace()) {
                if wanted(&tool.resource().name) {
                    self.try_tool(&tool, args.offline, &mut items).await;
                }
            }
            if args.names.is_empty() && !args.offline {
                self.try_servers(&mut items).await;
            }
        }
        if let Some(path) = &args.fixtures {
            for fixture in fixtures(path)? {
                if wanted(&fixture.tool) {
                    items.push(self.play(&fixture).await?);
                }
            }
        }
        self.tell(items)
    }

    /// Shows what was tried; the code says whether all of it went well.
    pub(super) fn tell(&self, items: Vec<Tried>) -> Result<u8, Problem> {
        let failed = items.iter().filter(|tried| !tried.ok).count();
        self.show.list(&Page { items, next: None })?;
        Ok(u8::from(failed > 0))
    }

    async fn try_tool(
        &self,
        tool: &provost_tool::GovernedTool,
        offline: bool,
        items: &mut Vec<Tried>,
    ) {
        let resource = tool.resource();
        let mut tell = |check: &str, outcome: Result<String, String>| {
            let (ok, found) = match outcome {
                Ok(found) => (true, found),
                Err(found) => (false, found),
            };
            items.push(Tried { tool: resource.name.clone(), check: check.to_owned(), ok, found });
        };
        let runtime =
            tool.verify().map(|()| format!("{}, {}", resource.kind, resource.isolation()));
        tell("runtime", runtime.map_err(|fault| fault.message));
        if let (Some(auth), Some(declared)) = (&resource.auth, &self.tools.declared) {
            let got = declared.workshop().authenticator().credentials(self.namespace(), auth).await;
            let found = got.map(|_| format!("{} by {}", auth.secret_ref, auth.profile));
            tell("secret", found.map_err(|fault| fault.message));
        }
        if !offline && let Ok(url) = Url::parse(&resource.endpoint) {
            tell("address", self.try_address(resource, &url).await);
        }
    }

    /// Connects and says nothing.
    async fn try_address(&self, resource: &ToolResource, url: &Url) -> Result<String, String> {
        let network = ToolNetwork::from(self.setting.tool_network);
        let policy = network.for_tool(resource.allow_private);
        policy.check_url(url).map_err(|error| error.to_string())?;
        let host = url.host_str().unwrap_or_default();
        let port = url.port_or_known_default().unwrap_or_default();
        let dialer = Dialer::new(policy, Arc::new(SystemLookup));
        let dialled = dialer.connect(host, port, Instant::now() + CONNECT_PATIENCE).await;
        dialled.map(|_| format!("{host} answers")).map_err(|error| error.to_string())
    }

    async fn try_servers(&self, items: &mut Vec<Tried>) {
        let Some(declared) = &self.tools.declared else { return };
        for server in declared.workshop().declared().servers(self.namespace()) {
            let Some(tools) = declared.workshop().server(self.namespace(), &server.name) else {
                continue;
            };
            let (ok, found) = match tools.connect().await {
                Ok(count) => (true, format!("{count} tools")),
                Err(error) => (false, error.to_string()),
            };
            items.push(Tried { tool: server.name.clone(), check: "server".to_owned(), ok, found });
        }
    }

    async fn play(&self, fixture: &Fixture) -> Result<Tried, Problem> {
        let tool = self.find(&fixture.tool)?;
        self.play_with(&tool, fixture).await
    }

    /// Makes the call of a fixture and compares.
    pub(super) async fn play_with(
        &self,
        tool: &Arc<dyn Tool>,
        fixture: &Fixture,
    ) -> Result<Tried, Problem> {
        let called = self.perform(tool, &fixture.args, /*yes*/ true).await?;
        let (code, text) = match &called.came {
            Ok(text) => (None, text.as_str()),
            Err(fault) => (Some(fault.code), fault.message.as_str()),
        };
        let as_wanted = code == fixture.expect.code
            && fixture.expect.contains.as_ref().is_none_or(|part| text.contains(part.as_str()));
        let found = match code {
            None => text.to_owned(),
            Some(code) => format!("{code}: {text}"),
        };
        let name = tool.spec().name().to_owned();
        Ok(Tried { tool: name, check: "call".to_owned(), ok: as_wanted, found })
    }
}

pub(super) fn fixtures(path: &Path) -> Result<Vec<Fixture>, Problem> {
    let shown = path.display();
    let failed = |error: std::io::Error| Problem::io(format!("the fixtures {shown}"), &error);
    let size = std::fs::metadata(path).map_err(failed)?.len();
    if size > FIXTURE_BYTES_MAX {
        let what = format!("{shown} has {size} bytes, {FIXTURE_BYTES_MAX} are read");
        return Err(Problem::invalid(what).help("split it"));
    }
    let text = std::fs::read_to_string(path).map_err(failed)?;
    serde_yaml_ng::from_str(&text).map_err(|error| {
        Problem::invalid(format!("{shown}: {error}"))
            .help("write a list of `tool`, `args` and `expect`; `provost tool test --help` has one")
    })
}
