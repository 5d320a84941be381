//! The server itself, as its callers see it.

use http::Method;
use provost_api::{Problem, Version, Who};

use crate::auth::Principal;
use crate::input::Cx;
use crate::operation::Operation;
use crate::output::Answer;

/// The version of the paths.
const API: &str = "v1";

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::new((Method::GET, "/v1/whoami"), "whoami", "Whose token this is", whoami)
            .known(),
        Operation::new((Method::GET, "/v1/version"), "getVersion", "What runs here", version)
            .known(),
    ]
}

async fn whoami(cx: Cx, (): ()) -> Result<Answer<Who>, Problem> {
    let Principal { token, name, scopes, namespaces } = cx.who.as_ref().clone();
    Ok(Answer(Who { token, name, scopes, namespaces }))
}

async fn version(_: Cx, (): ()) -> Result<Answer<Version>, Problem> {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    Ok(Answer(Version { version, api: API.to_owned() }))
}
