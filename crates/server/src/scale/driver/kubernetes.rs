//! The scale subresource of a Deployment, StatefulSet or ReplicaSet, by a JSON merge patch. Whoever may do that needs
//! the verb `patch` on `deployments/scale` in the namespace, and no other.
//!
//! Within a cluster the address is in the environment, and the token and the authority are in the files that every pod
//! has; the token is read anew each time, because the cluster changes it. Elsewhere `driver.kubernetes.url` says where,
//! such as that of `kubectl proxy`, and no token is sent.
//!
//! Which pod goes is Kubernetes' choice: it sends SIGTERM, the worker ends what it runs, and
//! `terminationGracePeriodSeconds` says for how long it may.

use std::path::{Path, PathBuf};
use std::time::Duration;

use divvy_client::reqwest::header::{ACCEPT, CONTENT_TYPE};
use divvy_client::{Target, cause, plain};
use divvy_types::cut::tail;
use serde::Deserialize;
use serde_json::json;

use super::{Answer, Order};

/// How long an answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// Where every pod finds who it is.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const TOLD_BYTES_MAX: usize = 500;

/// The part of `autoscaling/v1` `Scale` that is read.
#[derive(Deserialize)]
struct Scale {
    spec: Spec,
}

#[derive(Deserialize)]
struct Spec {
    /// Left out for 0.
    #[serde(default)]
    replicas: u32,
}

/// What the API server says when it refuses.
#[derive(Deserialize)]
struct Status {
    message: String,
}

pub(super) async fn scale(url: Option<&str>, object: [&str; 3], order: &Order) -> Answer {
    let target = match url {
        Some(url) => Target::new(url),
        None => {
            let variable = |name: &str| std::env::var(name).ok();
            in_cluster(variable, Path::new(ACCOUNT))?
        }
    };
    patch(&target, object, order).await
}

/// The API server of the cluster in which this process runs.
fn in_cluster(variable: impl Fn(&str) -> Option<String>, account: &Path) -> Result<Target, String> {
    let (host, port) = variable("KUBERNETES_SERVICE_HOST")
        .zip(variable("KUBERNETES_SERVICE_PORT"))
        .ok_or("this server does not run in a cluster; set driver.kubernetes.url")?;
    let file: PathBuf = account.join("token");
    let token = std::fs::read_to_string(&file)
        .map_err(|error| format!("{} cannot be read: {error}", file.display()))?;
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    let target = Target::new(format!("https://{host}:{port}")).token(token.trim());
    Ok(target.ca(account.join("ca.crt")))
}

