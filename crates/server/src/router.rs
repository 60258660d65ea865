//! Which address does what.

use std::net::SocketAddr;

use ::http::HeaderValue;
use axum::response::Response;
use axum::{Extension, Router, middleware};
use divvy_http::{Route, Routes, delete, get, head, options, patch, post, put};
use divvy_types::REFUSAL_MARK as MARK;

use crate::app::App;
use crate::grpc;
use crate::guard::{self, Rules};
use crate::http::{
    alerts, blobs, bulk, dead, error, events, explain, health, limits, load, log, metrics, openapi,
    page, queues, records, schedules, settings, sign_in, stats, submit, tasks, uploads, workers,
    workflows,
};
use crate::options::Options;

/// All HTTP routes.
pub(crate) fn table() -> Vec<Route<App>> {
    vec![
        get("/", page::show),
        get("/sign-in", sign_in::show),
        post("/sign-in", sign_in::enter),
        post("/sign-out", sign_in::leave),
        get("/healthz", health::alive),
        get("/readyz", health::ready),
        get("/metrics", metrics::show),
        post("/api/v1/tasks", submit::submit),
        get("/api/v1/tasks", tasks::list),
        post("/api/v1/tasks/bulk", bulk::treat),
        get("/api/v1/tasks/{id}", tasks::show),
        post("/api/v1/tasks/{id}/cancel", tasks::cancel),
        post("/api/v1/tasks/{id}/retry", tasks::retry),
        get("/api/v1/tasks/{id}/log", log::show),
        get("/api/v1/tasks/{id}/explain", explain::show),
        get("/api/v1/dead", dead::list),
        post("/api/v1/dead/replay", dead::replay),
        post("/api/v1/dead/drop", dead::give_up),
        get("/api/v1/queues", queues::list),
        get("/api/v1/queues/{name}", queues::show),
        put("/api/v1/queues/{name}", queues::set),
        post("/api/v1/queues/{name}/pause", queues::pause),
        post("/api/v1/queues/{name}/resume", queues::resume),
        get("/api/v1/schedules", schedules::list),
        get("/api/v1/schedules/{name}", schedules::show),
        put("/api/v1/schedules/{name}", schedules::set),
        delete("/api/v1/schedules/{name}", schedules::remove),
        post("/api/v1/schedules/{name}/pause", schedules::pause),
        post("/api/v1/schedules/{name}/resume", schedules::resume),
        post("/api/v1/schedules/{name}/trigger", schedules::trigger),
        get("/api/v1/workers", workers::list),
        get("/api/v1/workers/{name}", workers::show),
        post("/api/v1/workers/{name}/drain", workers::drain),
        get("/api/v1/workflows", workflows::list),
        get("/api/v1/workflows/{id}", workflows::show),
        post("/api/v1/workflows/{id}/cancel", workflows::cancel),
        post("/api/v1/workflows/{id}/resume", workflows::resume),
        get("/api/v1/settings", settings::show),
        put("/api/v1/settings", settings::replace),
        patch("/api/v1/settings", settings::merge),
        get("/api/v1/limits", limits::list),
        put("/api/v1/limits/{name}", limits::set),
        delete("/api/v1/limits/{name}", limits::remove),
        get("/api/v1/load", load::show),
        post("/api/v1/rebalance", load::rebalance),
        get("/api/v1/alerts", alerts::show),
        get("/api/v1/events", events::stream),
        get("/api/v1/stats", stats::show),
        get("/api/v1/openapi.json", openapi::show),
        get("/api/v1/objects", blobs::about),
        get("/api/v1/blobs/{id}", blobs::show),
        put("/api/v1/blobs/{id}", blobs::store),
        delete("/api/v1/blobs/{id}", blobs::remove),
        get("/api/v1/records", records::list),
        get("/api/v1/records/{*name}", records::show),
        put("/api/v1/records/{*name}", records::write),
        delete("/api/v1/records/{*name}", records::remove),
        options("/api/v1/uploads", uploads::abilities),
        post("/api/v1/uploads", uploads::create),
        head("/api/v1/uploads/{id}", uploads::show),
        patch("/api/v1/uploads/{id}", uploads::append),
        delete("/api/v1/uploads/{id}", uploads::remove),
    ]
}

/// Everything on one router, behind the guard.
pub(crate) fn build(app: App, options: &Options, address: SocketAddr) -> Router {
    let rules = Rules::new(options, address);
    let http = own(app, rules.clone());
    let http = options.mounted.iter().fold(http, |http, mounted| http.merge(mounted.router()));
    http.fallback(error::no_such_address)
        .layer(middleware::from_fn_with_state(rules, guard::admit))
        .layer(middleware::map_response(mark))
}

/// The server's own addresses for callers in this process, who need no guard.
pub(crate) fn in_process(app: App, options: &Options) -> Router {
    own(app, Rules::new(options, options.listen))
        .fallback(error::no_such_address)
        .layer(middleware::map_response(mark))
}

fn own(app: App, rules: Rules) -> Router {
    let own = Routes::new(table()).with_state(app.clone());
    own.router().layer(Extension(rules)).merge(grpc::routes(app))
}

/// Marks a refusal as ours, if nobody has: what has no mark is a proxy's word, which clients and workers do not believe.
async fn mark(mut response: Response) -> Response {
    let is_refusal = |status: &HeaderValue| status != "0";
    let status = response.status();
    if status.is_client_error()
        || status.is_server_error()
        || response.headers().get("grpc-status").is_some_and(is_refusal)
    {
        response.headers_mut().entry(MARK).or_insert(HeaderValue::from_static("refused"));
    }
    response
}
