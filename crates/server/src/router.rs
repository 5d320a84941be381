//! The route table: everything that is served, in one place.

mod api_router;
mod endpoint;

use axum::Router;

pub(crate) use self::api_router::ApiRouter;
use self::endpoint::op;
pub(crate) use self::endpoint::{Access, Endpoint, PathParameter, SchemaFn, schema_of};
use crate::app::App;
use crate::controllers::{
    agent, approval, audit, budget, class, delivery, event, explain, input, meta, run, schedule,
    session, stream, task, token, tool, usage, wait, webhook,
};
use crate::middleware;

/// What operations inside a namespace begin with.
const NAMESPACE: &str = "/v1/namespaces/{namespace}";
/// The summary of a tool's late answer.
const DELIVER: &str = "Hand in the answer of a tool that comes later; the header X-Tool-Callback-Token is that of the \
request";

/// Returns everything that is served, as a service.
pub fn router(app: App) -> Router {
    let routes = api().into_router(&app);
    middleware::around_all(&app, routes)
}

/// Returns every operation. The document lists them in this order.
pub(crate) fn api() -> ApiRouter {
    let nouns: [fn(ApiRouter) -> ApiRouter; 16] = [
        tasks,
        runs,
        agents,
        approvals,
        deliveries,
        sessions,
        limits,
        schedules,
        explanations,
        tokens,
        tools,
        server,
        streams,
        events,
        webhooks,
        health,
    ];
    nouns.into_iter().fold(tags(ApiRouter::default()), |api, noun| noun(api))
}

fn tags(api: ApiRouter) -> ApiRouter {
    api.tag("tasks", "Pieces of work: hand them in, look at them, end them")
        .tag("runs", "What answers for a task: watch it, say something to it, fork it")
        .tag("agents", "Who does the work")
        .tag("approvals", "Questions to people")
        .tag("grants", "Answers that reach further than one call")
        .tag("sessions", "Conversations")
        .tag("deliveries", "Answers on their way to where they belong")
        .tag("stream", "Everything that happens in a namespace")
        .tag("webhooks", "Addresses that are told what happens")
        .tag("schedules", "Work that is asked for by the clock")
        .tag("classes", "Runs that share a budget of concurrency")
        .tag("budgets", "Money that may be spent")
        .tag("tools", "Declared tools")
        .tag("audit", "Who did what")
        .tag("usage", "What was used")
        .tag("explain", "Why something waits or failed")
        .tag("tokens", "Who may call")
        .tag("server", "How the server is")
}

fn tasks(api: ApiRouter) -> ApiRouter {
    api.under(NAMESPACE)
        .post("/tasks", task::submit, op("submitTask", "Hand in a piece of work").large_body())
        .get("/tasks", task::list, op("listTasks", "Tasks, newest first"))
        .get("/tasks/{task}", task::get, op("getTask", "A task as it stands"))
        .post(
            "/tasks/{task}/cancel",
            task::cancel,
            op("cancelTask", "Cancel a task and everything below it"),
        )
        .post(
            "/tasks/{task}/archive",
            task::archive,
            op("archiveTask", "Put a task away that has ended or waits for a person"),
        )
        .post(
            "/tasks/{task}/retry",
            task::retry,
            op("retryTask", "Tell a new run once more what the last one was told"),
        )
        .get(
            "/tasks/{task}/runs",
            task::runs,
            op("listTaskRuns", "The runs of a task, newest first"),
        )
        .post(
            "/tasks/{task}/inputs",
            input::send_to_task,
            op("sayToTask", "Say something to a task").large_body(),
        )
        .get(
            "/tasks/{task}/inputs",
            input::list_of_task,
            op("listTaskInputs", "What was said to a task and nobody has read yet"),
        )
}

fn runs(api: ApiRouter) -> ApiRouter {
    api.under(NAMESPACE)
        .get("/runs", run::list, op("listRuns", "Runs, newest first"))
        .get("/runs/{run}", run::get, op("getRun", "A run as it stands"))
        .get("/runs/{run}/steps", run::steps, op("listSteps", "The steps of a run, in order"))
        .get(
            "/runs/{run}/snapshots",
            run::snapshots,
            op("listSnapshots", "The changes of a run's life, in order"),
        )
        .get(
            "/runs/{run}/attempts",
            run::attempts,
            op("listAttempts", "The tries of a run, in order"),
        )
        .get(
            "/runs/{run}/replay",
            run::replay,
            op("replayRun", "Fold a run again from what is stored and compare; nothing is changed"),
        )
        .get(
            "/runs/{run}/deliveries",
            run::deliveries,
            op("listRunDeliveries", "What became of sending a run's answer out"),
        )
        .post(
            "/runs/{run}/cancel",
            run::cancel,
            op("cancelRun", "Cancel a run and every run below it"),
        )
        .post(
            "/runs/{run}/resume",
            run::resume,
            op("resumeRun", "Let a run go on that waits for an operator"),
        )
        .post(
            "/runs/{run}/fork",
            run::fork,
            op("forkRun", "Make a new run that shares the first steps of this one").large_body(),
        )
        .post(
            "/runs/{run}/inputs",
            input::send_to_run,
            op("sayToRun", "Say something to a run; if it has ended, to its task").large_body(),
        )
        .get(
            "/runs/{run}/inputs",
            input::list_of_run,
            op("listRunInputs", "What was said to a run and it has not read yet"),
        )
        .delete(
            "/runs/{run}/inputs/{input}",
            input::withdraw,
            op("withdrawInput", "Take a message back that nobody has read yet"),
        )
        .get(
            "/runs/{run}/interaction",
            run::interaction,
            op("getInteraction", "What can be said to a run now"),
        )
}

