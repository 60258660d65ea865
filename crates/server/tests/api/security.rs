//! Who may ask.

use divvy_client::{Channel, Target};
use divvy_proto::v1::SubmitRequest;
use divvy_proto::v1::submit_client::SubmitClient;
use reqwest::Method;
use tonic::Code;

use crate::world::{World, hello};

#[tokio::test]
async fn a_foreign_host_is_refused_on_every_method() {
    let world = World::with(
        |options| options.allowed_hosts = vec!["divvy.example".into()],
        Default::default(),
    )
    .await;
    for method in [Method::GET, Method::POST, Method::DELETE, Method::OPTIONS] {
        for path in ["/api/v1/tasks", "/healthz", "/", "/nothing"] {
            let answer = world.request(method.clone(), path, &[("host", "evil.example")]).await;
            answer.refused(403, "host_not_allowed");
        }
    }
    for host in ["localhost", "127.0.0.1:9", "[::1]:7171", "divvy.example", "DIVVY.example:7171"] {
        assert_eq!(
            world.request(Method::GET, "/api/v1/tasks", &[("host", host)]).await.status,
            200,
            "{host}"
        );
    }
}

#[tokio::test]
async fn a_page_of_another_origin_is_refused() {
    let world = World::start().await;
    let own = format!("http://{}", world.address);
    for origin in ["http://evil.example", "null", "http://127.0.0.1:1", &format!("{own}0")] {
        for method in [Method::GET, Method::POST] {
            let answer =
                world.request(method, "/api/v1/queues/q/pause", &[("origin", origin)]).await;
            answer.refused(403, "origin_not_allowed");
        }
    }
    let answer = world.request(Method::POST, "/api/v1/queues/q/pause", &[("origin", &own)]).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert!(answer.headers.get("access-control-allow-origin").is_none());
}

#[tokio::test]
async fn a_token_is_needed_everywhere_but_for_health() {
    let world =
        World::with(|options| options.token = Some("secret-1".into()), Default::default()).await;
    for path in ["/healthz", "/readyz"] {
        assert_eq!(world.get(path).await.status, 200);
    }
    for path in
        ["/", "/metrics", "/api/v1/tasks", "/api/v1/events", "/api/v1/openapi.json", "/nothing"]
    {
        let answer = world.get(path).await;
        answer.refused(401, "unauthorized");
        assert_eq!(answer.headers["www-authenticate"], "Bearer");
        for wrong in ["Bearer secret", "Bearer secret-12", "Basic secret-1", "secret-1", "Bearer "]
        {
            world
                .request(Method::GET, path, &[("authorization", wrong)])
                .await
                .refused(401, "unauthorized");
        }
    }
    let answer =
        world.request(Method::GET, "/api/v1/tasks", &[("authorization", "Bearer secret-1")]).await;
    assert_eq!(answer.status, 200);
}

#[tokio::test]
async fn grpc_needs_the_token_too() {
    let world =
        World::with(|options| options.token = Some("secret-1".into()), Default::default()).await;
    let mut stranger = world.submitter().await;
    let status = stranger.submit(SubmitRequest::default()).await.unwrap_err();
    assert_eq!(status.code(), Code::Unauthenticated, "{status}");
    assert_eq!(status.metadata().get("divvy-code").unwrap(), "unauthorized");
    let status = world.worker(hello("w", &["a"])).await.err().expect("refused");
    assert_eq!(status.code(), Code::Unauthenticated, "{status}");
    let channel = Channel::to(Target::new(world.url("")).token("secret-1")).unwrap();
    let mut client = SubmitClient::with_origin(channel.clone(), channel.origin());
    assert_eq!(client.submit(SubmitRequest::default()).await.unwrap().into_inner().accepted, 0);
}

#[tokio::test]
async fn every_answer_is_hardened() {
    let world = World::start().await;
    for path in ["/", "/api/v1/tasks", "/metrics", "/nothing", "/healthz"] {
        let answer = world.get(path).await;
        for (header, value) in [
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("cache-control", "no-store"),
        ] {
            assert_eq!(answer.headers[header], value, "{path}");
        }
        assert!(
            answer.headers["content-security-policy"]
                .to_str()
                .unwrap()
                .contains("default-src 'none'"),
            "{path}"
        );
    }
}

