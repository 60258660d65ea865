//! Which address does what.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use ::http::Extensions;
use axum::Router;
use divvy_autoscale::status::PoolEvent;
use divvy_http::{BodyRoom, Mounted, Route, Routes, delete, get, head, options, patch, post, put};
use divvy_objects::{BlobId, RecordName};
use divvy_types::limits::{LIMIT_LEN_MAX, QUEUE_LEN_MAX, SCHEDULE_NAME_LEN_MAX};
use divvy_types::pulse::PulseEvent;
use divvy_types::schedule::Schedule;
use divvy_types::schema::Label;
use divvy_types::view::TaskChange;
use divvy_types::{Scope, Settings, SpecError};
use serde_json::Value;

use crate::app::App;
use crate::guard::{Guarded, Inside, Rules};
use crate::http::{
    alerts, blobs, bulk, dead, error, events, explain, health, kinds, lab, limits, load, log, me,
    metrics, openapi, page, pools, pulse, queues, records, schedules, settings, sign_in, stats,
    submit, tasks, tokens, uploads, workers, workflows,
};
use crate::keda;
use crate::options::Options;
use crate::tokens::{TOKEN_NAME_LEN_MAX, TokenError};
use divvy_types::limits::WORKER_NAME_LEN_MAX;
use divvy_wire::{batch, gate, grpc};

/// Bytes of all JSON bodies together that arrive or are being read.
const ARRIVING_BYTES_MAX: usize = 128 << 20;

/// Everything on one router, behind the guard.
pub(crate) fn build(app: App, options: &Options, address: SocketAddr) -> Router {
    let own = mounted(&app);
    let dashboard = divvy_dash::routes(options.frame.clone());
    let others: Vec<Mounted> = [dashboard].into_iter().chain(options.mounted.clone()).collect();
    let all = [&own].into_iter().chain(&others);
    let rules = Rules::new(options, address, all.flat_map(Mounted::operations));
    // People who must show a token have a session that they can end.
    options.frame.set_session(rules.wants_token());
    let mut beside = beside(&own, &rules, &others);
    beside.insert(BodyRoom::new(ARRIVING_BYTES_MAX));
    let http = router(app, &own);
    let http = others.iter().fold(http, |http, mounted| http.merge(mounted.router()));
    gate::behind(Arc::new(Guarded::new(rules, beside)), http.fallback(error::no_such_address))
}

/// The server's own addresses for callers in this process, who need no guard.
pub(crate) fn in_process(app: App, options: &Options) -> Router {
    let own = mounted(&app);
    let beside = beside(&own, &Rules::new(options, options.listen, []), &[]);
    let http = router(app, &own).fallback(error::no_such_address);
    gate::behind(Arc::new(Inside::new(beside)), http)
}

/// The server's own addresses.
fn mounted(app: &App) -> Mounted {
    Routes::new(table()).with_codes(&codes()).with_state(app.clone())
}

/// The same with gRPC.
fn router(app: App, own: &Mounted) -> Router {
    let services = grpc::services(app.edge()).add_service(keda::service(app));
    own.router().merge(grpc::router(services))
}

/// What handlers find beside every request.
fn beside(own: &Mounted, rules: &Rules, others: &[Mounted]) -> Extensions {
    let mut beside = Extensions::new();
    beside.insert(openapi::document([own].into_iter().chain(others)));
    beside.insert(rules.clone());
    beside
}

/// The codes of refusals that only the server has, and of those whom it asks.
fn codes() -> Vec<&'static str> {
    let own = [
        "disk_error",
        "headers_too_large",
        "host_not_allowed",
        "invalid_body",
        lab::NO_LAB,
        lab::NO_SUCH_EXPERIMENT,
        lab::NO_SUCH_RUN,
        lab::RUN_GOES_ON,
        "no_objects",
        pools::NO_SAMPLES,
        alerts::NO_SUCH_ALERT,
        "no_such_address",
        "no_such_queue",
        "no_such_record",
        "nothing_selected",
        "origin_not_allowed",
        "record_changed",
        "scope_missing",
        "tls_needed",
        "too_many_guesses",
        "tus_version",
        "unauthorized",
    ];
    let asked = [&SpecError::CODES[..], &divvy_engine::Error::CODES, &divvy_objects::Error::CODES];
    own.into_iter().chain(asked.concat()).chain(TokenError::CODES).collect()
}

