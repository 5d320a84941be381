//! What tools need from the program around them: a database, a client, the current user.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// The name and identity of a type a tool needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DepType {
    id: TypeId,
    name: &'static str,
}

impl DepType {
    /// Of a type.
    pub fn of<T: Send + Sync + 'static>() -> Self {
        Self { id: TypeId::of::<T>(), name: std::any::type_name::<T>() }
    }

    /// The type's name, for messages.
    pub fn name(&self) -> &'static str {
        self.name
    }
}

/// Values by their type, shared by all tools of a run. Cheap to clone.
#[derive(Clone, Default)]
pub struct Deps(Arc<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>);

impl Deps {
    /// Adds a value, in place of one of the same type.
    #[must_use]
    pub fn with<T: Send + Sync + 'static>(self, value: T) -> Self {
        self.with_shared(Arc::new(value))
    }

    /// Adds a value that the program shares.
    #[must_use]
    pub fn with_shared<T: Send + Sync + 'static>(mut self, value: Arc<T>) -> Self {
        Arc::make_mut(&mut self.0).insert(TypeId::of::<T>(), value);
        self
    }

    /// The value of a type.
    pub fn get<T: Send + Sync + 'static>(&self) -> Option<Dep<T>> {
        let value = self.0.get(&TypeId::of::<T>())?;
        Arc::clone(value).downcast::<T>().ok().map(Dep)
    }

    /// True if there is a value of this type.
    pub fn has(&self, dep: &DepType) -> bool {
        self.0.contains_key(&dep.id)
    }
}

impl fmt::Debug for Deps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Deps({})", self.0.len())
    }
}

/// A value from the program. As an argument of a `#[tool]` function it is filled in and not part of the schema.
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
