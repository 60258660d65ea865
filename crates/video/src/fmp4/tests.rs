//! Files of MP4 read, damaged and written again.

use std::io::Cursor;

use proptest::prelude::*;

use super::boxes::{Reader, only};
use super::fragment::sequence;
use super::*;

/// Files of three fragments, made by ffmpeg once per test process.
fn sample_file(sound: bool) -> &'static [u8] {
    use std::sync::OnceLock;
    static FILES: [OnceLock<Vec<u8>>; 2] = [OnceLock::new(), OnceLock::new()];
    FILES[usize::from(sound)].get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.mp4");
        let picture = "-f lavfi -i testsrc2=s=64x36:r=10:d=2.5 -c:v libx264 -preset veryfast -g 10 \
                       -keyint_min 10 -sc_threshold 0 -pix_fmt yuv420p -movflags \
                       +frag_keyframe+delay_moov+default_base_moof+skip_trailer";
        let track = "-f lavfi -i sine=d=2.5:sample_rate=48000 -c:a aac -ac 2 -frag_duration 1000000 -movflags \
                     +delay_moov+default_base_moof+skip_trailer";
        let arguments = if sound { track } else { picture };
        let status = std::process::Command::new("ffmpeg")
            .args(["-v", "error", "-nostdin"])
            .args(arguments.split_whitespace())
            .arg(&path)
            .status()
            .unwrap();
        assert!(status.success());
        std::fs::read(path).unwrap()
    })
}

fn read(bytes: &[u8]) -> Result<Movie, Fmp4Error> {
    Movie::read(&mut Cursor::new(bytes))
}

#[test]
fn a_file_is_read_as_its_samples() {
    let movie = read(sample_file(false)).unwrap();
    let counts: Vec<_> = movie.fragments.iter().map(|table| table.samples.len()).collect();
    assert_eq!(counts, [10, 10, 5]);
    assert!(movie.fragments.iter().all(|table| table.samples[0].is_sync()));
    assert!(!movie.fragments[0].samples[1].is_sync());
    let Codec::Avc { width, height, profile } = movie.init.codec else { panic!("not a picture") };
    assert_eq!((width, height, profile[0]), (64, 36, 100));
    assert!(movie.init.codec.name().starts_with("avc1.6400"), "{}", movie.init.codec.name());
    let hidden = i64::try_from(movie.init.hidden).unwrap();
    let mut shown: Vec<_> =
        movie.fragments.iter().flat_map(Table::presentation).map(|at| at - hidden).collect();
    shown.sort_unstable();
    let tick = i64::from(movie.fragments[0].samples[0].duration);
    assert_eq!(shown, (0..25).map(|frame| frame * tick).collect::<Vec<_>>());
}

#[test]
fn sound_is_read_with_its_priming() {
    let movie = read(sample_file(true)).unwrap();
    assert_eq!(movie.init.codec, Codec::Aac { object: 2, sample_rate: 48_000, channels: 2 });
    assert_eq!(movie.init.codec.name(), "mp4a.40.2");
    assert_eq!((movie.init.timescale, movie.init.hidden), (48_000, 1_024));
    let total: u64 = movie.fragments.iter().map(Table::duration).sum();
    assert_eq!(total - movie.init.hidden, 120_000);
}

#[test]
fn what_is_written_is_read_again_with_its_new_place() {
    for sound in [false, true] {
        let file = sample_file(sound);
        let movie = read(file).unwrap();
        let mut moved = movie.fragments.clone();
        for table in &mut moved {
            table.decode_time += 1_000_000;
            table.samples.iter_mut().for_each(|sample| sample.composition += 7);
        }
        let mut written = movie.init.hiding(5).unwrap().bytes;
        let init_length = written.len() as u64;
        let places = movie.write_media(&moved, 40, &mut Cursor::new(file), &mut written).unwrap();
        let again = read(&written).unwrap();
        assert_eq!(again.init.hidden, 5);
        assert_eq!(again.init.codec, movie.init.codec);
        let pairs = again.fragments.iter().zip(&moved).zip(&movie.fragments);
        for (number, ((again, moved), old)) in pairs.enumerate() {
            assert_eq!(again.decode_time, moved.decode_time);
            assert_eq!(again.samples, moved.samples);
            let data = |bytes: &[u8], table: &Table| {
                bytes[table.data.start as usize..table.data.end as usize].to_vec()
            };
            assert_eq!(data(&written, again), data(file, old));
            let (offset, length) = places[number];
            assert_eq!(again.data.end, init_length + offset + length);
            let moof = &written[(init_length + offset) as usize..];
            assert_eq!(
                sequence(only(&moof[..length as usize], b"moof").unwrap()).unwrap(),
                40 + number as u32
            );
        }
        assert_eq!(again.init.hiding(5).unwrap().bytes, again.init.bytes);
        assert_eq!(again.init.hiding(0).unwrap().hidden, 0);
    }
}

#[test]
fn a_file_that_ends_early_is_an_error_wherever_it_ends() {
    for sound in [false, true] {
        let file = sample_file(sound);
        let ends: Vec<u64> =
            read(file).unwrap().fragments.iter().map(|table| table.data.end).collect();
        let init = read(file).unwrap().init.bytes.len();
        for end in (0..file.len()).step_by(7).filter(|end| !ends.contains(&(*end as u64))) {
            assert!(end == init || read(&file[..end]).is_err(), "{end} of {}", file.len());
        }
    }
}

#[test]
fn sizes_that_lie_are_refused_before_memory_is_taken() {
    let mut huge = 0x7fff_ffff_u32.to_be_bytes().to_vec();
    huge.extend(b"moov");
    let message = read(&huge).unwrap_err().to_string();
    assert!(message.contains("moov") && message.contains("2147483647"), "{message}");
    let mut many = sample_file(false).to_vec();
    let at = many.windows(4).position(|kind| kind == b"trun").unwrap() + 8;
    many[at..at + 4].copy_from_slice(&u32::MAX.to_be_bytes());
    let message = read(&many).unwrap_err().to_string();
    assert!(message.contains("more than 32768 samples"), "{message}");
    assert!(Reader(&[1, 2]).u32().is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn damaged_files_never_panic_and_never_grow(
        sound: bool,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        tables_only: bool,
    ) {
        let mut bytes = sample_file(sound).to_vec();
        // Most bytes are data, where damage is not seen: aim at the tables half of the time.
        let range = if tables_only { bytes.len().min(1_600) } else { bytes.len() };
        for (at, value) in damage {
            bytes[at.index(range)] = value;
        }
        if let Ok(movie) = read(&bytes) {
            let size: u64 = movie.fragments.iter().map(|table| table.data.end - table.data.start).sum();
            prop_assert!(size <= bytes.len() as u64);
            movie.fragments.iter().for_each(|table| { table.presentation().count(); table.duration(); });
            let mut out = Vec::new();
            let _ = movie.init.hiding(2);
            let _ = movie.write_media(&movie.fragments, 1, &mut Cursor::new(&bytes), &mut out);
        }
    }

    #[test]
    fn noise_is_an_error(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
        prop_assert!(read(&bytes).is_err());
    }
}
