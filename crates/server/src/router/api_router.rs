//! An [`axum::Router`] with documentation: each route is added together with its operation.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::handler::Handler;
use axum::routing::{MethodFilter, MethodRouter, on};
use http::Method;

use super::endpoint::{Describe, Endpoint, Operation};
use crate::app::App;
use crate::middleware::{self, Route};

/// A group of operations in the OpenAPI document.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tag {
    pub(crate) name: &'static str,
    pub(crate) description: &'static str,
}

/// Routes and their operations.
#[derive(Default)]
pub(crate) struct ApiRouter {
    prefix: &'static str,
    tags: Vec<Tag>,
    endpoints: Vec<Arc<Endpoint>>,
    mounts: Vec<Mount>,
}

/// Creates a handler with the middleware of its route.
type Mount = Box<dyn FnOnce(Route) -> MethodRouter<App>>;

/// All routes of one path.
struct PathRoutes {
    path: String,
    methods: Vec<&'static str>,
    router: MethodRouter<App>,
}

impl ApiRouter {
    /// Adds a group. The document lists groups in the order in which they are added.
    pub(super) fn tag(mut self, name: &'static str, description: &'static str) -> Self {
        self.tags.push(Tag { name, description });
        self
    }

    /// Sets the prefix of the paths that are added next.
    pub(super) fn under(mut self, prefix: &'static str) -> Self {
        self.prefix = prefix;
        self
    }

    pub(super) fn get<T: 'static, H>(self, path: &str, handler: H, operation: Operation) -> Self
    where
        H: Handler<T, App> + Describe<T>,
    {
        self.route(Method::GET, path, handler, operation)
    }

    pub(super) fn post<T: 'static, H>(self, path: &str, handler: H, operation: Operation) -> Self
    where
        H: Handler<T, App> + Describe<T>,
    {
        self.route(Method::POST, path, handler, operation)
    }

    pub(super) fn put<T: 'static, H>(self, path: &str, handler: H, operation: Operation) -> Self
    where
        H: Handler<T, App> + Describe<T>,
    {
        self.route(Method::PUT, path, handler, operation)
    }

    pub(super) fn patch<T: 'static, H>(self, path: &str, handler: H, operation: Operation) -> Self
    where
        H: Handler<T, App> + Describe<T>,
    {
        self.route(Method::PATCH, path, handler, operation)
    }

    pub(super) fn delete<T: 'static, H>(self, path: &str, handler: H, operation: Operation) -> Self
    where
        H: Handler<T, App> + Describe<T>,
    {
        self.route(Method::DELETE, path, handler, operation)
    }

    fn route<T: 'static, H>(
        mut self,
        method: Method,
        path: &str,
        handler: H,
        operation: Operation,
    ) -> Self
    where
        H: Handler<T, App> + Describe<T>,
    {
        let mut endpoint = Endpoint::new(method, format!("{}{path}", self.prefix), operation);
        H::describe(&mut endpoint);
        let filter = filter(&endpoint.method);
        self.endpoints.push(Arc::new(endpoint));
        self.mounts
            .push(Box::new(move |route| middleware::wrap_handler(route, on(filter, handler))));
        self
    }

    /// Returns the operations in the order in which they were added.
    pub(crate) fn endpoints(&self) -> &[Arc<Endpoint>] {
        &self.endpoints
    }

    /// Returns the groups.
    pub(crate) fn tags(&self) -> &[Tag] {
        &self.tags
    }

    /// Builds the `axum` router of a server.
    pub(super) fn into_router(self, app: &App) -> Router {
        let mut paths: Vec<PathRoutes> = Vec::new();
        for (endpoint, mount) in self.endpoints.into_iter().zip(self.mounts) {
            let method = name(&endpoint.method);
            let path = endpoint.path.clone();
            let mounted = mount(Route { app: app.clone(), endpoint });
            match paths.iter_mut().find(|routes| routes.path == path) {
                Some(routes) => {
                    routes.methods.push(method);
                    routes.router = std::mem::take(&mut routes.router).merge(mounted);
                }
                None => paths.push(PathRoutes { path, methods: vec![method], router: mounted }),
            }
        }
        let router = paths.into_iter().fold(Router::new(), |router, path| {
            let allowed: Arc<str> = allowed(path.methods).into();
            let other = move |State(app): State<App>, method: Method| async move {
                middleware::other_method(&app, &method, &allowed)
            };
            router.route(&path.path, path.router.fallback(other))
        });
        router.fallback(middleware::no_such_path).with_state(app.clone())
    }
}

/// Returns the value of the header `Allow`: the methods of a path, `HEAD` and `OPTIONS`.
fn allowed(mut methods: Vec<&'static str>) -> String {
    if methods.contains(&"GET") {
        methods.push("HEAD");
    }
    methods.push("OPTIONS");
    methods.join(", ")
}

fn filter(method: &Method) -> MethodFilter {
    match *method {
        Method::POST => MethodFilter::POST,
        Method::PUT => MethodFilter::PUT,
        Method::PATCH => MethodFilter::PATCH,
        Method::DELETE => MethodFilter::DELETE,
        _ => MethodFilter::GET,
    }
}

fn name(method: &Method) -> &'static str {
    match *method {
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        _ => "GET",
    }
}