fn agents(api: ApiRouter) -> ApiRouter {
    api.under(NAMESPACE)
        .post("/agents", agent::create, op("createAgent", "Make an agent"))
        .get("/agents", agent::list, op("listAgents", "Agents, by name"))
        .get(
            "/agents/{agent}",
            agent::get,
            op("getAgent", "An agent as it stands; its ETag is its revision"),
        )
        .patch(
            "/agents/{agent}",
            agent::update,
            op("updateAgent", "Change an agent; runs that were accepted before keep what they had"),
        )
        .delete(
            "/agents/{agent}",
            agent::delete,
            op("deleteAgent", "Remove an agent; its tasks stay"),
        )
        .get(
            "/agents/{agent}/default-config",
            agent::default_config,
            op("getDefaultConfig", "What a new agent of this name is configured with"),
        )
}

fn approvals(api: ApiRouter) -> ApiRouter {
    api.under(NAMESPACE)
        .get(
            "/approvals",
            approval::list,
            op("listApprovals", "Questions that wait for a person, newest first"),
        )
        .get("/approvals/{approval}", approval::get, op("getApproval", "A question as it stands"))
        .post(
            "/approvals/{approval}/answer",
            approval::answer,
            op("answerApproval", "Answer a question; the first answer counts"),
        )
        .get(
            "/grants",
            approval::list_grants,
            op("listGrants", "What was approved beyond single calls"),
        )
        .delete(
            "/grants",
            approval::revoke_grant,
            op("revokeGrant", "Take a grant back: the next such call asks again"),
        )
}

fn deliveries(api: ApiRouter) -> ApiRouter {
    api.under(NAMESPACE)
        .get(
            "/deliveries",
            delivery::list,
            op("listDeliveries", "Answers on their way out, newest first"),
        )
        .get(
            "/deliveries/{delivery}",
            delivery::get,
            op("getDelivery", "An answer on its way out, as it stands"),
        )
        .post(
            "/deliveries/{delivery}/retry",
            delivery::retry,
            op(
                "retryDelivery",
                "Send an answer again; if it had arrived after all, it arrives twice",
            ),
        )
        .post(
            "/deliveries/{delivery}/dismiss",
            delivery::dismiss,
            op("dismissDelivery", "Put an answer away that has not arrived"),
        )
}

fn sessions(api: ApiRouter) -> ApiRouter {
    api.under(NAMESPACE)
        .get("/sessions", session::list, op("listSessions", "Sessions by id, the last first"))
        .post(
            "/sessions",
            session::create,
            op("createSession", "Create a session, or find the one that has the key"),
        )
        .get("/sessions/{session}", session::get, op("getSession", "A session as it stands"))
        .get(
            "/sessions/{session}/messages",
            session::messages,
            op("listMessages", "What was said in a session, in order"),
        )
        .put(
            "/sessions/{session}/queue",
            session::set_queue,
            op(
                "setSessionQueue",
                "Set how messages wait in a session, as far as it differs from its agent",
            ),
        )
}

fn limits(api: ApiRouter) -> ApiRouter {
    api.under(NAMESPACE)
        .get("/classes", class::list, op("listClasses", "Scheduling classes, by key"))
        .put(
            "/classes/{class}/target",
            class::set_target,
            op("setClassTarget", "Set how many runs of a class may work at once; zero pauses it"),
        )
        .get("/budgets", budget::list, op("listBudgets", "Budgets, by scope"))
        .put(
            "/budgets",
            budget::set,
            op("setBudget", "Bound what may be spent; what was spent before stays counted"),
        )
        .delete("/budgets", budget::remove, op("removeBudget", "Take a bound away"))
}

fn schedules(api: ApiRouter) -> ApiRouter {
    api.under(NAMESPACE)
        .get("/schedules", schedule::list, op("listSchedules", "Schedules, by id"))
        .get("/schedules/{schedule}", schedule::get, op("getSchedule", "A schedule as it stands"))
        .put(
            "/schedules/{schedule}",
            schedule::put,
            op("putSchedule", "Make a schedule, or change one").large_body(),
        )
        .delete(
            "/schedules/{schedule}",
            schedule::delete,
            op("deleteSchedule", "Remove a schedule; tasks that it asked for go on"),
        )
        .post(
            "/schedules/{schedule}/pause",
            schedule::pause,
            op("pauseSchedule", "Pause a schedule, or let it go on"),
        )
}

