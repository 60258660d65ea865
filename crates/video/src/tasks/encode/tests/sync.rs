//! Whether what is seen and what is heard stay together.

use super::bench::{Bench, Trial, tool};

/// White for a frame and a click at each whole second; the sound begins 0.3 s before the picture and has six channels.
const CLICKS: &str = "-v error -f lavfi -i color=black:s=64x36:r=30000/1001:d=6.006,geq=lum='if(eq(mod(N,30),0),235,16)':cb=128:cr=128 \
                      -f lavfi -itsoffset -0.3 -i aevalsrc='if(lt(mod(t-0.3+1.001,1.001),0.005),0.8*sin(2*PI*1000*t),0)':s=44100:d=5 \
                      -c:v libx264 -preset ultrafast -g 250 -pix_fmt yuv420p -c:a pcm_s16le -af pan=5.1|c0=c0|c1=c0|c2=c0|c3=c0|c4=c0|c5=c0 -y {}";

#[tokio::test]
async fn flashes_and_clicks_stay_together_to_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let clip = folder.path().join("clicks.mkv");
    tool("ffmpeg", CLICKS, &clip);
    let trial = Trial { rungs: vec![(64, 36)], preset: "veryfast", ..Trial::at(30_000, 1_001) };
    let bench = Bench::with(folder, clip, &trial).await;
    let manifest = bench.whole().await.unwrap();
    let folder = bench.export(&manifest).await;
    for file in ["mp4/36p.mp4", "master.m3u8"] {
        let file = folder.join(file);
        let (picture, _) =
            tool("ffmpeg", "-v error -copyts -i {} -map 0:v -f rawvideo -pix_fmt gray -", &file);
        let bright =
            |frame: &[u8]| frame.iter().map(|&p| u32::from(p)).sum::<u32>() > 64 * 36 * 128;
        let flashes: Vec<usize> = picture
            .chunks(64 * 36)
            .enumerate()
            .filter(|(_, f)| bright(f))
            .map(|(n, _)| n)
            .collect();
        assert_eq!(flashes, [0, 30, 60, 90, 120, 150], "{}", file.display());
        let (sound, _) = tool(
            "ffmpeg",
            "-v error -copyts -i {} -map 0:a -af aresample=async=1:first_pts=0 -f s16le -ac 1 -",
            &file,
        );
        let samples: Vec<i16> =
            sound.chunks_exact(2).map(|two| i16::from_le_bytes([two[0], two[1]])).collect();
        for (second, &flash) in flashes.iter().enumerate().take(4) {
            let shown = flash as f64 * 1_001.0 / 30_000.0;
            let from = ((shown - 0.3).max(0.0) * 48_000.0) as usize;
            let heard = samples[from..].iter().position(|sample| sample.unsigned_abs() > 3_000);
            let heard = (from + heard.unwrap()) as f64 / 48_000.0;
            assert!(
                (heard - shown).abs() < 0.010,
                "second {second}: seen at {shown}, heard at {heard}"
            );
        }
    }
}

#[tokio::test]
async fn sound_is_exactly_as_long_as_the_picture() {
    let trial = Trial { rungs: vec![(64, 36)], ..Trial::at(30, 1) };
    for (name, rate, samples) in [
        ("audio_short", Trial::at(30, 1), 144_000),
        ("audio_long", Trial::at(30, 1), 96_000),
        ("surround", Trial::at(30, 1), 48_000),
        ("late_audio", Trial::at(30, 1), 192_000),
        ("cfr2997", Trial::at(30_000, 1_001), 144_144),
    ] {
        let bench = Bench::of(name, &Trial { rate: rate.rate, ..trial.clone() }).await;
        bench.sound().await.unwrap();
        let sound = bench.track(0).await;
        let heard: u64 = sound.fragments.iter().map(|fragment| fragment.samples).sum();
        assert_eq!(
            (sound.samples, heard, sound.codec.as_str()),
            (samples, samples, "mp4a.40.2"),
            "{name}"
        );
        assert_eq!(sound.repaired, 0);
    }
}
