//! Addresses: two of the API, and two for people.

use anyhow::Result;
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use divvy::Client;
use divvy::objects::{BlobId, Objects};
use divvy_workload::http::{ApiError, Frame, JsonBody, PathText, Routes, Scope, get, pages, post};
use divvy_workload::{ServerContext, ServerPart};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use prometheus_client::metrics::counter::Counter;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::settings::Settings;
use crate::tasks::{RECORDS, Scale, Thumbnail};

/// The code of a refusal: there is no such thumbnail.
const NO_THUMBNAIL: &str = "no_such_thumbnail";
/// The code of a refusal: the objects or the server cannot be reached.
const BROKEN: &str = "thumbnails_broken";

/// The page, with the frame of all pages in its places, and a place for the thumbnails.
const PAGE: &str = r#"<!doctype html>
<html lang="en">
<head>
{{head}}
<title>{{title}} · divvy</title>
</head>
<body>
{{frame}}
<main class="page"><h1>{{title}}</h1>{{figures}}</main>
</body>
</html>
"#;

/// What the handlers share.
#[derive(Clone, Debug)]
pub(crate) struct Gallery {
    client: Client,
    objects: Objects,
    frame: Frame,
    width: u32,
    added: Counter,
}

/// A picture that was stored as a blob and wants a thumbnail.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewPicture {
    /// What people call it.
    pub(crate) name: String,
    /// The name of its blob.
    pub(crate) picture: BlobId,
}

/// The task that makes a thumbnail.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Added {
    /// Its id.
    pub(crate) task: String,
}

/// A thumbnail that is there.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Shown {
    /// What people call the picture.
    pub(crate) name: String,
    /// Where the thumbnail is.
    pub(crate) path: String,
}

impl Gallery {
    /// A gallery on this server.
    pub(crate) fn new(context: &ServerContext) -> Result<Self> {
        Ok(Self {
            client: context.client.clone(),
            objects: context.objects.clone(),
            frame: context.frame.clone(),
            width: Settings::read(&context.sources)?.width.value,
            added: Counter::default(),
        })
    }

    /// What it brings to the server.
    pub(crate) fn part(self) -> ServerPart {
        let added = self.added.clone();
        let routes = Routes::new([
            get("/api/v1/thumbnails", list).summary("List the thumbnails that are there"),
            post("/api/v1/thumbnails", add)
                .scope(Scope::Submit)
                .summary("Make a thumbnail of a picture"),
            get("/thumbnails", page).summary("The thumbnails, for people").gives_media("text/html"),
            get("/thumbnails/{key}", image)
                .summary("One thumbnail")
                .gives_media("image/png")
                .refuses([404]),
        ])
        .with_codes(&[NO_THUMBNAIL, BROKEN])
        .with_state(self);
        ServerPart {
            routes,
            pages: vec![("Thumbnails", "/thumbnails")],
            metrics: Some(Box::new(|figures| {
                figures.register("added", "Pictures that were added", added);
            })),
            ..ServerPart::default()
        }
    }

    async fn all(&self) -> Result<Vec<Thumbnail>, ApiError> {
        let mut found = Vec::new();
        for name in self.objects.record_names(RECORDS).await.map_err(broken)? {
            let record = self.objects.record::<Thumbnail>(name.as_str()).await.map_err(broken)?;
            found.extend(record.map(|record| record.value));
        }
        Ok(found)
    }
}

async fn list(State(gallery): State<Gallery>) -> Result<Json<Vec<Shown>>, ApiError> {
    let shown = |made: Thumbnail| Shown { path: path(&made), name: made.name };
    Ok(Json(gallery.all().await?.into_iter().map(shown).collect()))
}

async fn add(
    State(gallery): State<Gallery>,
    JsonBody(new): JsonBody<NewPicture>,
) -> Result<Json<Added>, ApiError> {
    if gallery.objects.blob(new.picture).await.map_err(broken)?.is_none() {
        return Err(ApiError::field("picture", "names no blob of this server; store it first"));
    }
    let task = Scale { name: new.name, picture: new.picture, width: gallery.width };
    let handle = gallery.client.submit(task).await.map_err(broken)?;
    gallery.added.inc();
    Ok(Json(Added { task: handle.id().to_string() }))
}

async fn page(State(gallery): State<Gallery>) -> Result<Response, ApiError> {
    let mut figures = String::new();
    for made in gallery.all().await? {
        let (name, image) = (pages::escape(&made.name), path(&made));
        figures.push_str(&format!(
            "<figure><img src=\"{image}\" alt=\"\"><figcaption>{name}</figcaption></figure>"
        ));
    }
    let page = gallery.frame.filled(PAGE, "/thumbnails", "Thumbnails");
    let text = page.replace("{{figures}}", &figures);
    let policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; form-action 'self'; frame-ancestors 'none'".to_owned();
    Ok(pages::page(StatusCode::OK, policy, text))
}

async fn image(
    State(gallery): State<Gallery>,
    PathText(key): PathText,
) -> Result<Response, ApiError> {
    let name = format!("{RECORDS}{key}");
    let made = gallery.objects.record::<Thumbnail>(&name).await.map_err(broken)?;
    let Some(made) = made else {
        let message = "there is no such thumbnail; it was never added, or is being made";
        return Err(ApiError::new(StatusCode::NOT_FOUND, NO_THUMBNAIL, message));
    };
    let bytes = gallery.objects.get(made.value.thumbnail).await.map_err(broken)?;
    Ok(([(CONTENT_TYPE, "image/png")], bytes).into_response())
}

fn path(made: &Thumbnail) -> String {
    format!("/thumbnails/{}", made.key())
}

fn broken(error: impl std::fmt::Display) -> ApiError {
    ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, BROKEN, error.to_string())
}