/// Who may look at tasks, workers and objects: people, and workers for the tasks that they run.
const READ_OR_WORK: [Scope; 2] = [Scope::Read, Scope::Work];
/// Who may add objects: those who submit what reads them, and workers.
const ADD_OBJECTS: [Scope; 2] = [Scope::Submit, Scope::Work];

/// All HTTP routes.
fn table() -> Vec<Route<App>> {
    [
        pages(),
        task_routes(),
        queue_routes(),
        worker_routes(),
        pool_routes(),
        setting_routes(),
        server_routes(),
        pulse_routes(),
        lab_routes(),
        token_routes(),
        object_routes(),
        upload_routes(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn pages() -> Vec<Route<App>> {
    const HTML: &str = "text/html";
    vec![
        get("/favicon.ico", page::icon)
            .summary("The icon of the pages")
            .open()
            .gives_media("image/svg+xml"),
        get("/assets/{name}", page::asset)
            .summary("A script or style of all pages")
            .open()
            .answers([200, 304])
            .gives_media("*/*")
            .refuses([404]),
        get("/sign-in", sign_in::show)
            .summary("A form for the token, for people")
            .open()
            .gives_media(HTML),
        post("/sign-in", sign_in::enter)
            .summary("Show the token once; the cookie of the answer takes its place")
            .open()
            .takes_media("application/x-www-form-urlencoded")
            .answers([303, 401, 429])
            .gives_media(HTML)
            .refuses([400, 408, 413]),
        post("/sign-out", sign_in::leave)
            .summary("End the session of this browser")
            .open()
            .answers([303]),
        get("/healthz", health::alive).summary("Whether the process lives and can record").open(),
        get("/readyz", health::ready).summary("Whether the engine takes requests").open(),
        get("/metrics", metrics::show)
            .summary("Figures in the OpenMetrics text format, which Prometheus reads")
            .gives_media("application/openmetrics-text"),
    ]
}

fn task_routes() -> Vec<Route<App>> {
    vec![
        post("/api/v1/tasks", submit::submit)
            .scope(Scope::Submit)
            .summary("Submit one task, or a batch that is accepted whole or not at all")
            .detail(
                "The answer is sent when the tasks are durable. A task without `id` gets one; send your own (UUIDv7) \
                 to make a repetition safe. `late` names tasks that are expected to miss their deadlines; they are \
                 taken nevertheless unless `strict` is set.",
            )
            .takes::<batch::Submission>()
            .answers([200, 201])
            .refuses([409, 507]),
        get("/api/v1/tasks", tasks::list).scope(READ_OR_WORK).summary("List tasks, newest first"),
        post("/api/v1/tasks/bulk", bulk::treat)
            .summary("Cancel, retry, drop or reprioritise all tasks that fit a filter, or only count them")
            .detail("One request treats at most `limit` tasks, each durably by itself; send `next` as `after` to go on."),
        get("/api/v1/tasks/{id}", tasks::show)
            .scope(READ_OR_WORK)
            .summary("Show a task whole")
            .refuses([404, 409]),
        post("/api/v1/tasks/{id}/cancel", tasks::cancel)
            .summary("Stop a task or keep it from running")
            .refuses([404, 409]),
        post("/api/v1/tasks/{id}/retry", tasks::retry)
            .summary("Run a dead, cancelled or waiting-for-a-time task now")
            .refuses([404, 409]),
        post("/api/v1/tasks/{id}/reprioritise", tasks::reprioritise)
            .summary("Give a task that waits another priority")
            .refuses([404, 409]),
        get("/api/v1/tasks/{id}/log", log::show)
            .summary("The log of a task")
            .gives_media("text/plain")
            .refuses([404, 409]),
        get("/api/v1/tasks/{id}/explain", explain::show)
            .summary("Say why a task is where it is")
            .refuses([404, 409]),
        get("/api/v1/dead", dead::list).summary("Dead letters grouped by kind and error"),
        post("/api/v1/dead/replay", dead::replay).summary("Run dead letters again").refuses([404, 409]),
        post("/api/v1/dead/drop", dead::give_up)
            .summary("Give dead letters up: they count as cancelled")
            .refuses([404, 409]),
        get("/api/v1/workflows", workflows::list)
            .summary("List workflows, greatest id first: those with ids that clients made, newest first"),
        get("/api/v1/workflows/{id}", workflows::show)
            .scope(READ_OR_WORK)
            .summary("Show how a workflow stands")
            .refuses([404, 409]),
        get("/api/v1/workflows/{id}/graph", workflows::graph)
            .summary("Show the tasks of a workflow and what waits for what")
            .detail("One answer: at most 5,000 tasks and 50,000 edges; `truncated` says that there are more.")
            .refuses([404, 409]),
        post("/api/v1/workflows/{id}/cancel", workflows::cancel)
            .summary("Cancel every task of a workflow that has not ended")
            .refuses([404, 409]),
        post("/api/v1/workflows/{id}/resume", workflows::resume)
            .summary("Put back what failed in a workflow, so that it continues")
            .refuses([404, 409]),
        get("/api/v1/events", events::stream)
            .summary("Changes of tasks as server-sent events, from now on or from the last one that was seen")
            .gives_events::<TaskChange>()
            .refuses([404, 409]),
    ]
}

fn queue_routes() -> Vec<Route<App>> {
    vec![
        get("/api/v1/queues", queues::list).summary("List queues that have open tasks or settings"),
        get("/api/v1/kinds", kinds::list).summary("List kinds that a worker runs or of which there are tasks"),
        get("/api/v1/queues/{name}", queues::show).path::<Label<QUEUE_LEN_MAX>>().summary("Show a queue").refuses([404]),
        put("/api/v1/queues/{name}", queues::set).path::<Label<QUEUE_LEN_MAX>>()
            .summary("Set the weight and the fair shares of a queue")
            .detail(
                "What is left out gets its default. Refused with `set_by_file` while the settings file has the \
                 section `queues`.",
            )
            .refuses([409]),
        post("/api/v1/queues/{name}/pause", queues::pause).path::<Label<QUEUE_LEN_MAX>>().summary("Grant no more tasks of a queue"),
        post("/api/v1/queues/{name}/resume", queues::resume).path::<Label<QUEUE_LEN_MAX>>().summary("Grant tasks of a queue again"),
        get("/api/v1/schedules", schedules::list).summary("List schedules with their next ticks"),
        post("/api/v1/schedules/preview", schedules::preview)
            .scope(Scope::Read)
            .summary("Tell when a schedule would tick, or what is wrong with it; nothing is set")
            .takes::<Schedule>(),
        get("/api/v1/schedules/{name}", schedules::show).path::<Label<SCHEDULE_NAME_LEN_MAX>>()
            .summary("Show a schedule with its next ticks")
            .refuses([404]),
        put("/api/v1/schedules/{name}", schedules::set).path::<Label<SCHEDULE_NAME_LEN_MAX>>()
            .summary("Set a schedule, new or again")
            .detail("Ticks count from now on. Without `paused`, a schedule that is set again stays paused or not as it was.")
            .takes::<Schedule>()
            .refuses([409, 507]),
        delete("/api/v1/schedules/{name}", schedules::remove).path::<Label<SCHEDULE_NAME_LEN_MAX>>()
            .summary("Forget a schedule; tasks that it submitted stay")
            .refuses([404]),
        post("/api/v1/schedules/{name}/pause", schedules::pause).path::<Label<SCHEDULE_NAME_LEN_MAX>>()
            .summary("Let a schedule rest")
            .refuses([404]),
        post("/api/v1/schedules/{name}/resume", schedules::resume).path::<Label<SCHEDULE_NAME_LEN_MAX>>()
            .summary("Let a schedule tick again; ticks of the rest are not made up for")
            .refuses([404]),
        post("/api/v1/schedules/{name}/trigger", schedules::trigger).path::<Label<SCHEDULE_NAME_LEN_MAX>>()
            .summary("Submit the task of a schedule now, whatever its calendar says")
            .answers([201])
            .refuses([404, 507]),
    ]
}

fn worker_routes() -> Vec<Route<App>> {
    vec![
        get("/api/v1/workers", workers::list).scope(READ_OR_WORK).summary("List connected workers"),
        get("/api/v1/workers/{name}", workers::show)
            .path::<Label<WORKER_NAME_LEN_MAX>>()
            .summary("Show the connections of a worker")
            .refuses([404]),
        post("/api/v1/workers/{name}/drain", workers::drain)
            .path::<Label<WORKER_NAME_LEN_MAX>>()
            .summary("Ask a worker to finish what it holds and take no more")
            .refuses([404]),
        post("/api/v1/workers/{name}/pause", workers::pause)
            .path::<Label<WORKER_NAME_LEN_MAX>>()
            .summary("Let a worker finish what it holds and take no more until it is resumed")
            .refuses([404]),
        post("/api/v1/workers/{name}/resume", workers::resume)
            .path::<Label<WORKER_NAME_LEN_MAX>>()
            .summary("Let a paused worker take tasks again")
            .refuses([404]),
        get("/api/v1/load", load::show).summary("Show how the load is spread"),
        post("/api/v1/rebalance", load::rebalance).summary("Even the load of the workers out"),
    ]
}

fn pool_routes() -> Vec<Route<App>> {
    type Pool = Label<QUEUE_LEN_MAX>;
    vec![
        get("/api/v1/pools", pools::list).summary("List pools of workers and how they stand"),
        get("/api/v1/pools/{name}", pools::show).path::<Pool>().summary("Show a pool").refuses([404]),
        get("/api/v1/pools/{name}/history", pools::history)
            .path::<Pool>()
            .summary("List the changes of a pool, newest first")
            .refuses([404]),
        get("/api/v1/pools/{name}/explain", pools::explain)
            .path::<Pool>()
            .summary("Say why a pool has as many workers as it has")
            .refuses([404]),
        put("/api/v1/pools/{name}/workers", pools::set)
            .path::<Pool>()
            .summary("Hold a number of workers, or let the pool decide again")
            .refuses([404]),
        post("/api/v1/pools/{name}/pause", pools::pause)
            .path::<Pool>()
            .summary("Stop changing the number of workers")
            .refuses([404]),
        post("/api/v1/pools/{name}/resume", pools::resume)
            .path::<Pool>()
            .summary("Go on changing the number of workers")
            .refuses([404]),
        post("/api/v1/pools/{name}/simulate", pools::simulate)
            .scope(Scope::Read)
            .path::<Pool>()
            .summary("Tell what a pool would have wanted over the samples that were kept")
            .detail("Changes nothing. What waited and ran is what was seen; what is left out of the body is as it is.")
            .refuses([404, 409]),
        get("/api/v1/pool-events", pools::stream)
            .summary("Changes of what pools want as server-sent events, from now on or from the last one that was seen")
            .gives_events::<PoolEvent>(),
    ]
}

fn setting_routes() -> Vec<Route<App>> {
    vec![
        get("/api/v1/settings", settings::show).summary("Show the settings of scheduling"),
        put("/api/v1/settings", settings::replace)
            .summary("Replace the settings of scheduling")
            .detail("What is left out gets its default. A section that the settings file has cannot be changed: `set_by_file`.")
            .takes::<Settings>()
            .refuses([409]),
        patch("/api/v1/settings", settings::merge)
            .summary("Change some settings of scheduling")
            .detail("A JSON merge patch (RFC 7396): what is named is changed, `null` takes something back to its default.")
            .takes::<serde_json::Map<String, Value>>()
            .refuses([409]),
        get("/api/v1/limits", limits::list).summary("List limits and how full they are"),
        put("/api/v1/limits/{name}", limits::set).path::<Label<LIMIT_LEN_MAX>>()
            .summary("Set a limit")
            .detail("What is left out is not limited.")
            .refuses([409]),
        delete("/api/v1/limits/{name}", limits::remove).path::<Label<LIMIT_LEN_MAX>>().summary("Remove a limit").refuses([404, 409]),
    ]
}

fn server_routes() -> Vec<Route<App>> {
    vec![
        get("/api/v1/stats", stats::show).summary("The figures of the server"),
        get("/api/v1/alerts", alerts::show)
            .summary("Judge the health of the server")
            .detail("Every rule and how it stands, the latest alerts that fired and resolved, and who is told."),
        post("/api/v1/alerts/test", alerts::test)
            .summary("Send a test to everybody who is told of alerts")
            .detail("Each gets it by a durable task, as they get alerts.")
            .answers([202]),
        post("/api/v1/alerts/{name}/silence", alerts::silence)
            .path::<Label<QUEUE_LEN_MAX>>()
            .summary("Tell nobody of an alert for a while")
            .detail("It still fires and resolves where people look. If it fires when the silence ends, others are told then.")
            .refuses([404]),
        delete("/api/v1/alerts/{name}/silence", alerts::unsilence)
            .path::<Label<QUEUE_LEN_MAX>>()
            .summary("Tell others of an alert again")
            .refuses([404]),
        get("/api/v1/openapi.json", openapi::show).summary("This document").gives::<BTreeMap<String, Value>>(),
    ]
}

fn pulse_routes() -> Vec<Route<App>> {
    vec![
        get("/api/v1/me", me::show)
            .scope(Scope::ALL)
            .summary("Who asks, and what it may do")
            .refuses([401]),
        get("/api/v1/overview", pulse::overview)
            .summary("Show how the server stands, in the numbers that are looked at first"),
        get("/api/v1/history", pulse::history)
            .summary("Show rates, waits and numbers of tasks over the last day")
            .detail(
                "In equal steps, 5 seconds at least within the last hour and a minute before. Rates are per minute. It \
                 is `null` where nothing is known, because the server did not run.",
            ),
        get("/api/v1/pulse", pulse::stream)
            .summary("How the server stands once a second, and what happens to workers and queues, as server-sent events")
            .detail(
                "Events `pulse`, `worker`, `steal`, `queue` and `alert`, from now on or from the last one that was seen; \
                 `lagged` says that some are gone.",
            )
            .gives_events::<PulseEvent>(),
    ]
}

fn lab_routes() -> Vec<Route<App>> {
    vec![
        get("/api/v1/lab", lab::list).summary("List experiments").refuses([404]),
        get("/api/v1/lab/runs", lab::runs)
            .summary("List the last runs of experiments and plans, newest first")
            .refuses([404]),
        get("/api/v1/lab/runs/{id}", lab::show)
            .summary("Show a run of an experiment or a plan, with what it found")
            .refuses([404]),
        delete("/api/v1/lab/runs/{id}", lab::stop)
            .summary("End a run before its time")
            .refuses([404]),
        post("/api/v1/lab/{name}", lab::run)
            .summary("Run an experiment on the machine of the server, one at a time")
            .answers([202])
            .refuses([404, 409]),
        post("/api/v1/plan", lab::plan)
            .summary("Find out how many workers a load needs, one plan at a time")
            .answers([202])
            .refuses([404, 409]),
    ]
}

fn token_routes() -> Vec<Route<App>> {
    vec![
        get("/api/v1/tokens", tokens::list)
            .scope(Scope::Admin)
            .summary("List the tokens that callers may show; never their secrets"),
        post("/api/v1/tokens", tokens::create)
            .summary("Make a token; the answer tells its secret, and nothing else ever does")
            .answers([201])
            .refuses([409]),
        delete("/api/v1/tokens/{name}", tokens::revoke)
            .path::<Label<TOKEN_NAME_LEN_MAX>>()
            .summary("Make a token worthless at once")
            .refuses([404, 409]),
    ]
}

fn object_routes() -> Vec<Route<App>> {
    const BYTES: &str = "application/octet-stream";
    vec![
        get("/api/v1/objects", blobs::about)
            .scope(READ_OR_WORK)
            .summary("What this server keeps, and how much it takes")
            .refuses([404]),
        get("/api/v1/blobs/{id}", blobs::show)
            .scope(READ_OR_WORK)
            .path::<BlobId>()
            .summary("Read a blob or a part of it")
            .detail("HEAD tells the size.")
            .header("Range", "One range, such as `bytes=0-999`.")
            .header("If-None-Match", "The id in quotes.")
            .header("If-Range", "The id in quotes.")
            .answers([200, 206, 304])
            .gives_media(BYTES)
            .refuses([404, 416]),
        put("/api/v1/blobs/{id}", blobs::store)
            .scope(ADD_OBJECTS)
            .path::<BlobId>()
            .summary("Store a small blob")
            .takes_media(BYTES)
            .answers([200, 201])
            .refuses([404, 408, 413, 422, 507]),
        delete("/api/v1/blobs/{id}", blobs::remove)
            .scope(Scope::Work)
            .path::<BlobId>()
            .summary("Remove a blob")
            .refuses([404]),
        get("/api/v1/records", records::list)
            .scope(READ_OR_WORK)
            .summary("List the names of records")
            .refuses([404]),
        get("/api/v1/records/{*name}", records::show)
            .scope(READ_OR_WORK)
            .path::<RecordName>()
            .summary("Read a record")
            .gives::<records::Data>()
            .refuses([404]),
        put("/api/v1/records/{*name}", records::write)
            .scope(Scope::Work)
            .path::<RecordName>()
            .summary("Write a record")
            .detail("Without a condition, whatever was there is replaced.")
            .header_of::<records::Anything>("If-None-Match", "`*`: only if there is none.")
            .header("If-Match", "Only if this version, in quotes, is there.")
            .takes::<records::Data>()
            .answers([200, 201])
            .gives::<records::Written>()
            .refuses([404, 412, 507]),
        delete("/api/v1/records/{*name}", records::remove)
            .scope(Scope::Work)
            .path::<RecordName>()
            .summary("Remove a record")
            .refuses([404]),
    ]
}

fn upload_routes() -> Vec<Route<App>> {
    vec![
        options("/api/v1/uploads", uploads::abilities)
            .scope(ADD_OBJECTS)
            .summary("What uploads can do")
            .answers([204]),
        post("/api/v1/uploads", uploads::create)
            .scope(ADD_OBJECTS)
            .summary("Begin an upload by the tus protocol")
            .must_header::<uploads::Version>("Tus-Resumable", "The version of the protocol.")
            .must_header::<u64>("Upload-Length", "Bytes of the whole.")
            .header("Upload-Metadata", "Kept and told again.")
            .header_of::<BlobId>("Divvy-Blob", "The blob that it must turn out to be.")
            .answers([201])
            .refuses([400, 404, 412, 413, 422, 429, 500, 503, 507]),
        head("/api/v1/uploads/{id}", uploads::show)
            .scope(ADD_OBJECTS)
            .path::<uploads::Id>()
            .summary("Where an upload stands")
            .must_header::<uploads::Version>("Tus-Resumable", "The version of the protocol.")
            .refuses([404, 412, 500, 503]),
        patch("/api/v1/uploads/{id}", uploads::append)
            .scope(ADD_OBJECTS)
            .path::<uploads::Id>()
            .summary("Go on with an upload")
            .must_header::<uploads::Version>("Tus-Resumable", "The version of the protocol.")
            .must_header::<u64>("Upload-Offset", "Where the piece begins.")
            .takes_media("application/offset+octet-stream")
            .answers([204])
            .refuses([404, 408, 409, 412, 413, 415, 422, 423, 429, 500, 503, 507]),
        delete("/api/v1/uploads/{id}", uploads::remove)
            .scope(ADD_OBJECTS)
            .path::<uploads::Id>()
            .summary("Give an upload up")
            .must_header::<uploads::Version>("Tus-Resumable", "The version of the protocol.")
            .answers([204])
            .refuses([404, 412, 423, 500, 503]),
    ]
}
