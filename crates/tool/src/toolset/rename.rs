//! Sets whose tools have other names.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::FutureExt;
use parking_lot::Mutex;

use super::respec::Respecified;
use super::{RunContext, Toolset, ToolsetError, ToolsetFuture};
use crate::{Tool, ToolSpec};

/// Another set with a word before the name of each tool, so that two sets can use the same names.
pub struct PrefixedTools {
    inner: Arc<dyn Toolset>,
    prefix: String,
    made: Made,
}

impl PrefixedTools {
    /// Puts `prefix` as it is before each name; end it with `_` if that is wanted. A prefix no tool name can begin with is
    /// refused here. A name that becomes too long makes the set fail when it is asked, for a cut name could be another's.
    pub fn new(prefix: impl Into<String>, inner: impl Toolset) -> Result<Self, ToolsetError> {
        let prefix = prefix.into();
        check_name(inner.name(), &format!("{prefix}x"))?;
        Ok(Self { inner: Arc::new(inner), prefix, made: Made::default() })
    }
}

impl Toolset for PrefixedTools {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn tools<'a>(&'a self, cx: &'a RunContext) -> ToolsetFuture<'a> {
        async move {
            let tools = self.inner.tools(cx).await?;
            let named = |name: &str| Some(format!("{}{name}", self.prefix));
            Ok(self.made.rename(self.name(), tools, named)?)
        }
        .boxed()
    }
}

/// Another set of which some tools have other names.
pub struct RenamedTools {
    inner: Arc<dyn Toolset>,
    names: BTreeMap<String, String>,
    made: Made,
}

impl RenamedTools {
    /// Renames tools, from each first name to its second. Two that would get one name, and names no tool can have, are
    /// refused here. A tool that is not there, or a new name that another tool has, makes the set fail when it is asked.
    pub fn new<K: Into<String>, V: Into<String>>(
        inner: impl Toolset,
        names: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Self, ToolsetError> {
        let set = inner.name();
        let mut map = BTreeMap::new();
        for (from, to) in names {
            let (from, to) = (from.into(), to.into());
            check_name(set, &to)?;
            if map.values().any(|given| *given == to) || map.contains_key(&from) {
                return Err(ToolsetError::Duplicate { set: set.to_owned(), tool: to });
            }
            map.insert(from, to);
        }
        Ok(Self { inner: Arc::new(inner), names: map, made: Made::default() })
    }

    fn check(&self, tools: &[Arc<dyn Tool>]) -> Result<(), ToolsetError> {
        let has = |name: &str| tools.iter().any(|tool| tool.spec().name() == name);
        for (from, to) in &self.names {
            let set = self.name().to_owned();
            if !has(from) {
                return Err(ToolsetError::Unknown { set, tool: from.clone() });
            }
            // A name is free if its tool gets another one.
            if has(to) && !self.names.contains_key(to) {
                return Err(ToolsetError::Duplicate { set, tool: to.clone() });
            }
        }
        Ok(())
    }
}

impl Toolset for RenamedTools {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn tools<'a>(&'a self, cx: &'a RunContext) -> ToolsetFuture<'a> {
        async move {
            let tools = self.inner.tools(cx).await?;
            self.check(&tools)?;
            Ok(self.made.rename(self.name(), tools, |name| self.names.get(name).cloned())?)
        }
        .boxed()
    }
}

/// The tools that were renamed last, in order: a set that stays the same is not renamed again each turn.
#[derive(Default)]
struct Made(Mutex<Vec<Pair>>);

#[derive(Clone)]
struct Pair {
    from: Arc<dyn Tool>,
    to: Arc<dyn Tool>,
}

impl Made {
    fn rename(
        &self,
        set: &str,
        tools: Vec<Arc<dyn Tool>>,
        named: impl Fn(&str) -> Option<String>,
    ) -> Result<Vec<Arc<dyn Tool>>, ToolsetError> {
        let before = self.0.lock().clone();
        let mut pairs = Vec::with_capacity(tools.len());
        for (place, from) in tools.into_iter().enumerate() {
            if let Some(pair) = before.get(place).filter(|pair| Arc::ptr_eq(&pair.from, &from)) {
                pairs.push(pair.clone());
                continue;
            }
            let to = match named(from.spec().name()) {
                None => Arc::clone(&from),
                Some(name) => {
                    let spec = renamed(set, from.spec(), name)?;
                    Respecified::wrap(Arc::clone(&from), spec)
                }
            };
            pairs.push(Pair { from, to });
        }
        let tools = pairs.iter().map(|pair| Arc::clone(&pair.to)).collect();
        *self.0.lock() = pairs;
        Ok(tools)
    }
}

fn renamed(set: &str, spec: &ToolSpec, name: String) -> Result<ToolSpec, ToolsetError> {
    spec.renamed(name).map_err(|error| ToolsetError::Name { set: set.to_owned(), error })
}

fn check_name(set: &str, name: &str) -> Result<(), ToolsetError> {
    match ToolSpec::typed::<()>(name, "") {
        Ok(_) => Ok(()),
        Err(error) => Err(ToolsetError::Name { set: set.to_owned(), error }),
    }
}
