//! Caller of an operation.

use std::marker::PhantomData;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use http::request::Parts;
use provost_api::Scope;
use provost_core::id::name::Namespace;

use super::DescribeArgument;
use crate::app::App;
use crate::auth::Principal;
use crate::error::{self, ApiError};
use crate::router::{Access, Endpoint};

/// The caller and the namespace of the request. The middleware of the route has checked the requirement `R` before.
pub(crate) struct Auth<R> {
    pub(crate) principal: Arc<Principal>,
    /// Namespace of the path. The default namespace if the path has none.
    pub(crate) namespace: Namespace,
    requirement: PhantomData<R>,
}

/// Result of the authorization. The middleware stores it for [`Auth`].
#[derive(Clone)]
pub(crate) struct Authorized {
    pub(crate) principal: Arc<Principal>,
    pub(crate) namespace: Namespace,
}

/// Access requirement of an operation, as a type.
pub(crate) trait Requirement: Send + Sync {
    const ACCESS: Access;
}

macro_rules! requirements {
    ($($name:ident: $access:expr, $doc:literal;)+) => {$(
        #[doc = $doc]
        pub(crate) struct $name;

        impl Requirement for $name {
            const ACCESS: Access = $access;
        }
    )+};
}

requirements! {
    Public: Access::Public, "Any caller.";
    Authenticated: Access::Authenticated, "A caller with any valid token.";
    Read: Access::Scope(Scope::Read), "A token with the scope `read`.";
    Write: Access::Scope(Scope::Write), "A token with the scope `write`.";
    Approve: Access::Scope(Scope::Approve), "A token with the scope `approve`.";
    Admin: Access::Scope(Scope::Admin), "A token with the scope `admin`.";
}

impl<R: Requirement> DescribeArgument for Auth<R> {
    fn describe(endpoint: &mut Endpoint) {
        endpoint.access = R::ACCESS;
    }
}

impl<R: Requirement> FromRequestParts<App> for Auth<R> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, ApiError> {
        let authorized = parts.extensions.get::<Authorized>();
        let missing = || error::internal(&"a route without authorization");
        let Authorized { principal, namespace } = authorized.cloned().ok_or_else(missing)?;
        Ok(Self { principal, namespace, requirement: PhantomData })
    }
}
