//! gRPC: submitting, the stream of a worker, and what KEDA asks.

mod arriving;
pub(crate) mod hello;
mod keda;
pub(crate) mod status;
mod submit;
mod wire;
mod work;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::{Router, middleware};
use divvy_proto::keda::external_scaler_server::{self, ExternalScalerServer};
use divvy_proto::v1::submit_server::{self, SubmitServer};
use divvy_proto::v1::work_server::{self, WorkServer};
use divvy_types::limits::MESSAGE_BYTES_MAX;
use divvy_types::{Scope, Scopes};
use tonic::service::Routes;

use crate::app::App;
use crate::grpc::arriving::Arriving;

/// Bytes of a message of KEDA, which names an object and little else.
const KEDA_BYTES_MAX: usize = 64 << 10;

/// All services. What they do not have falls through to the router's own answer.
pub(crate) fn routes(app: App) -> Router {
    let submit = SubmitServer::new(submit::Service::new(app.clone()))
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX);
    // A grant may carry the results of many dependencies, so only what arrives is limited.
    let work = WorkServer::new(work::Service::new(app.clone()))
        .max_decoding_message_size(MESSAGE_BYTES_MAX);
    let keda = ExternalScalerServer::new(keda::Service::new(app))
        .max_decoding_message_size(KEDA_BYTES_MAX);
    let room = arriving::room();
    let wait_for_room = move |request: Request| {
        let room = Arc::clone(&room);
        async move { request.map(|body| Body::new(Arriving::new(body, room))) }
    };
    let routes = Routes::new(submit).add_service(work).add_service(keda);
    let routes = routes.into_axum_router().reset_fallback();
    routes.layer(middleware::map_request(wait_for_room))
}

/// Whether callers of this method may name their token in what they ask, because they cannot send a header.
pub(crate) fn names_its_token(path: &str) -> bool {
    path.strip_prefix('/')
        .and_then(|path| path.split_once('/'))
        .is_some_and(|(service, _)| service == external_scaler_server::SERVICE_NAME)
}

/// The scope that a method needs; nothing if there is no such service.
pub(crate) fn scopes(path: &str) -> Option<Scopes> {
    match path.strip_prefix('/')?.split_once('/')?.0 {
        submit_server::SERVICE_NAME => Some(Scope::Submit.into()),
        work_server::SERVICE_NAME => Some(Scope::Work.into()),
        external_scaler_server::SERVICE_NAME => Some(Scope::Read.into()),
        _ => None,
    }
}
