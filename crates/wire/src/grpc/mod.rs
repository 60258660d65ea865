//! gRPC: submitting, and the stream of a worker.

mod arriving;
mod hello;
mod status;
mod submit;
mod wire;
mod work;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::{Router, middleware};
use divvy_proto::v1::submit_server::{self, SubmitServer};
use divvy_proto::v1::work_server::{self, WorkServer};
use divvy_types::limits::MESSAGE_BYTES_MAX;
use divvy_types::{Scope, Scopes};
use tonic::service::Routes;

use crate::edge::Edge;
use crate::grpc::arriving::Arriving;

pub use status::status;

/// The services that tasks pass. The server adds its own.
pub fn services(edge: Edge) -> Routes {
    let submit = SubmitServer::new(submit::Service::new(edge.clone()))
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX);
    // A grant may carry the results of many dependencies, so only what arrives is limited.
    let work =
        WorkServer::new(work::Service::new(edge)).max_decoding_message_size(MESSAGE_BYTES_MAX);
    Routes::new(submit).add_service(work)
}

/// All services, each message within its bounds. What they do not have falls through to the router's own answer.
pub fn router(services: Routes) -> Router {
    let room = arriving::room();
    let wait_for_room = move |request: Request| {
        let room = Arc::clone(&room);
        async move { request.map(|body| Body::new(Arriving::new(body, room))) }
    };
    let routes = services.into_axum_router().reset_fallback();
    routes.layer(middleware::map_request(wait_for_room))
}

/// The scope that a service needs; nothing if it is none of these.
pub fn scopes(service: &str) -> Option<Scopes> {
    match service {
        submit_server::SERVICE_NAME => Some(Scope::Submit.into()),
        work_server::SERVICE_NAME => Some(Scope::Work.into()),
        _ => None,
    }
}
