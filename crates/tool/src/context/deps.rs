//! Dependencies that tools receive from the application, such as a database, a client or the current user.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// Type of a dependency that a tool needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DependencyType {
    id: TypeId,
    name: &'static str,
}

impl DependencyType {
    /// Returns the dependency type of `T`.
    pub fn of<T: Send + Sync + 'static>() -> Self {
        Self { id: TypeId::of::<T>(), name: std::any::type_name::<T>() }
    }

    /// Returns the name of the type, for messages.
    pub fn name(&self) -> &'static str {
        self.name
    }
}

/// Dependencies by type, shared by all tools of a run. Cheap to clone.
#[derive(Clone, Default)]
pub struct Deps(Arc<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>);

impl Deps {
    /// Adds a value. It replaces a value of the same type.
    #[must_use]
    pub fn with<T: Send + Sync + 'static>(self, value: T) -> Self {
        self.with_shared(Arc::new(value))
    }

    /// Adds a value that the application also holds.
    #[must_use]
    pub fn with_shared<T: Send + Sync + 'static>(mut self, value: Arc<T>) -> Self {
        Arc::make_mut(&mut self.0).insert(TypeId::of::<T>(), value);
        self
    }

    /// Returns the value of a type. `None` if there is none.
    pub fn get<T: Send + Sync + 'static>(&self) -> Option<Dep<T>> {
        let value = self.0.get(&TypeId::of::<T>())?;
        Arc::clone(value).downcast::<T>().ok().map(Dep)
    }

    /// Returns true if there is a value of this type.
    pub fn has(&self, dep: &DependencyType) -> bool {
        self.0.contains_key(&dep.id)
    }
}

impl fmt::Debug for Deps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Deps({})", self.0.len())
    }
}

/// A dependency of type `T`. An argument of this type in a `#[tool]` function is filled in by the run and is not part
/// of the schema.
#[derive(Debug)]
pub struct Dep<T>(Arc<T>);

impl<T> Clone for Dep<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Deref for Dep<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}
