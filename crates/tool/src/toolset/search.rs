//! A toolset that is too large to offer at once. The model searches it and is offered the tools it found.
//!
//! The found tools are part of the run's state, so they survive a suspension and a crash.

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
    FnTool, Permit, State, Tool, ToolContext, ToolError, ToolFuture, ToolOutput, ToolSpec,
    ToolSpecError,
};

/// Default name of the search tool.
const SEARCH_NAME: &str = "search_tools";
/// Description of the search tool for the model.
const SEARCH_DESCRIPTION: &str = "Finds tools by their purpose. There are more tools than the ones you see: search before you \
     conclude that a task is impossible. You can call the tools it finds from your next response on.";
/// Default number of tools that one search finds.
const LIMIT_DEFAULT: usize = 5;
/// Maximum number of tools that one search finds.
const LIMIT_MAX: usize = 20;
/// Maximum size of a query in bytes.
const QUERY_BYTES_MAX: usize = 1024;
/// Maximum size of a description in a search result. The full text is in the tool definition that is offered
/// afterwards.
const DESCRIPTION_BYTES_MAX: usize = 300;
/// Default number of found tools that are offered at once.
const FOUND_DEFAULT: usize = 50;

/// A toolset that offers a search tool, and the tools that the run has found with it.
///
/// The search covers names, descriptions and argument names. Found tools remain available for the rest of the run, up
/// to the last [`max_offered`](Self::max_offered). Apply filters, prefixes and approvals to the inner toolset: an outer
/// filter would hide tools that the search still returns.
pub struct SearchToolset {
    inner: Arc<dyn Toolset>,
    search_name: String,
    always_offered: Vec<String>,
    max_offered: usize,
    shared: Arc<SharedIndex>,
}

/// Search index that all runs share.
#[derive(Default)]
struct SharedIndex {
    /// Index of the tools that were searched last.
    index: Mutex<Option<Arc<Index>>>,
    /// Locked while the list of found tools of a run changes, so that concurrent searches of one turn do not lose
    /// updates.
    update: Mutex<()>,
}

impl SearchToolset {
    /// Creates a toolset that offers a search over the inner tools. At most 50 found tools are offered by default.
    pub fn new(inner: impl Toolset) -> Self {
        Self {
            inner: Arc::new(inner),
            search_name: SEARCH_NAME.to_owned(),
            always_offered: Vec::new(),
            max_offered: FOUND_DEFAULT,
            shared: Arc::default(),
        }
    }

    /// Always offers these tools. Names that the toolset does not contain are ignored.
    #[must_use]
    pub fn always_offer<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.always_offered.extend(names.into_iter().map(Into::into));
        self
    }

    /// Sets the name of the search tool, `search_tools` by default. Two search toolsets of one agent need different
    /// names.
    pub fn search_name(mut self, name: impl Into<String>) -> Result<Self, ToolsetError> {
        self.search_name = name.into();
        match self.spec() {
            Ok(_) => Ok(self),
            Err(error) => Err(ToolsetError::Name { set: self.name().to_owned(), error }),
        }
    }

    /// Sets the maximum number of found tools that are offered at once, 50 by default. If there are more, the oldest
    /// are removed.
    #[must_use]
    pub fn max_offered(mut self, tools: usize) -> Self {
        self.max_offered = tools.clamp(1, TOOLS_MAX);
        self
    }

    /// Returns the specification of the search tool.
    fn spec(&self) -> Result<ToolSpec, ToolSpecError> {
        let spec = ToolSpec::typed::<Search>(&self.search_name, SEARCH_DESCRIPTION)?;
        Ok(spec.effect(EffectClass::Pure))
    }

    /// Returns an error if there are too many tools, or one has the name of the search tool.
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

    /// Creates the search tool over the tools of this turn.
    fn create_search_tool(&self, tools: &[Arc<dyn Tool>]) -> Result<Arc<dyn Tool>, ToolSpecError> {
        let scope = Arc::new(SearchScope {
            defs: tools.iter().map(|tool| Arc::clone(tool.spec().def())).collect(),
            note: note_name(&self.search_name),
            max_offered: self.max_offered,
            shared: Arc::clone(&self.shared),
        });
        let body = move |permit, cx| run_search(Arc::clone(&scope), permit, cx);
        Ok(Arc::new(FnTool::new(self.spec()?, body)))
    }
}

