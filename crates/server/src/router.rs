//! The route table: all operations of the API.

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

/// Path prefix of the operations within a namespace.
const NAMESPACE: &str = "/v1/namespaces/{namespace}";
/// Summary of `completeToolCall`.
const COMPLETE_TOOL_CALL: &str = "Submit the result of an asynchronous tool call. The header X-Tool-Callback-Token must \
contain the callback token of the request";

/// Returns the HTTP service of a server.
pub fn router(app: App) -> Router {
    let routes = api().into_router(&app);
    middleware::wrap_router(&app, routes)
}

/// Returns all operations. The OpenAPI document lists them in this order.
pub(crate) fn api() -> ApiRouter {
    let groups: [fn(ApiRouter) -> ApiRouter; 16] = [
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
    groups.into_iter().fold(tags(ApiRouter::default()), |api, add_group| add_group(api))
}

fn tags(api: ApiRouter) -> ApiRouter {
    api.tag("tasks", "Durable requests to agents")
        .tag("runs", "Executions of an agent for a task: stream, steer, fork and replay them")
        .tag("agents", "Definitions of agents")
        .tag("approvals", "Requests to a person to decide about a tool call")
        .tag("standing approvals", "Approvals that also cover later calls")
        .tag("sessions", "Conversations that outlive a run")
        .tag("deliveries", "Messages to channels: inspect, retry and dismiss them")
        .tag("event streams", "Events of a whole namespace")
        .tag("webhooks", "URLs that receive events, in the Standard Webhooks format")
        .tag("schedules", "Recurring tasks")
        .tag("execution classes", "Groups of runs that share a concurrency limit")
        .tag("budgets", "Spending limits")
        .tag("tools", "Tools that manifests declare")
        .tag("audit", "Records of tool calls and decisions")
        .tag("usage", "Records of resource use")
        .tag("explanations", "Causes of waiting and failed runs")
        .tag("tokens", "API tokens")
        .tag("server", "Health, version, metrics and documentation of the server")
}

fn tasks(api: ApiRouter) -> ApiRouter {
    api.under(NAMESPACE)
        .post("/tasks", task::submit, op("submitTask", "Submit a task").large_body())
        .get("/tasks", task::list, op("listTasks", "List tasks, newest first"))
        .get("/tasks/{task}", task::get, op("getTask", "Get a task"))
        .post(
            "/tasks/{task}/cancel",
            task::cancel,
            op("cancelTask", "Cancel a task and its children"),
        )
        .post(
            "/tasks/{task}/archive",
            task::archive,
            op("archiveTask", "Archive a task that has ended or waits for a decision"),
        )
        .post(
            "/tasks/{task}/retry",
            task::retry,
            op("retryTask", "Retry a task with a new run and the same messages"),
        )
        .get(
            "/tasks/{task}/runs",
            task::runs,
            op("listTaskRuns", "List the runs of a task, newest first"),
        )
        .post(
            "/tasks/{task}/inputs",
            input::send_to_task,
            op("sendTaskInput", "Send a message to a task").large_body(),
        )
        .get(
            "/tasks/{task}/inputs",
            input::list_for_task,
            op("listTaskInputs", "List the messages of a task that no run has read yet"),
        )
}

fn runs(api: ApiRouter) -> ApiRouter {
    api.under(NAMESPACE)
        .get("/runs", run::list, op("listRuns", "List runs, newest first"))
        .get("/runs/{run}", run::get, op("getRun", "Get a run"))
        .get(
            "/runs/{run}/steps",
            run::steps,
            op("listRunSteps", "List the journal steps of a run, oldest first"),
        )
        .get(
            "/runs/{run}/snapshots",
            run::transitions,
            op("listRunTransitions", "List the state changes of a run, oldest first"),
        )
        .get(
            "/runs/{run}/attempts",
            run::attempts,
            op("listRunAttempts", "List the attempts of a run, oldest first"),
        )
        .get(
            "/runs/{run}/replay",
            run::replay,
            op(
                "replayRun",
                "Replay a run from its journal and compare the results, without effects",
            ),
        )
        .get(
            "/runs/{run}/deliveries",
            run::deliveries,
            op("listRunDeliveries", "List the deliveries of a run's answer"),
        )
        .post("/runs/{run}/cancel", run::cancel, op("cancelRun", "Cancel a run and its children"))
        .post(
            "/runs/{run}/resume",
            run::resume,
            op("resumeRun", "Resume a run that waits for an operator"),
        )
        .post(
            "/runs/{run}/fork",
            run::fork,
            op("forkRun", "Fork a run: create a run that shares its first steps").large_body(),
        )
        .post(
            "/runs/{run}/inputs",
            input::send_to_run,
            op("sendRunInput", "Send a message to a run, or to its task if the run has ended")
                .large_body(),
        )
        .get(
            "/runs/{run}/inputs",
            input::list_for_run,
            op("listRunInputs", "List the messages that a run has not read yet"),
        )
        .delete(
            "/runs/{run}/inputs/{input}",
            input::delete,
            op("deleteRunInput", "Delete a message that the run has not read yet"),
        )
        .get(
            "/runs/{run}/interaction",
            run::interaction,
            op("getRunInteraction", "Get the input state of a run"),
        )
}

fn agents(api: ApiRouter) -> ApiRouter {
    api.under(NAMESPACE)
        .post("/agents", agent::create, op("createAgent", "Create an agent"))
        .get("/agents", agent::list, op("listAgents", "List agents by name"))
        .get(
            "/agents/{agent}",
            agent::get,
            op("getAgent", "Get an agent. The ETag of the response is its revision"),
        )
        .patch(
            "/agents/{agent}",
            agent::update,
            op("updateAgent", "Update an agent. Runs that were accepted before are not affected"),
        )
        .delete(
            "/agents/{agent}",
            agent::delete,
            op("deleteAgent", "Delete an agent. Its tasks are not affected"),
        )
        .get(
            "/agents/{agent}/default-config",
            agent::default_config,
            op("getAgentDefaultConfig", "Get the default configuration of an agent with this name"),
        )
}

fn approvals(api: ApiRouter) -> ApiRouter {
    api.under(NAMESPACE)
        .get(
            "/approvals",
            approval::list,
            op(
                "listApprovals",
                "List approvals, newest first. Without a filter, only pending ones",
            ),
        )
        .get("/approvals/{approval}", approval::get, op("getApproval", "Get an approval"))
        .post(
            "/approvals/{approval}/answer",
            approval::decide,
            op("decideApproval", "Decide about an approval. The first decision counts"),
        )
        .get(
            "/grants",
            approval::list_standing,
            op("listStandingApprovals", "List standing approvals"),
        )
        .delete(
            "/grants",
            approval::revoke_standing,
            op(
                "revokeStandingApproval",
                "Revoke a standing approval. The next such call needs an approval again",
            ),
        )
}

fn deliveries(api: ApiRouter) -> ApiRouter {
    api.under(NAMESPACE)
        .get("/deliveries", delivery::list, op("listDeliveries", "List deliveries, newest first"))
        .get("/deliveries/{delivery}", delivery::get, op("getDelivery", "Get a delivery"))
        .post(
            "/deliveries/{delivery}/retry",
            delivery::retry,
            op(
                "retryDelivery",
                "Send a delivery again. If the channel had received it, it receives it twice",
            ),
        )
        .post(
            "/deliveries/{delivery}/dismiss",
            delivery::dismiss,
            op("dismissDelivery", "Dismiss a delivery, so that it is not sent"),
        )
}

fn sessions(api: ApiRouter) -> ApiRouter {
    api.under(NAMESPACE)
        .get(
            "/sessions",
            session::list,
            op("listSessions", "List sessions by id, in descending order"),
        )
        .post(
            "/sessions",
            session::create,
            op("createSession", "Create a session, or return the session that has the key"),
        )
        .get("/sessions/{session}", session::get, op("getSession", "Get a session"))
        .get(
            "/sessions/{session}/messages",
            session::messages,
            op("listSessionMessages", "List the messages of a session, oldest first"),
        )
        .put(
            "/sessions/{session}/queue",
            session::set_queue,
            op(
                "setSessionQueue",
                "Set the differences of a session's input queue from that of its agent",
            ),
        )
}

fn limits(api: ApiRouter) -> ApiRouter {
    api.under(NAMESPACE)
        .get("/classes", class::list, op("listExecutionClasses", "List execution classes by key"))
        .put(
            "/classes/{class}/target",
            class::set_concurrency_limit,
            op(
                "setConcurrencyLimit",
                "Set the concurrency limit of an execution class. Zero pauses the class",
            ),
        )
        .get("/budgets", budget::list, op("listBudgets", "List budgets by scope"))
        .put(
            "/budgets",
            budget::set,
            op("setBudget", "Set a spending limit. Amounts that were spent before still count"),
        )
        .delete("/budgets", budget::remove, op("removeBudget", "Remove a spending limit"))
}

fn schedules(api: ApiRouter) -> ApiRouter {
    api.under(NAMESPACE)
        .get("/schedules", schedule::list, op("listSchedules", "List schedules by id"))
        .get("/schedules/{schedule}", schedule::get, op("getSchedule", "Get a schedule"))
        .put(
            "/schedules/{schedule}",
            schedule::put,
            op("putSchedule", "Create or replace a schedule").large_body(),
        )
        .delete(
            "/schedules/{schedule}",
            schedule::delete,
            op("deleteSchedule", "Delete a schedule. Tasks that it submitted continue"),
        )
        .post(
            "/schedules/{schedule}/pause",
            schedule::pause,
            op("pauseSchedule", "Pause or continue a schedule"),
        )
}

fn explanations(api: ApiRouter) -> ApiRouter {
    api.under(NAMESPACE).get(
        "/explain/{id}",
        explain::explain,
        op("explain", "Explain why a run, task, approval, session or delivery waits or failed"),
    )
}

fn tokens(api: ApiRouter) -> ApiRouter {
    api.under("/v1")
        .post(
            "/tokens",
            token::create,
            op("createToken", "Create an API token. Only this response contains its secret"),
        )
        .get("/tokens", token::list, op("listTokens", "List API tokens, oldest first"))
        .delete("/tokens/{token}", token::revoke, op("revokeToken", "Revoke an API token"))
}

fn tools(api: ApiRouter) -> ApiRouter {
    api.under(NAMESPACE)
        .get("/tools", tool::list, op("listTools", "List declared tools by name"))
        .get("/audit", audit::list, op("listAuditRecords", "List audit records, newest first"))
        .get("/usage", usage::list, op("listUsageRecords", "List usage records, newest first"))
        .under("/v1")
        .get(
            "/capabilities",
            tool::capabilities,
            op("getCapabilities", "Get the capabilities of the server"),
        )
        .post(
            "/tool-callbacks/{request}",
            tool::complete_call,
            op("completeToolCall", COMPLETE_TOOL_CALL),
        )
}

fn server(api: ApiRouter) -> ApiRouter {
    api.under("/v1")
        .get("/whoami", meta::identity, op("getIdentity", "Get the identity of the caller"))
        .get("/version", meta::version, op("getVersion", "Get the versions of the server"))
}

fn streams(api: ApiRouter) -> ApiRouter {
    api.under(NAMESPACE)
        .get(
            "/runs/{run}/stream",
            stream::run,
            op("streamRun", "Stream the events of a run until it ends").long_lived(),
        )
        .get(
            "/tasks/{task}/stream",
            stream::task,
            op("streamTask", "Stream the events of all runs of a task").long_lived(),
        )
        .get(
            "/sessions/{session}/stream",
            stream::session,
            op("streamSession", "Stream the events of all runs of a session").long_lived(),
        )
        .get(
            "/stream",
            stream::namespace,
            op("streamNamespace", "Stream the events of all runs of the namespace").long_lived(),
        )
        .get(
            "/runs/{run}/wait",
            wait::for_run,
            op("waitForRun", "Wait until a run ends or the timeout elapses").long_lived(),
        )
        .get(
            "/tasks/{task}/wait",
            wait::for_task,
            op("waitForTask", "Wait until the current run of a task ends or the timeout elapses")
                .long_lived(),
        )
}

fn events(api: ApiRouter) -> ApiRouter {
    api.under(NAMESPACE)
        .get(
            "/runs/{run}/events",
            event::run_events,
            op("listRunEvents", "List the durable events of a run, oldest first"),
        )
        .get(
            "/tasks/{task}/events",
            event::task_events,
            op(
                "getTaskEvents",
                "Get the state and the new events of a task, for clients that poll",
            ),
        )
        .get(
            "/tasks/{task}/logs",
            event::task_logs,
            op("listTaskLogs", "List the log entries of a task, oldest first"),
        )
}

fn webhooks(api: ApiRouter) -> ApiRouter {
    api.under(NAMESPACE)
        .post(
            "/webhooks",
            webhook::create,
            op("createWebhook", "Create a webhook. Only this response contains its signing key"),
        )
        .get("/webhooks", webhook::list, op("listWebhooks", "List webhooks, oldest first"))
        .get("/webhooks/{webhook}", webhook::get, op("getWebhook", "Get a webhook"))
        .delete(
            "/webhooks/{webhook}",
            webhook::delete,
            op("deleteWebhook", "Delete a webhook and its pending deliveries"),
        )
        .get(
            "/webhooks/{webhook}/posts",
            webhook::list_deliveries,
            op("listWebhookDeliveries", "List the deliveries of a webhook, newest first"),
        )
        .post(
            "/webhooks/{webhook}/posts/{post}/resend",
            webhook::resend,
            op("resendWebhookDelivery", "Send a delivery of a webhook again"),
        )
}

fn health(api: ApiRouter) -> ApiRouter {
    api.under("")
        .get(
            "/healthz",
            meta::healthz,
            op("getHealth", "Check whether the server process responds"),
        )
        .get(
            "/readyz",
            meta::readyz,
            op("getReadiness", "Check whether the server can accept work"),
        )
        .get(
            "/metrics",
            meta::metrics,
            op("getMetrics", "Get the metrics in the text format of Prometheus").metrics(),
        )
        .get("/openapi.json", meta::openapi, op("getOpenApiDocument", "Get the OpenAPI document"))
        .get(
            "/docs",
            meta::docs,
            op("getDocumentation", "Get the HTML page with this documentation"),
        )
}

#[cfg(test)]
mod tests;
