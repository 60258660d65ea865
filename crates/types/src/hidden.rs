//! Characters that people do not see, or that move what they see. Decided here for all: names cannot have them, and the
//! texts of others are printed with those written out that steer a terminal.

/// Whether a reader would obey it rather than show it: controls, ends of lines, and marks of the direction of writing.
pub fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Whether it lets one name pass for another: it steers, or takes no room.
pub fn hides(c: char) -> bool {
    steers(c)
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{180e}' | '\u{200b}'..='\u{200d}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}')
}

/// The same as ranges in a class of a regular expression. Those beyond 16 bits have no form that all dialects read.
#[cfg(feature = "schema")]
pub(crate) const HIDES: &str = r"\u0000-\u001F\u007F-\u009F\u00AD\u034F\u061C\u115F\u1160\u180E\u200B-\u200F\u2028-\u202E\u2060-\u206F\u3164\uFEFF\uFFA0\uFFF9-\uFFFB";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_also_hides_and_letters_do_neither() {
        for c in ['\0', '\x1b', '\u{9b}', '\u{61c}', '\u{2028}', '\u{2029}', '\u{202e}', '\u{2069}']
        {
            assert!(steers(c) && hides(c), "{:x}", c as u32);
        }
        for c in ['\u{ad}', '\u{200b}', '\u{feff}', '\u{e0041}', '\u{3164}'] {
            assert!(!steers(c) && hides(c), "{:x}", c as u32);
        }
        for c in ['a', ' ', 'ä', '漢', '🦀', '…', '\u{202f}'] {
            assert!(!hides(c), "{c}");
        }
    }

    /// The class says the same as the code, so that the OpenAPI document does not lie.
    #[cfg(feature = "schema")]
    #[test]
    fn the_class_of_the_schema_says_the_same() {
        let code = |text: &str| char::from_u32(u32::from_str_radix(text, 16).unwrap()).unwrap();
        let mut ranges = Vec::new();
        for part in HIDES.split("\\u").skip(1) {
            match (part.strip_suffix('-'), ranges.last_mut()) {
                (Some(low), _) => ranges.push((code(low), None)),
                (None, Some((_, high @ None))) => *high = Some(code(part)),
                (None, _) => ranges.push((code(part), Some(code(part)))),
            }
        }
        for c in '\0'..='\u{ffff}' {
            let listed = ranges.iter().any(|(low, high)| (*low..=high.unwrap()).contains(&c));
            assert_eq!(listed, hides(c), "{:x}", c as u32);
        }
    }
}
