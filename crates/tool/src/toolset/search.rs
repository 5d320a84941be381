//! A set too large to show at once: the model searches it and is offered what it has found.
//!
//! What was found is in the run's notes, so it is still there after a suspension or a crash.

mod rank;

use std::sync::Arc;

use futures::FutureExt;
use parking_lot::Mutex;
use provost_core::ToolDefinition;
use provost_core::recovery::EffectClass;
use provost_core::text::first_bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::rank::Index;
use super::{RunContext, TOOLS_MAX, Toolset, ToolsetError, ToolsetFuture};
use crate::{
    FnTool, Permit, SpecError, State, Tool, ToolCx, ToolError, ToolFuture, ToolOutput, ToolSpec,
};

/// The search's name unless the set is told another.
const SEARCH_NAME: &str = "search_tools";
/// What the model is told about the search.
const SEARCH_DESCRIPTION: &str = "Finds tools by what they do. There are more tools than you are shown: search before you \
     conclude that something cannot be done. What is found can be called from your next answer on.";
/// Tools one search finds unless it asks for another number.
const LIMIT_DEFAULT: usize = 5;
/// Tools one search finds at most.
const LIMIT_MAX: usize = 20;
/// Bytes of a query.
const QUERY_BYTES_MAX: usize = 1024;
/// Bytes of a description in a result; the whole is in the tool's definition, which follows.
const DESCRIPTION_BYTES_MAX: usize = 300;
/// Found tools that are offered at once unless the set is told another number.
const FOUND_DEFAULT: usize = 50;

/// A set of which the model sees a search, and what it has found so far in this run.
///
/// It searches names, descriptions and argument names. What is found stays on offer for the rest of the run, the last
/// [`found_max`](Self::found_max) of them. Filters, prefixes and approvals belong inside: a filter around it would hide tools
/// that the search still names.
pub struct SearchableTools {
    inner: Arc<dyn Toolset>,
    search_name: String,
    pins: Vec<String>,
    found_max: usize,
    shared: Arc<Shared>,
}

/// What the searches of all runs share.
#[derive(Default)]
struct Shared {
    /// The words of the tools that were searched last.
    index: Mutex<Option<Arc<Index>>>,
    /// Held while a run's list of found tools changes: two searches of one turn must not lose each other's.
    noting: Mutex<()>,
}

impl SearchableTools {
    /// Puts a search before a set.
    pub fn new(inner: impl Toolset) -> Self {
        Self {
            inner: Arc::new(inner),
            search_name: SEARCH_NAME.to_owned(),
            pins: Vec::new(),
            found_max: FOUND_DEFAULT,
            shared: Arc::default(),
        }
    }

    /// Offers these tools always. A name that the set does not have now is passed over.
    #[must_use]
    pub fn pin<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.pins.extend(names.into_iter().map(Into::into));
        self
    }

    /// Calls the search something else than `search_tools`; an agent with two searchable sets needs it.
    pub fn search_name(mut self, name: impl Into<String>) -> Result<Self, ToolsetError> {
        self.search_name = name.into();
        match self.spec() {
            Ok(_) => Ok(self),
            Err(error) => Err(ToolsetError::Name { set: self.name().to_owned(), error }),
        }
    }

    /// Sets how many found tools are offered at once, 50 if nobody says. Of more, those found first go.
    #[must_use]
    pub fn found_max(mut self, tools: usize) -> Self {
        self.found_max = tools.clamp(1, TOOLS_MAX);
        self
    }

    fn spec(&self) -> Result<ToolSpec, SpecError> {
        let spec = ToolSpec::typed::<Search>(&self.search_name, SEARCH_DESCRIPTION)?;
        Ok(spec.effect(EffectClass::Pure))
    }

    fn check(&self, tools: &[Arc<dyn Tool>]) -> Result<(), ToolsetError> {
        let set = || self.name().to_owned();
        if tools.len() > TOOLS_MAX {
            return Err(ToolsetError::Full { set: set(), tools_max: TOOLS_MAX });
        }
        if tools.iter().any(|tool| tool.spec().name() == self.search_name) {
            return Err(ToolsetError::Duplicate { set: set(), tool: self.search_name.clone() });
        }
        Ok(())
    }

    /// The search, over the tools of this turn.
    fn search(&self, tools: &[Arc<dyn Tool>]) -> Result<Arc<dyn Tool>, SpecError> {
        let turn = Arc::new(Turn {
            defs: tools.iter().map(|tool| Arc::clone(tool.spec().def())).collect(),
            note: note_name(&self.search_name),
            found_max: self.found_max,
            shared: Arc::clone(&self.shared),
        });
        let body = move |permit, cx| call(Arc::clone(&turn), permit, cx);
        Ok(Arc::new(FnTool::new(self.spec()?, body)))
    }
}

