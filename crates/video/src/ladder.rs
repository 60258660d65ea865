//! Which renditions a source gets: the wanted heights that it reaches, and its own if that is none of them.
//!
//! Height means the short side, so that a portrait `720p` has as many pixels as a landscape one. Nothing is enlarged,
//! except that a side has at least two pixels. Does not know of chunks or keys.

use crate::FrameRate;

/// Bits per second that 1920x1080 at up to 30 frames per second may take.
const BITRATE_1080P: f64 = 8_000_000.0;
const PIXELS_1080P: f64 = 1920.0 * 1080.0;
/// The longest side that H.264 encoders take.
const SIDE_MAX: u32 = 16_384;
/// Caps are whole numbers of this, and at least four of it.
const BITRATE_STEP: f64 = 50_000.0;

/// The size of a rendition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    /// Its name, such as `720p`.
    pub(crate) name: String,
    /// Width in pixels, even.
    pub(crate) width: u32,
    /// Height in pixels, even.
    pub(crate) height: u32,
    /// The cap on bits per second.
    pub(crate) bitrate_max: u32,
}

/// The sizes for a source that is shown with this width and height, largest first; at least one.
pub(crate) fn sizes(width: u32, height: u32, rate: FrameRate, ladder: &[u32]) -> Vec<Size> {
    let own = even_down(width.min(height));
    let mut heights: Vec<u32> = ladder.iter().copied().filter(|&wanted| wanted <= own).collect();
    if ladder.iter().any(|&wanted| wanted > own) {
        heights.push(own);
    }
    heights.sort_unstable_by(|one, other| other.cmp(one));
    heights.dedup();
    heights.into_iter().map(|short| size(width, height, short, rate)).collect()
}

fn size(width: u32, height: u32, short: u32, rate: FrameRate) -> Size {
    let long = even_near(width.max(height), short, width.min(height));
    let (width, height) = if width >= height { (long, short) } else { (short, long) };
    Size { name: format!("{short}p"), width, height, bitrate_max: bitrate_max(width, height, rate) }
}

/// Large pictures need fewer bits for each pixel, and so do fast ones for each frame. Only square roots are taken,
/// because they are exact and so the same on every machine: the cap is part of the key of the result.
fn bitrate_max(width: u32, height: u32, rate: FrameRate) -> u32 {
    let share = f64::from(width) * f64::from(height) / PIXELS_1080P;
    let by_size = share.sqrt() * share.sqrt().sqrt();
    let by_rate = (rate.per_second() / 30.0).max(1.0).sqrt();
    let steps = (BITRATE_1080P * by_size * by_rate / BITRATE_STEP).round().max(4.0);
    (steps * BITRATE_STEP) as u32
}

fn even_down(side: u32) -> u32 {
    (side / 2 * 2).max(2)
}

/// The even number nearest to `long * to / from`.
fn even_near(long: u32, to: u32, from: u32) -> u32 {
    let (long, to, from) = (u64::from(long), u64::from(to), u64::from(from.max(1)));
    let half = (long * to + from) / (from * 2);
    u32::try_from(half * 2).unwrap_or(u32::MAX).clamp(2, SIDE_MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DEFAULT: [u32; 3] = [1080, 720, 480];

    fn rate(frames: u32) -> FrameRate {
        FrameRate { frames, seconds: 1 }
    }

    fn shown(width: u32, height: u32, ladder: &[u32]) -> Vec<(String, u32, u32)> {
        let sizes = sizes(width, height, rate(30), ladder);
        sizes.into_iter().map(|size| (size.name, size.width, size.height)).collect()
    }

    #[test]
    fn nothing_is_enlarged_and_the_own_height_joins() {
        type Row = ((u32, u32), &'static [(&'static str, u32, u32)]);
        let table: &[Row] = &[
            ((1920, 1080), &[("1080p", 1920, 1080), ("720p", 1280, 720), ("480p", 854, 480)]),
            ((3840, 2160), &[("1080p", 1920, 1080), ("720p", 1280, 720), ("480p", 854, 480)]),
            ((1600, 900), &[("900p", 1600, 900), ("720p", 1280, 720), ("480p", 854, 480)]),
            ((854, 480), &[("480p", 854, 480)]),
            ((320, 180), &[("180p", 320, 180)]),
            ((1080, 1920), &[("1080p", 1080, 1920), ("720p", 720, 1280), ("480p", 480, 854)]),
            ((180, 320), &[("180p", 180, 320)]),
            ((321, 241), &[("240p", 320, 240)]),
            ((1, 1), &[("2p", 2, 2)]),
            ((500, 1), &[("2p", 1000, 2)]),
        ];
        for ((width, height), expected) in table {
            let expected: Vec<_> =
                expected.iter().map(|(name, w, h)| ((*name).to_owned(), *w, *h)).collect();
            assert_eq!(shown(*width, *height, &DEFAULT), expected, "{width}x{height}");
        }
        assert_eq!(shown(321, 241, &[240]).len(), 1);
    }

    #[test]
    fn caps_grow_with_size_and_rate() {
        let caps: Vec<u32> =
            sizes(1920, 1080, rate(30), &DEFAULT).iter().map(|size| size.bitrate_max).collect();
        assert_eq!(caps, [8_000_000, 4_350_000, 2_350_000]);
        assert_eq!(sizes(1920, 1080, rate(60), &[1080])[0].bitrate_max, 11_300_000);
        assert_eq!(sizes(2, 2, rate(30), &[1080])[0].bitrate_max, 200_000);
    }

    proptest! {
        #[test]
        fn sides_are_even_names_differ_and_the_shape_stays(
            width in 1_u32..16_384,
            height in 1_u32..16_384,
            ladder in prop::collection::vec((8_u32..=2_160).prop_map(|half| half * 2), 1..8),
        ) {
            let sizes = sizes(width, height, rate(30), &ladder);
            prop_assert!(!sizes.is_empty());
            for (at, size) in sizes.iter().enumerate() {
                prop_assert!(size.width % 2 == 0 && size.height % 2 == 0);
                prop_assert!(size.width.min(size.height) <= width.min(height).max(2));
                prop_assert!((size.width >= size.height) == (width >= height) || size.width == size.height
                    || width == height);
                prop_assert!(sizes[..at].iter().all(|other| other.name != size.name));
                if width.min(height) >= 2 {
                    let exact = f64::from(width.max(height)) * f64::from(size.width.min(size.height))
                        / f64::from(width.min(height));
                    prop_assert!((f64::from(size.width.max(size.height)) - exact).abs() <= 1.0);
                }
            }
        }
    }
}
