//! The `ExternalScaler` service, by which KEDA asks how many workers a pool wants. The trigger of a `ScaledObject` names
//! the pool in its metadata as `pool`; the pool itself has the driver `print`, because KEDA acts.
//!
//! The metric is the number of workers that are wanted, with a target of 1 for each: so what Kubernetes makes of it is
//! that number. With 0 wanted the object is not active, and KEDA may scale it to zero.
//!
//! KEDA sends no header, but the metadata of its trigger with every question: on a server with tokens one with the scope
//! `read` stands there as `token`, or as `tokenFromEnv`, which KEDA replaces by a variable of the workers' container.

use std::pin::Pin;

use divvy_engine::Error;
use divvy_http::News;
use divvy_proto::keda::external_scaler_server::{self, ExternalScaler, ExternalScalerServer};
use divvy_proto::keda::{
    GetMetricSpecResponse, GetMetricsRequest, GetMetricsResponse, IsActiveResponse, MetricSpec,
    MetricValue, ScaledObjectRef,
};
use divvy_types::{Scope, Scopes};
use divvy_wire::door::Guest;
use divvy_wire::grpc::status;
use futures_util::{Stream, StreamExt as _, stream};
use tonic::{Request, Response, Status};

use crate::app::App;
use crate::guard::Rules;
use crate::http::error::to_grpc;

/// The key in the metadata of a trigger that names the pool.
const POOL: &str = "pool";
/// Those that hold a token: as it is, or put there by KEDA from a variable.
const TOKENS: [&str; 2] = ["token", "tokenFromEnv"];
const CURE: &str =
    "write `token` or `tokenFromEnv` into the metadata of the trigger, with the scope read";

/// Bytes of a message of KEDA, which names an object and little else.
const MESSAGE_BYTES_MAX: usize = 64 << 10;

/// The service, within its limits.
pub(crate) fn service(app: App) -> ExternalScalerServer<Service> {
    ExternalScalerServer::new(Service { app }).max_decoding_message_size(MESSAGE_BYTES_MAX)
}

/// The scope that its methods need; nothing if this is another service. Its callers may name their token in what they
/// ask, because they cannot send a header.
pub(crate) fn scopes(service: &str) -> Option<Scopes> {
    (service == external_scaler_server::SERVICE_NAME).then(|| Scope::Read.into())
}

/// The service.
pub(crate) struct Service {
    app: App,
}

impl Service {
    /// The pool that a trigger names, and how many workers it wants.
    async fn wanted(
        &self,
        object: &ScaledObjectRef,
        from: &Origin,
    ) -> Result<(String, u32), Status> {
        from.admit(object)?;
        let pool = object.scaler_metadata.get(POOL).ok_or_else(|| {
            Status::invalid_argument(format!(
                "the trigger of {}/{} names no pool; add `pool: NAME` to its metadata",
                object.namespace, object.name
            ))
        })?;
        let now = self.app.handle.look(|core| core.now()).await.map_err(|error| status(&error))?;
        let shown = self.app.scale.show(pool, now).map_err(|error| match error {
            Error::NoSuchSetting { .. } => Status::not_found(error.to_string()),
            other => status(&other),
        })?;
        Ok((pool.clone(), shown.wanted.values().sum()))
    }
}

/// Where a question came from.
struct Origin {
    rules: Option<Rules>,
    guest: Option<Guest>,
    /// A header with a token was judged before it came here.
    was_judged: bool,
}

impl Origin {
    fn of<T>(request: &Request<T>) -> Self {
        Self {
            rules: request.extensions().get::<Rules>().cloned(),
            guest: request.extensions().get::<Guest>().cloned(),
            was_judged: request.metadata().contains_key("authorization"),
        }
    }

    fn admit(&self, object: &ScaledObjectRef) -> Result<(), Status> {
        if self.was_judged {
            return Ok(());
        }
        let rules = self.rules.as_ref().ok_or_else(|| Status::internal("nobody judges tokens"))?;
        let token = TOKENS.iter().find_map(|key| object.scaler_metadata.get(*key));
        let token = token.map(|token| token.trim());
        let judged = rules.check_named(self.guest.as_ref(), token, Scope::Read.into(), CURE);
        judged.map_err(|error| to_grpc(&error))
    }
}

fn metric(pool: &str) -> String {
    format!("divvy-{pool}-workers")
}

#[tonic::async_trait]
impl ExternalScaler for Service {
    async fn is_active(
        &self,
        request: Request<ScaledObjectRef>,
    ) -> Result<Response<IsActiveResponse>, Status> {
        let (_, wanted) = self.wanted(request.get_ref(), &Origin::of(&request)).await?;
        Ok(Response::new(IsActiveResponse { result: wanted > 0 }))
    }

    type StreamIsActiveStream =
        Pin<Box<dyn Stream<Item = Result<IsActiveResponse, Status>> + Send>>;

    /// Says at once how it is, and then whenever it changes.
    async fn stream_is_active(
        &self,
        request: Request<ScaledObjectRef>,
    ) -> Result<Response<Self::StreamIsActiveStream>, Status> {
        let following = self.app.scale.follow(None);
        let (pool, wanted) = self.wanted(request.get_ref(), &Origin::of(&request)).await?;
        let news = stream::unfold(following, |mut following| async move {
            let news = following.next().await;
            Some((news, following))
        });
        let changes = news.filter_map(move |news| {
            let active = match news {
                News::Event { event, .. } if event.pool == pool => Some(event.decision.total() > 0),
                // What is gone is out of date; the next change is told.
                News::Event { .. } | News::Missed(_) => None,
            };
            std::future::ready(active)
        });
        let first = stream::iter([wanted > 0]);
        let told = first.chain(changes).map(|result| Ok(IsActiveResponse { result }));
        let shutdown = self.app.shutdown.clone();
        let until = Box::pin(async move { shutdown.cancelled().await });
        Ok(Response::new(Box::pin(told.take_until(until))))
    }

    async fn get_metric_spec(
        &self,
        request: Request<ScaledObjectRef>,
    ) -> Result<Response<GetMetricSpecResponse>, Status> {
        let (pool, _) = self.wanted(request.get_ref(), &Origin::of(&request)).await?;
        let spec =
            MetricSpec { metric_name: metric(&pool), target_size: 1, target_size_float: 1.0 };
        Ok(Response::new(GetMetricSpecResponse { metric_specs: vec![spec] }))
    }

    async fn get_metrics(
        &self,
        request: Request<GetMetricsRequest>,
    ) -> Result<Response<GetMetricsResponse>, Status> {
        let from = Origin::of(&request);
        let GetMetricsRequest { scaled_object_ref, metric_name } = request.into_inner();
        let (pool, wanted) = self.wanted(&scaled_object_ref.unwrap_or_default(), &from).await?;
        if !metric_name.is_empty() && metric_name != metric(&pool) {
            let message = format!("`{metric_name}` is not known; ask for `{}`", metric(&pool));
            return Err(Status::not_found(message));
        }
        let value = MetricValue {
            metric_name: metric(&pool),
            metric_value: wanted.into(),
            metric_value_float: wanted.into(),
        };
        Ok(Response::new(GetMetricsResponse { metric_values: vec![value] }))
    }
}
