//! When the pictures of a source are shown, as its packets say: read line by line, so that hours fit.

use std::io::{self, BufRead, Read};

use super::{HOURS_MAX, Refusal};

/// The fields of a packet that are asked for; ffprobe prints them in this order.
pub(super) const ENTRIES: &str = "packet=pts,dts,duration,flags";

/// As many packets as the longest source has at 240 pictures a second.
const PACKETS_MAX: u64 = HOURS_MAX * 3_600 * 240;
/// No packet is described by a longer line.
const LINE_BYTES_MAX: u64 = 4_096;

/// Packets may be out of order by so many pictures, in sloppy files.
const BACK_FRAMES_MAX: i64 = 16;
/// In a format whose clock may be set anew, a gap of more seconds than this is no pause, but another clock. ffmpeg
/// draws the line there too.
const GAP_SECONDS_MAX: i64 = 10;

/// What the times of a format may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Times {
    /// They only go on; a long gap is a picture that is shown for long.
    Steady,
    /// The same, but they may begin below zero, which is not told or not understood everywhere.
    MayBeginBelowZero,
    /// The clock may have been set anew as well: it goes back, or jumps ahead.
    MayJump {
        /// Units of the time base in a second.
        per_second: i64,
    },
}

/// The pictures of a source in the order in which they are shown, in units of its time base.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Timeline {
    /// How many packets there are.
    pub(super) packets: u64,
    /// When each picture is shown; at least one. Packets that are only there to decode others are not in it, nor are
    /// pictures before the first key frame, which cannot be decoded.
    pub(super) shown: Vec<i64>,
    /// When each key frame is shown, those that are only there to decode others too.
    pub(super) keys: Vec<i64>,
    /// How long the last picture is shown, if the source says it.
    pub(super) last_duration: Option<i64>,
}

impl Timeline {
    /// Reads what ffprobe printed, one packet a line.
    pub(super) fn read(mut from: impl BufRead, times: Times) -> Result<Self, ReadError> {
        let mut timeline = Self::default();
        let (mut last, mut before, mut first_key) = (None, None, None);
        let mut line = Vec::new();
        loop {
            line.clear();
            if from.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)? == 0 {
                break;
            }
            let Some(packet) = Packet::parse(&line) else { continue };
            timeline.packets += 1;
            if timeline.packets > PACKETS_MAX {
                return Err(refused(format!(
                    "it has more than {PACKETS_MAX} pictures, which is more than {HOURS_MAX} hours hold"
                )));
            }
            times.check(before, &packet, timeline.packets)?;
            before = packet.decoded.or(before);
            timeline.add(&packet, &mut first_key, &mut last);
        }
        timeline.last_duration = last.and_then(|(_, duration)| duration);
        // Pictures before the first key frame are there if a recording began in the middle of a broadcast.
        timeline.shown.retain(|&at| first_key.is_none_or(|key| at >= key));
        timeline.shown.sort_unstable();
        timeline.shown.dedup();
        timeline.keys.sort_unstable();
        timeline.keys.dedup();
        if timeline.shown.is_empty() {
            return Err(refused(
                "its picture has no frames that could be shown; it may be damaged or not complete",
            ));
        }
        Ok(timeline)
    }

    fn add(
        &mut self,
        packet: &Packet,
        first_key: &mut Option<i64>,
        last: &mut Option<(i64, Option<i64>)>,
    ) {
        // A packet without times, such as the second field of a picture, is shown with the one before.
        let Some(at) = packet.at else { return };
        if packet.key {
            self.keys.push(at);
            first_key.get_or_insert(at);
        }
        if packet.discarded {
            return;
        }
        self.shown.push(at);
        if last.is_none_or(|(latest, _)| at > latest) {
            *last = Some((at, packet.duration));
        }
    }
}

/// Why packets could not be read.
#[derive(Debug)]
pub(super) enum ReadError {
    /// The file is there no more, or the like.
    File(io::Error),
    /// The source cannot be processed.
    Refused(Refusal),
    /// The clock was set anew in between, or begins before zero: a copy on one clock could be processed.
    Unsteady(String),
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::File(error)
    }
}

fn refused(reason: impl Into<String>) -> ReadError {
    ReadError::Refused(Refusal::new(reason))
}

impl Times {
    /// Times that go back make places in the source ambiguous, as in files that were put together without care; one
    /// that jumps ahead would be a picture that stands still.
    fn check(self, before: Option<i64>, packet: &Packet, number: u64) -> Result<(), ReadError> {
        let tolerance = packet.duration.map_or(i64::MAX, |it| it.saturating_mul(BACK_FRAMES_MAX));
        let goes_back = match (before, packet.decoded) {
            (Some(before), Some(now)) => before.saturating_sub(now) > tolerance,
            _ => false,
        };
        let gap_max = match self {
            Self::MayJump { per_second } => per_second.saturating_mul(GAP_SECONDS_MAX),
            Self::Steady | Self::MayBeginBelowZero => i64::MAX,
        };
        let problem = match (before, packet.decoded) {
            _ if goes_back && gap_max == i64::MAX => {
                return Err(refused(format!(
                    "its time stamps go back at picture {number}, as if files had been put together; copy it to a new \
                     file with whole time stamps first"
                )));
            }
            _ if goes_back => "go back",
            (Some(before), Some(now)) if now.saturating_sub(before) > gap_max => "jump ahead",
            _ if self == Self::Steady => return Ok(()),
            _ if number > 1 || packet.discarded => return Ok(()),
            _ => match packet.at {
                None => "are missing",
                Some(at) if at < 0 => "are below zero",
                Some(_) => return Ok(()),
            },
        };
        Err(ReadError::Unsteady(format!("its time stamps {problem} at picture {number}")))
    }
}

