//! Follows one thing until it has ended, by the server's events.
//!
//! A connection that breaks is opened again; a server may be away for a while, it comes back where it was. Knows neither
//! what the thing is nor how it is shown.

use anyhow::Result;
use divvy::Error;
use divvy::api::{Api, Frames, Patience};
use serde::de::DeserializeOwned;

/// Waits for the end of the thing with this id below `place` of the API; how it ended. `show` sees every state of it and
/// says whether that is the last one. `E` is what an event carries.
///
/// # Errors
/// If the server refuses, has never answered, or is away for too long.
pub async fn until_final<V, E>(
    api: &Api,
    place: &str,
    id: &str,
    mut show: impl FnMut(&V) -> bool,
) -> Result<V>
where
    V: DeserializeOwned,
    E: DeserializeOwned + Into<V>,
{
    let mut patience = Patience::once_answered();
    loop {
        match one_connection::<V, E>(api, place, id, &mut show, &mut patience).await {
            Ok(Some(view)) => return Ok(view),
            Ok(None) => patience.rest().await,
            Err(error) => patience.bear(error).await?,
        }
    }
}

/// Follows one connection: the end, or nothing if the connection ended before.
async fn one_connection<V: DeserializeOwned, E: DeserializeOwned + Into<V>>(
    api: &Api,
    place: &str,
    id: &str,
    show: &mut impl FnMut(&V) -> bool,
    patience: &mut Patience,
) -> Result<Option<V>, Error> {
    let mut frames = Frames::open(api, &[place, id, "events"], &[]).await?;
    patience.renew();
    while let Some(frame) = frames.next().await? {
        let Ok(event) = serde_json::from_slice::<E>(frame.data.as_bytes()) else { continue };
        patience.renew();
        let view: V = event.into();
        if show(&view) {
            return Ok(Some(view));
        }
    }
    // The stream ends with the thing, or with the connection: the thing itself says which.
    let view: V = api.get(&[place, id], &[]).await?.parse()?;
    Ok(show(&view).then_some(view))
}