fn explanations(api: ApiRouter) -> ApiRouter {
    api.under(NAMESPACE).get(
        "/explain/{id}",
        explain::explain,
        op(
            "explain",
            "Why a run, a task, a question, a session or a delivery stands where it stands",
        ),
    )
}

fn tokens(api: ApiRouter) -> ApiRouter {
    api.under("/v1")
        .post(
            "/tokens",
            token::create,
            op("createToken", "Make a token; its secret is shown this once"),
        )
        .get("/tokens", token::list, op("listTokens", "Tokens, oldest first"))
        .delete("/tokens/{token}", token::revoke, op("revokeToken", "Take a token back"))
}

fn tools(api: ApiRouter) -> ApiRouter {
    api.under(NAMESPACE)
        .get("/tools", tool::list, op("listTools", "Declared tools"))
        .get("/audit", audit::list, op("listAudit", "Who did what, newest first"))
        .get("/usage", usage::list, op("listUsage", "What was used, newest first"))
        .under("/v1")
        .get("/capabilities", tool::capabilities, op("getCapabilities", "What the server can do"))
        .post("/tool-callbacks/{request}", tool::callback, op("deliverToolAnswer", DELIVER))
}

fn server(api: ApiRouter) -> ApiRouter {
    api.under("/v1").get("/whoami", meta::whoami, op("whoami", "Whose token this is")).get(
        "/version",
        meta::version,
        op("getVersion", "What runs here"),
    )
}

fn streams(api: ApiRouter) -> ApiRouter {
    api.under(NAMESPACE)
        .get(
            "/runs/{run}/stream",
            stream::run,
            op("streamRun", "What happens in a run, until it ends").long_lived(),
        )
        .get(
            "/tasks/{task}/stream",
            stream::task,
            op("streamTask", "What happens in all runs of a task").long_lived(),
        )
        .get(
            "/sessions/{session}/stream",
            stream::session,
            op("streamSession", "What happens in all runs of a session").long_lived(),
        )
        .get(
            "/stream",
            stream::namespace,
            op("streamNamespace", "What happens in the whole namespace").long_lived(),
        )
        .get(
            "/runs/{run}/wait",
            wait::for_run,
            op("waitForRun", "Wait until a run has ended, for a while").long_lived(),
        )
        .get(
            "/tasks/{task}/wait",
            wait::for_task,
            op("waitForTask", "Wait until the run that answers for a task has ended, for a while")
                .long_lived(),
        )
}

fn events(api: ApiRouter) -> ApiRouter {
    api.under(NAMESPACE)
        .get(
            "/runs/{run}/events",
            event::run_events,
            op("listRunEvents", "The durable events of a run, oldest first"),
        )
        .get(
            "/tasks/{task}/events",
            event::task_events,
            op("getTaskEvents", "What is new about a task, for those who poll"),
        )
        .get(
            "/tasks/{task}/logs",
            event::task_logs,
            op("listTaskLogs", "What was said in a task, oldest first"),
        )
}

fn webhooks(api: ApiRouter) -> ApiRouter {
    api.under(NAMESPACE)
        .post(
            "/webhooks",
            webhook::create,
            op(
                "createWebhook",
                "Have an address told of what happens; its secret is shown this once",
            ),
        )
        .get("/webhooks", webhook::list, op("listWebhooks", "Webhooks, oldest first"))
        .get("/webhooks/{webhook}", webhook::get, op("getWebhook", "A webhook"))
        .delete(
            "/webhooks/{webhook}",
            webhook::delete,
            op("deleteWebhook", "Remove a webhook and what it was to be told"),
        )
        .get(
            "/webhooks/{webhook}/posts",
            webhook::list_posts,
            op("listWebhookPosts", "What a webhook was told, newest first"),
        )
        .post(
            "/webhooks/{webhook}/posts/{post}/resend",
            webhook::resend,
            op("resendWebhookPost", "Tell a webhook once more"),
        )
}

fn health(api: ApiRouter) -> ApiRouter {
    api.under("")
        .get("/healthz", meta::healthz, op("getHealth", "Whether the process is alive"))
        .get("/readyz", meta::readyz, op("getReadiness", "Whether work can be taken in"))
        .get("/metrics", meta::metrics, op("getMetrics", "Numbers for Prometheus").metrics())
        .get("/openapi.json", meta::openapi, op("getOpenApi", "This document"))
        .get("/docs", meta::docs, op("getDocs", "A page to read and try this"))
}

#[cfg(test)]
mod tests;