impl Toolset for SearchToolset {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn tools<'a>(&'a self, cx: &'a RunContext) -> ToolsetFuture<'a> {
        async move {
            let tools = self.inner.tools(cx).await?;
            self.check(&tools)?;
            let mut offered = vec![self.create_search_tool(&tools)?];
            let mut names = self.always_offered.clone();
            names.extend(found_tools(&cx.state, &note_name(&self.search_name)));
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

/// Arguments of a search.
#[derive(Deserialize, JsonSchema)]
struct Search {
    /// What the tool should do in a few words, or the name of a tool
    query: String,
    /// Maximum number of tools to return: 5 by default, at most 20
    #[serde(default)]
    limit: Option<usize>,
}

/// Result of a search.
#[derive(Serialize)]
struct SearchResults {
    tools: Vec<FoundTool>,
    note: String,
}

#[derive(Serialize)]
struct FoundTool {
    name: String,
    description: String,
}

/// Tools that the search of one turn covers.
struct SearchScope {
    defs: Vec<Arc<ToolDefinition>>,
    note: String,
    max_offered: usize,
    shared: Arc<SharedIndex>,
}

/// Executes a search call.
fn run_search(scope: Arc<SearchScope>, permit: Permit, cx: ToolContext) -> ToolFuture {
    async move {
        let Search { query, limit } = permit.parse()?;
        if query.len() > QUERY_BYTES_MAX {
            return Err(ToolError::Retry(format!(
                "the query has {} bytes, the maximum is {QUERY_BYTES_MAX}: a few words are enough",
                query.len()
            )));
        }
        let limit = limit.unwrap_or(LIMIT_DEFAULT).clamp(1, LIMIT_MAX.min(scope.max_offered));
        let state = cx.state().clone();
        // Building the index of thousands of tools takes time, but happens once.
        tokio::task::spawn_blocking(move || scope.search(&state, &query, limit)).await?
    }
    .boxed()
}

impl SearchScope {
    /// Returns the best matches as output, and marks them as found in the state of the run.
    fn search(&self, state: &State, query: &str, limit: usize) -> Result<ToolOutput, ToolError> {
        let index = self.index();
        let best: Vec<_> =
            index.search(query, limit).into_iter().map(|index| &self.defs[index]).collect();
        let names: Vec<&str> = best.iter().map(|def| def.name.as_str()).collect();
        self.note_found(state, &names)?;
        let note = match best.len() {
            0 => format!("no match among {} tools; try other words", self.defs.len()),
            _ => "you can call these tools from your next response on".to_owned(),
        };
        let tools = best.into_iter().map(|def| describe_tool(def)).collect();
        Ok(ToolOutput::json(&SearchResults { tools, note }))
    }

    /// Returns the index of this turn's tools. The previous index is reused if the tools have not changed.
    fn index(&self) -> Arc<Index> {
        let mut last = self.shared.index.lock();
        match &*last {
            Some(index) if index.is_of(&self.defs) => Arc::clone(index),
            _ => Arc::clone(last.insert(Arc::new(Index::new(self.defs.clone())))),
        }
    }

    /// Adds names to the found tools in the state of the run. Removes the oldest found tools beyond the limit.
    fn note_found(&self, state: &State, names: &[&str]) -> Result<(), ToolError> {
        let _guard = self.shared.update.lock();
        let mut all = found_tools(state, &self.note);
        for name in names {
            // Tools that were found earlier keep their position, so that the offered list changes only at its end.
            if !all.iter().any(|known| known == name) {
                all.push((*name).to_owned());
            }
        }
        let mut excess = all.len().saturating_sub(self.max_offered);
        // The oldest tools are removed, except for the results of this search.
        all.retain(|known| {
            let is_removed = excess > 0 && !names.contains(&known.as_str());
            excess -= usize::from(is_removed);
            !is_removed
        });
        if !names.is_empty() {
            state.set(self.note.clone(), all)?;
        }
        Ok(())
    }
}

/// Returns the name and the cut description of a tool.
fn describe_tool(def: &ToolDefinition) -> FoundTool {
    let short = first_bytes(&def.description, DESCRIPTION_BYTES_MAX);
    let mark = if short.len() < def.description.len() { "…" } else { "" };
    let description = format!("{short}{mark}");
    FoundTool { name: def.name.clone(), description }
}

/// Returns the name of the state value that holds the found tools.
fn note_name(search_name: &str) -> String {
    format!("{search_name}.found")
}

/// Returns the names of the found tools in the state of the run.
fn found_tools(state: &State, note: &str) -> Vec<String> {
    state.get(note).unwrap_or_default()
}
