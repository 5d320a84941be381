//! Toolsets that rename the tools of another one.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::FutureExt;
use parking_lot::Mutex;

use super::respec::ToolWithSpec;
use super::{RunContext, Toolset, ToolsetError, ToolsetFuture};
use crate::{Tool, ToolSpec};

/// The tools of another toolset with a prefix before each name, so that two toolsets can use the same names.
pub struct PrefixedToolset {
    inner: Arc<dyn Toolset>,
    prefix: String,
    cache: RenameCache,
}

impl PrefixedToolset {
    /// Adds `prefix` before each name, without a separator. Returns an error if no valid tool name can begin with the
    /// prefix. If a prefixed name is too long, listing the toolset fails, because a cut name could belong to another
    /// tool.
    pub fn new(prefix: impl Into<String>, inner: impl Toolset) -> Result<Self, ToolsetError> {
        let prefix = prefix.into();
        check_name(inner.name(), &format!("{prefix}x"))?;
        Ok(Self { inner: Arc::new(inner), prefix, cache: RenameCache::default() })
    }
}

impl Toolset for PrefixedToolset {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn tools<'a>(&'a self, cx: &'a RunContext) -> ToolsetFuture<'a> {
        async move {
            let tools = self.inner.tools(cx).await?;
            let rename = |name: &str| Some(format!("{}{name}", self.prefix));
            Ok(self.cache.rename(self.name(), tools, rename)?)
        }
        .boxed()
    }
}

/// The tools of another toolset, some with other names.
pub struct RenamedToolset {
    inner: Arc<dyn Toolset>,
    names: BTreeMap<String, String>,
    cache: RenameCache,
}

impl RenamedToolset {
    /// Renames tools, from the first name of each pair to the second. Returns an error if a new name is invalid or used
    /// twice. If a tool is missing, or if another tool has the new name, listing the toolset fails.
    pub fn new<K: Into<String>, V: Into<String>>(
        inner: impl Toolset,
        names: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Self, ToolsetError> {
        let set = inner.name();
        let mut map = BTreeMap::new();
        for (from, to) in names {
            let (from, to) = (from.into(), to.into());
            check_name(set, &to)?;
            if map.values().any(|existing| *existing == to) || map.contains_key(&from) {
                return Err(ToolsetError::Duplicate { set: set.to_owned(), tool: to });
            }
            map.insert(from, to);
        }
        Ok(Self { inner: Arc::new(inner), names: map, cache: RenameCache::default() })
    }

    /// Returns an error if a tool to rename is missing, or if another tool has the new name.
    fn check(&self, tools: &[Arc<dyn Tool>]) -> Result<(), ToolsetError> {
        let has = |name: &str| tools.iter().any(|tool| tool.spec().name() == name);
        for (from, to) in &self.names {
            let set = self.name().to_owned();
            if !has(from) {
                return Err(ToolsetError::Unknown { set, tool: from.clone() });
            }
            // A name is free if its tool is renamed too.
            if has(to) && !self.names.contains_key(to) {
                return Err(ToolsetError::Duplicate { set, tool: to.clone() });
            }
        }
        Ok(())
    }
}

impl Toolset for RenamedToolset {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn tools<'a>(&'a self, cx: &'a RunContext) -> ToolsetFuture<'a> {
        async move {
            let tools = self.inner.tools(cx).await?;
            self.check(&tools)?;
            Ok(self.cache.rename(self.name(), tools, |name| self.names.get(name).cloned())?)
        }
        .boxed()
    }
}

/// Cache of renamed tools, in order, so that an unchanged toolset is not renamed again each turn.
#[derive(Default)]
struct RenameCache(Mutex<Vec<RenamedPair>>);

/// A tool and its renamed form.
#[derive(Clone)]
struct RenamedPair {
    from: Arc<dyn Tool>,
    to: Arc<dyn Tool>,
}

impl RenameCache {
    /// Renames the tools for which `new_name` returns a name. Reuses the renamed tools of the previous call.
    fn rename(
        &self,
        set: &str,
        tools: Vec<Arc<dyn Tool>>,
        new_name: impl Fn(&str) -> Option<String>,
    ) -> Result<Vec<Arc<dyn Tool>>, ToolsetError> {
        let previous = self.0.lock().clone();
        let mut pairs = Vec::with_capacity(tools.len());
        for (index, from) in tools.into_iter().enumerate() {
            if let Some(pair) = previous.get(index).filter(|pair| Arc::ptr_eq(&pair.from, &from)) {
                pairs.push(pair.clone());
                continue;
            }
            let to = match new_name(from.spec().name()) {
                None => Arc::clone(&from),
                Some(name) => {
                    let spec = rename_spec(set, from.spec(), name)?;
                    ToolWithSpec::wrap(Arc::clone(&from), spec)
                }
            };
            pairs.push(RenamedPair { from, to });
        }
        let tools = pairs.iter().map(|pair| Arc::clone(&pair.to)).collect();
        *self.0.lock() = pairs;
        Ok(tools)
    }
}

/// Returns the specification under another name.
fn rename_spec(set: &str, spec: &ToolSpec, name: String) -> Result<ToolSpec, ToolsetError> {
    spec.renamed(name).map_err(|error| ToolsetError::Name { set: set.to_owned(), error })
}

/// Returns an error if the name is not a valid tool name.
fn check_name(set: &str, name: &str) -> Result<(), ToolsetError> {
    match ToolSpec::typed::<()>(name, "") {
        Ok(_) => Ok(()),
        Err(error) => Err(ToolsetError::Name { set: set.to_owned(), error }),
    }
}