struct Packet {
    at: Option<i64>,
    decoded: Option<i64>,
    duration: Option<i64>,
    key: bool,
    discarded: bool,
}

impl Packet {
    /// Side data makes empty lines and fields at the end, which are passed over.
    fn parse(line: &[u8]) -> Option<Self> {
        let text = str::from_utf8(line).ok()?.trim();
        let mut fields = text.split(',');
        let (pts, dts) = (fields.next()?, fields.next()?);
        let (duration, flags) = (fields.next()?, fields.next()?);
        let decoded = dts.parse().ok();
        Some(Self {
            // Old containers only say when a packet is decoded.
            at: pts.parse().ok().or(decoded),
            decoded,
            duration: duration.parse().ok().filter(|&ticks| ticks > 0),
            key: flags.contains('K'),
            discarded: flags.contains('D'),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steady(text: &str) -> Result<Timeline, ReadError> {
        Timeline::read(text.as_bytes(), Times::Steady)
    }

    #[test]
    fn a_clock_that_was_set_anew_is_noticed_where_a_format_allows_it() {
        let jumps = |text: &str| {
            let times = Times::MayJump { per_second: 90_000 };
            match Timeline::read(text.as_bytes(), times) {
                Err(ReadError::Unsteady(problem)) => problem,
                other => format!("{:?}", other.map(|timeline| timeline.shown)),
            }
        };
        let ahead = "0,0,3600,K_\n3600,3600,3600,__\n1003600,1003600,3600,K_\n";
        assert_eq!(jumps(ahead), "its time stamps jump ahead at picture 3");
        assert_eq!(
            jumps("900000,900000,3600,K_\n0,0,3600,K_\n"),
            "its time stamps go back at picture 2"
        );
        assert_eq!(jumps("-9000,-9000,3600,K_\n"), "its time stamps are below zero at picture 1");
        assert_eq!(
            jumps("N/A,N/A,3600,K_\n0,0,3600,__\n"),
            "its time stamps are missing at picture 1"
        );
        // A pause, and the same in a format that only goes on.
        assert_eq!(jumps("0,0,3600,K_\n890000,890000,3600,__\n"), "Ok([0, 890000])");
        assert_eq!(steady(ahead).unwrap().shown, [0, 3_600, 1_003_600]);
    }

    #[test]
    fn pictures_are_put_in_the_order_in_which_they_are_shown() {
        let text = "0,-1024,512,K_\n1024,-512,512,__\n512,0,512,__\n1536,512,500,__\n";
        let timeline = steady(text).unwrap();
        assert_eq!(timeline.shown, [0, 512, 1024, 1536]);
        assert_eq!(timeline.keys, [0]);
        assert_eq!((timeline.packets, timeline.last_duration), (4, Some(500)));
    }

    #[test]
    fn side_data_and_missing_times_do_not_confuse() {
        let text = "128090,128090,3000,K_,\n\n131090,131090,3000,__,\n\nN/A,134090,N/A,__\nN/A,N/A,N/A,__\n";
        let timeline = steady(text).unwrap();
        assert_eq!(timeline.shown, [128_090, 131_090, 134_090]);
        assert_eq!((timeline.packets, timeline.last_duration), (4, None));
    }

    #[test]
    fn what_an_edit_list_cuts_away_is_not_shown_but_decoded_from() {
        let timeline = steady("-512,-512,512,KD\n0,0,512,__\n").unwrap();
        assert_eq!((timeline.shown, timeline.keys), (vec![0], vec![-512]));
    }

    #[test]
    fn pictures_before_the_first_key_frame_are_not_shown() {
        let text = "0,0,1,__\n1,1,1,__\n4,2,1,K_\n3,3,1,__\n5,4,1,__\n";
        let timeline = steady(text).unwrap();
        assert_eq!(timeline.shown, [4, 5]);
        let without = steady("0,0,1,__\n1,1,1,__\n").unwrap();
        assert_eq!(without.shown, [0, 1]);
    }

    #[test]
    fn times_that_go_back_are_refused() {
        let joined = "0,0,512,K_\n512000,512000,512,__\n0,0,512,K_\n";
        let Err(ReadError::Refused(refusal)) = steady(joined) else { panic!("times go back") };
        assert!(refusal.0.contains("go back at picture 3"), "{refusal}");
        assert!(steady("0,0,512,K_\n1024,1024,512,__\n512,512,512,__\n").is_ok());
    }

    #[test]
    fn no_pictures_are_refused() {
        assert!(steady("").is_err());
        assert!(steady("N/A,N/A,N/A,K_\n").is_err());
    }
}