async fn patch(target: &Target, [namespace, resource, name]: [&str; 3], order: &Order) -> Answer {
    let [worker_type] = order.settings.worker_types().try_into().map_err(|_| {
        "one Kubernetes object has workers of one type; make a pool of each type".to_owned()
    })?;
    let (client, base) = plain(target).map_err(|error| error.to_string())?;
    let path = format!("apis/apps/v1/namespaces/{namespace}/{resource}/{name}/scale");
    let address = format!("{}/{path}", base.as_str().trim_end_matches('/'));
    let replicas: u32 = order.wanted.values().sum();
    let body = json!({ "spec": { "replicas": replicas } }).to_string();
    let answer = client
        .patch(&address)
        .header(CONTENT_TYPE, "application/merge-patch+json")
        .header(ACCEPT, "application/json")
        .timeout(ANSWER_WITHIN)
        .body(body)
        .send()
        .await
        .map_err(|error| format!("{address} cannot be reached: {}", cause(&error)))?;
    let status = answer.status();
    let text = answer.text().await.map_err(|error| format!("{address}: {}", cause(&error)))?;
    if !status.is_success() {
        let said = serde_json::from_slice(text.as_bytes()).map(|Status { message }| message);
        let said = said.unwrap_or_else(|_| tail(text.trim(), TOLD_BYTES_MAX).to_owned());
        return Err(format!("{address} is refused ({status}): {said}"));
    }
    let scale: Scale = serde_json::from_slice(text.as_bytes())
        .map_err(|error| format!("{address} did not answer with a Scale: {error}"))?;
    Ok([(worker_type.name, scale.spec.replicas)].into())
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use axum::extract::{Request, State};
    use axum::response::{IntoResponse as _, Response};
    use axum::{Json, Router};
    use divvy_types::pools::{Pool, WorkerType};
    use http::StatusCode;
    use serde_json::Value;

    use super::*;

    type Asked = Arc<Mutex<Vec<String>>>;

    /// A small API server: it knows one Deployment, checks what it is asked as the real one does, and answers alike.
    async fn cluster() -> (String, Asked) {
        async fn answer(State(asked): State<Asked>, request: Request) -> Response {
            let (parts, body) = request.into_parts();
            let bytes = axum::body::to_bytes(body, 1 << 16).await.unwrap();
            let header = |name: &str| parts.headers.get(name).and_then(|it| it.to_str().ok());
            let kind = header("content-type").unwrap_or_default().to_owned();
            asked.lock().unwrap().push(format!(
                "{} {} {kind} {}",
                parts.method,
                parts.uri,
                String::from_utf8_lossy(&bytes)
            ));
            let refuse = |status: StatusCode, reason: &str, message: &str| {
                let body = json!({
                    "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                    "message": message, "reason": reason, "code": status.as_u16(),
                });
                (status, Json(body)).into_response()
            };
            if kind != "application/merge-patch+json" {
                let message = "the body of the request was in an unknown format";
                return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message);
            }
            if parts.uri.path() != "/apis/apps/v1/namespaces/media/deployments/encoders/scale" {
                let message = "deployments.apps \"other\" not found";
                return refuse(StatusCode::NOT_FOUND, "NotFound", message);
            }
            let patch: Value = serde_json::from_slice(&bytes).unwrap();
            let replicas = patch["spec"]["replicas"].as_u64().unwrap();
            // Like the real one, it leaves a 0 out.
            let spec = if replicas == 0 { json!({}) } else { json!({ "replicas": replicas }) };
            let body = json!({
                "kind": "Scale", "apiVersion": "autoscaling/v1",
                "metadata": { "name": "encoders", "namespace": "media", "resourceVersion": "71" },
                "spec": spec, "status": { "replicas": 1, "selector": "app=encoders" },
            });
            Json(body).into_response()
        }
        let asked = Asked::default();
        let router = Router::new().fallback(answer).with_state(Arc::clone(&asked));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        (url, asked)
    }

    fn order(wanted: u32) -> Order {
        Order {
            pool: "encoders".into(),
            settings: Pool::default(),
            wanted: [("worker".into(), wanted)].into(),
            connected: [("worker".into(), 1)].into(),
            leave_first: Default::default(),
            reason: "a backlog".into(),
        }
    }

    #[tokio::test]
    async fn the_scale_of_an_object_is_patched() {
        let (url, asked) = cluster().await;
        let object = ["media", "deployments", "encoders"];
        assert_eq!(scale(Some(&url), object, &order(4)).await, Ok([("worker".into(), 4)].into()));
        assert_eq!(scale(Some(&url), object, &order(0)).await, Ok([("worker".into(), 0)].into()));
        let asked = asked.lock().unwrap().clone();
        let path = "/apis/apps/v1/namespaces/media/deployments/encoders/scale";
        assert_eq!(
            asked[0],
            format!(r#"PATCH {path} application/merge-patch+json {{"spec":{{"replicas":4}}}}"#)
        );
    }

    #[tokio::test]
    async fn what_the_cluster_refuses_is_told_in_its_words() {
        let (url, _) = cluster().await;
        let error =
            scale(Some(&url), ["media", "deployments", "other"], &order(1)).await.unwrap_err();
        assert!(error.contains("404") && error.contains("\"other\" not found"), "{error}");
        let mut two = order(1);
        let large = WorkerType { name: "large".into(), ..WorkerType::default() };
        two.settings.types = vec![WorkerType::default(), large];
        let error =
            scale(Some(&url), ["media", "deployments", "encoders"], &two).await.unwrap_err();
        assert!(error.contains("a pool of each type"), "{error}");
    }

    #[test]
    fn within_a_cluster_the_pod_says_who_it_is() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("token"), "secret\n").unwrap();
        let variable = |name: &str| {
            let value = if name.ends_with("HOST") { "10.0.0.1" } else { "443" };
            Some(value.to_owned())
        };
        let target = in_cluster(variable, folder.path()).unwrap();
        assert_eq!(target.server, "https://10.0.0.1:443");
        assert_eq!(target.token.as_deref(), Some("secret"));
        assert_eq!(target.ca, Some(folder.path().join("ca.crt")));
        let error = in_cluster(|_| None, folder.path()).unwrap_err();
        assert!(error.contains("driver.kubernetes.url"), "{error}");
    }
}