/// A server with a token, and what a browser sends when a person opens a page.
async fn guarded() -> World {
    World::with(|options| options.token = Some("secret-1".into()), Default::default()).await
}

const PAGE: (&str, &str) = ("accept", "text/html,application/xhtml+xml,*/*;q=0.8");

async fn sign_in(world: &World, form: &'static str, origin: &str) -> reqwest::Response {
    let client = reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .unwrap();
    client
        .post(world.url("/sign-in"))
        .header("content-type", "application/x-www-form-urlencoded")
        .header("origin", origin)
        .body(form)
        .send()
        .await
        .unwrap()
}

#[tokio::test]
async fn a_person_without_a_token_is_asked_for_it() {
    let world = guarded().await;
    let answer = world.request(Method::GET, "/videos/x?a=1&b=%22", &[PAGE]).await;
    assert_eq!(answer.status, 401);
    assert!(answer.headers["content-type"].to_str().unwrap().starts_with("text/html"));
    assert!(answer.text.contains("value=\"/videos/x?a=1&amp;b=%22\""), "{}", answer.text);
    assert!(!answer.text.contains("secret-1"));
    // A program that accepts anything is told in its own words.
    let any = world.request(Method::GET, "/", &[("accept", "*/*")]).await;
    any.refused(401, "unauthorized");
    world.request(Method::POST, "/api/v1/tasks", &[PAGE]).await.refused(401, "unauthorized");
}

#[tokio::test]
async fn who_signs_in_gets_a_cookie_that_is_as_good_as_the_token() {
    let world = guarded().await;
    let own = world.url("");
    let answer = sign_in(&world, "token=secret-1&next=%2Fmetrics", &own).await;
    assert_eq!(
        (answer.status().as_u16(), &answer.headers()["location"]),
        (303, &"/metrics".parse().unwrap())
    );
    let cookie = answer.headers()["set-cookie"].to_str().unwrap().to_owned();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    assert!(!cookie.contains("secret-1"));
    let pair = cookie.split(';').next().unwrap();
    for path in ["/metrics", "/api/v1/tasks", "/"] {
        assert_eq!(
            world.request(Method::GET, path, &[("cookie", pair)]).await.status,
            200,
            "{path}"
        );
    }
    let page = world.request(Method::GET, "/", &[("cookie", pair)]).await;
    assert!(page.text.contains("action=\"/sign-out\""), "there is no way out: {}", page.text);
    // A page of another origin is refused with the cookie too, and so is a wrong token beside it.
    let foreign = [("cookie", pair), ("origin", "http://evil.example")];
    world
        .request(Method::POST, "/api/v1/queues/q/pause", &foreign)
        .await
        .refused(403, "origin_not_allowed");
    let wrong = [("cookie", pair), ("authorization", "Bearer x")];
    world.request(Method::GET, "/metrics", &wrong).await.refused(401, "unauthorized");

    let answer =
        world.request(Method::POST, "/sign-out", &[("cookie", pair), ("origin", &own)]).await;
    let gone = answer.headers.get("set-cookie").map(|value| value.to_str().unwrap().to_owned());
    assert!(gone.is_none_or(|cookie| cookie.contains("Max-Age=0")));
    let old = world.request(Method::GET, "/metrics", &[("cookie", pair)]).await;
    old.refused(401, "unauthorized");
}

#[tokio::test]
async fn a_wrong_token_or_a_foreign_page_signs_nobody_in() {
    let world = guarded().await;
    let own = world.url("");
    for form in ["token=secret", "token=", "next=%2F", "token=secret-12", ""] {
        let answer = sign_in(&world, form, &own).await;
        assert_eq!(answer.status(), 401, "{form}");
        assert!(answer.headers().get("set-cookie").is_none());
    }
    let answer = sign_in(&world, "token=secret-1", "http://evil.example").await;
    assert_eq!(answer.status(), 403);
    let answer = sign_in(&world, "token=secret-1&next=%2F%2Fevil.example", &own).await;
    assert_eq!(answer.headers()["location"], "/");
}
