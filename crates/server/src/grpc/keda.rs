//! The `ExternalScaler` service, by which KEDA asks how many workers a pool wants. The trigger of a `ScaledObject` names
//! the pool in its metadata as `pool`; the pool itself has the driver `print`, because KEDA acts.
//!
//! The metric is the number of workers that are wanted, with a target of 1 for each: so what Kubernetes makes of it is
//! that number. With 0 wanted the object is not active, and KEDA may scale it to zero.

use std::pin::Pin;

use divvy_engine::Error;
use divvy_http::News;
use divvy_proto::keda::external_scaler_server::ExternalScaler;
use divvy_proto::keda::{
    GetMetricSpecResponse, GetMetricsRequest, GetMetricsResponse, IsActiveResponse, MetricSpec,
    MetricValue, ScaledObjectRef,
};
use futures_util::{Stream, StreamExt as _, stream};
use tonic::{Request, Response, Status};

use crate::app::App;
use crate::grpc::status::status;

/// The key in the metadata of a trigger that names the pool.
const POOL: &str = "pool";

/// The service.
pub(crate) struct Service {
    app: App,
}

impl Service {
    pub(crate) fn new(app: App) -> Self {
        Self { app }
    }

    /// The pool that a trigger names, and how many workers it wants.
    async fn wanted(&self, object: &ScaledObjectRef) -> Result<(String, u32), Status> {
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

fn metric(pool: &str) -> String {
    format!("divvy-{pool}-workers")
}

#[tonic::async_trait]
impl ExternalScaler for Service {
    async fn is_active(
        &self,
        request: Request<ScaledObjectRef>,
    ) -> Result<Response<IsActiveResponse>, Status> {
        let (_, wanted) = self.wanted(request.get_ref()).await?;
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
        let (pool, wanted) = self.wanted(request.get_ref()).await?;
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
        let (pool, _) = self.wanted(request.get_ref()).await?;
        let spec =
            MetricSpec { metric_name: metric(&pool), target_size: 1, target_size_float: 1.0 };
        Ok(Response::new(GetMetricSpecResponse { metric_specs: vec![spec] }))
    }

    async fn get_metrics(
        &self,
        request: Request<GetMetricsRequest>,
    ) -> Result<Response<GetMetricsResponse>, Status> {
        let GetMetricsRequest { scaled_object_ref, metric_name } = request.into_inner();
        let (pool, wanted) = self.wanted(&scaled_object_ref.unwrap_or_default()).await?;
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
