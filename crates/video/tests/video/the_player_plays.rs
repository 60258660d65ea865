//! The pages in a real browser: they play, switch, show subtitles and thumbnails, follow a video that is being made,
//! and never do what their policy forbids.

use crate::web_support::{World, clip, video};
use anyhow::Result;
use divvy_e2e::browser::Browser;
use divvy_video::library::{Video, VideoState};
use divvy_video::plan::{Plan, Providers};
use serde_json::json;

/// A world with one video that can be watched.
async fn world_with(change: impl FnOnce(&mut Video)) -> World {
    let world = World::start().await;
    let (manifest, parts) = clip::publish(&world.objects).await;
    let plan = Plan::new(parts.probe, &parts.recipe, &parts.tools, &Providers::default()).unwrap();
    let plan = world.objects.put(serde_json::to_vec(&plan).unwrap()).await.unwrap();
    let mut ready = video("clip00000001", "A tone & a <test> picture");
    ready.state = VideoState::Ready;
    ready.plan = Some(plan.id);
    ready.manifest = Some(manifest);
    ready.ended_at = Some(ready.added_at + 12_000_000);
    change(&mut ready);
    world.record(&ready).await;
    world
}

#[tokio::test]
async fn a_video_plays_with_all_that_the_controls_offer() -> Result<()> {
    let world = world_with(|_| {}).await;
    let mut page = Browser::start().await?;
    page.open(&world.url("/videos/clip00000001")).await?;
    page.until("document.querySelector('#video').readyState >= 1").await?;
    assert_eq!(
        page.value("document.querySelector('h1').textContent").await?,
        "A tone & a <test> picture"
    );

    page.click("#big-play").await?;
    page.until("document.querySelector('#video').currentTime > 0.3").await?;
    page.until("document.querySelector('#play').getAttribute('aria-label') === 'Pause'").await?;
    let both = "(() => { const q = document.querySelector('#video').getVideoPlaybackQuality(); return q.totalVideoFrames > 3 && q.corruptedVideoFrames === 0; })()";
    page.until(both).await?;

    for (choice, width) in [("90p", 160), ("180p", 320), ("90p", 160)] {
        page.click("[data-menu=quality] > button").await?;
        let find = format!(
            "[...document.querySelectorAll('[data-menu=quality] [role=menuitemradio]')].find((item) => item.textContent === '{choice}')"
        );
        page.value(&format!("{find}.id = 'wanted'")).await?;
        page.click("#wanted").await?;
        // Near the end there is nothing left to load in the other size.
        page.value("document.querySelector('#video').currentTime = 0").await?;
        page.value("document.querySelector('#video').play()").await?;
        page.until(&format!("document.querySelector('#video').videoWidth === {width}")).await?;
    }

    page.value("document.activeElement.blur()").await?;
    page.press("c").await?;
    let cue = format!("document.querySelector('#captions').textContent === {}", json!(clip::CUE));
    page.until(&cue).await?;
    page.press("c").await?;
    page.until("document.querySelector('#captions').textContent === ''").await?;

    page.hover("#scrubber", 0.6).await?;
    page.until("!document.querySelector('#preview').hidden && document.querySelector('#preview-image').offsetWidth === 128").await?;
    assert_eq!(page.value("document.querySelector('#preview-time').textContent").await?, "0:03");
    // The fourth picture is the first one of the second row.
    let place = "document.querySelector('#preview-image').style.backgroundPosition";
    assert_eq!(page.value(place).await?, "0px -72px");
    let sheet = "performance.getEntriesByType('resource').some((entry) => entry.name.endsWith('sprite_000.jpg') && entry.responseStatus === 200)";
    page.until(sheet).await?;

    page.press("m").await?;
    page.until("document.querySelector('#video').muted").await?;
    page.value("document.querySelector('#video').pause()").await?;
    page.value("document.querySelector('#video').currentTime = 0.5").await?;
    page.press("ArrowRight").await?;
    page.until("document.querySelector('#video').currentTime >= 5.4").await?;
    page.press(" ").await?;
    page.until("document.querySelector('#video').ended").await?;
    page.until("document.querySelector('#play').getAttribute('aria-label') === 'Play again'")
        .await?;

    assert_eq!(page.value("document.querySelectorAll('#renditions tr').length").await?, 2);
    assert_eq!(page.value("document.querySelector('#video').error").await?, json!(null));
    assert_eq!(page.complaints(), [""; 0]);
    page.close().await?;
    world.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_video_that_is_being_made_shows_itself_when_it_is_ready() -> Result<()> {
    let world = world_with(|_| {}).await;
    let ready: Video =
        world.objects.record("video/library/clip00000001").await.unwrap().unwrap().value;
    let mut busy = video("clip00000001", &ready.title);
    busy.workflow = ready.workflow.clone();
    world.record(&busy).await;
    let mut page = Browser::start().await?;
    page.open(&world.url("/videos/clip00000001")).await?;
    page.until("document.querySelector('#curtain-title').textContent.startsWith('Processing')")
        .await?;
    assert_eq!(page.value("document.querySelector('#state').textContent").await?, "Processing");

    world.record(&ready).await;
    page.until("document.querySelector('#video').currentTime > 0.2").await?;
    page.until("document.querySelector('#curtain').hidden").await?;
    assert_eq!(page.value("document.querySelector('#state').textContent").await?, "Ready");
    assert_eq!(page.complaints(), [""; 0]);
    page.close().await?;
    world.stop().await;
    Ok(())
}

#[tokio::test]
async fn the_library_goes_on_where_a_part_of_it_ended() -> Result<()> {
    let world = World::start().await;
    for number in 0..100 {
        let mut failed = video(&format!("failed000{number:03}"), "Broken");
        (failed.state, failed.added_at) = (VideoState::Failed, number);
        world.record(&failed).await;
    }
    let mut page = Browser::start().await?;
    page.open(&world.url("/videos")).await?;
    let shows = |count: usize| format!("document.querySelectorAll('.video').length === {count}");
    page.until(&shows(48)).await?;
    // It reads the list at first, and again when it begins to hear of changes.
    let asked = "performance.getEntriesByType('resource').map((one) => one.name.split('limit=')[1]).filter(Boolean)";
    page.until(&format!("{asked}.length === 2")).await?;
    page.click("#more").await?;
    page.until(&shows(96)).await?;
    let behind = "48&after=52.failed000052";
    assert_eq!(page.value(asked).await?, json!(["48", "48", behind]), "only what is missing");
    page.click("#more").await?;
    page.until(&shows(100)).await?;
    page.until("document.querySelector('#more').hidden").await?;
    assert_eq!(page.complaints(), [""; 0]);
    page.close().await?;
    world.stop().await;
    Ok(())
}

#[tokio::test]
async fn the_library_shows_what_there_is_and_why_something_failed() -> Result<()> {
    let world = world_with(|_| {}).await;
    let mut failed = video("failed000001", "Broken");
    failed.state = VideoState::Failed;
    failed.reason = Some("the source has no picture".to_owned());
    world.record(&failed).await;
    let mut page = Browser::start().await?;
    page.open(&world.url("/videos")).await?;
    page.until("document.querySelectorAll('.video').length === 2").await?;
    page.until("document.querySelector('.video img:not([hidden])')?.naturalWidth === 320").await?;
    assert_eq!(
        page.value("document.querySelector('.video .length:not([hidden])').textContent").await?,
        "0:06"
    );
    page.click("[data-state=failed]").await?;
    page.until(
        "document.querySelector('#curtain-text')?.textContent === 'The source has no picture'",
    )
    .await?;
    assert_eq!(page.complaints(), [""; 0]);
    page.close().await?;
    world.stop().await;
    Ok(())
}