impl Toolset for SearchableTools {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn tools<'a>(&'a self, cx: &'a RunContext) -> ToolsetFuture<'a> {
        async move {
            let tools = self.inner.tools(cx).await?;
            self.check(&tools)?;
            let mut offered = vec![self.search(&tools)?];
            let mut names = self.pins.clone();
            names.extend(found(&cx.state, &note_name(&self.search_name)));
            for (place, name) in names.iter().enumerate() {
                if !names[..place].contains(name) {
                    offered.extend(tools.iter().filter(|tool| tool.spec().name() == name).cloned());
                }
            }
            Ok(offered)
        }
        .boxed()
    }
}

/// The arguments of a search.
#[derive(Deserialize, JsonSchema)]
struct Search {
    /// What the tool should do, in a few words, or a tool's name
    query: String,
    /// How many tools to find: 5 unless given, at most 20
    #[serde(default)]
    limit: Option<usize>,
}

/// What a search gives.
#[derive(Serialize)]
struct Findings {
    tools: Vec<Finding>,
    note: String,
}

#[derive(Serialize)]
struct Finding {
    name: String,
    description: String,
}

/// What the search of one turn looks at.
struct Turn {
    defs: Vec<Arc<ToolDefinition>>,
    note: String,
    found_max: usize,
    shared: Arc<Shared>,
}

fn call(turn: Arc<Turn>, permit: Permit, cx: ToolCx) -> ToolFuture {
    async move {
        let Search { query, limit } = permit.parse()?;
        if query.len() > QUERY_BYTES_MAX {
            return Err(ToolError::Retry(format!(
                "the query is {} bytes long, use at most {QUERY_BYTES_MAX}: a few words are enough",
                query.len()
            )));
        }
        let limit = limit.unwrap_or(LIMIT_DEFAULT).clamp(1, LIMIT_MAX.min(turn.found_max));
        let state = cx.state().clone();
        // Reading the words of thousands of tools takes its time, once.
        tokio::task::spawn_blocking(move || turn.search(&state, &query, limit)).await?
    }
    .boxed()
}

impl Turn {
    fn search(&self, state: &State, query: &str, limit: usize) -> Result<ToolOutput, ToolError> {
        let index = self.index();
        let best: Vec<_> =
            index.search(query, limit).into_iter().map(|at| &self.defs[at]).collect();
        let names: Vec<&str> = best.iter().map(|def| def.name.as_str()).collect();
        self.note_found(state, &names)?;
        let note = match best.len() {
            0 => format!("none of the {} tools matches; try other words", self.defs.len()),
            _ => "you can call these from your next answer on".to_owned(),
        };
        let tools = best.into_iter().map(|def| finding(def)).collect();
        Ok(ToolOutput::json(&Findings { tools, note }))
    }

    /// The index of this turn's tools; the last one if they are still the same.
    fn index(&self) -> Arc<Index> {
        let mut last = self.shared.index.lock();
        match &*last {
            Some(index) if index.is_of(&self.defs) => Arc::clone(index),
            _ => Arc::clone(last.insert(Arc::new(Index::new(self.defs.clone())))),
        }
    }

    fn note_found(&self, state: &State, names: &[&str]) -> Result<(), ToolError> {
        let _noting = self.shared.noting.lock();
        let mut all = found(state, &self.note);
        for name in names {
            // Whatever was found before keeps its place, so that what the model is shown changes only at its end.
            if !all.iter().any(|known| known == name) {
                all.push((*name).to_owned());
            }
        }
        let mut excess = all.len().saturating_sub(self.found_max);
        // The oldest go, but not those of this very search.
        all.retain(|known| {
            let goes = excess > 0 && !names.contains(&known.as_str());
            excess -= usize::from(goes);
            !goes
        });
        if !names.is_empty() {
            state.set(self.note.clone(), all)?;
        }
        Ok(())
    }
}

fn finding(def: &ToolDefinition) -> Finding {
    let short = first_bytes(&def.description, DESCRIPTION_BYTES_MAX);
    let mark = if short.len() < def.description.len() { "…" } else { "" };
    let description = format!("{short}{mark}");
    Finding { name: def.name.clone(), description }
}

/// Under which name a run's notes have what it has found.
fn note_name(search_name: &str) -> String {
    format!("{search_name}.found")
}

fn found(state: &State, note: &str) -> Vec<String> {
    state.get(note).unwrap_or_default()
}
