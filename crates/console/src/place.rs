//! Where in a YAML file a setting stands, so that a value that is well-formed but makes no sense is told with its line.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, Spanned};

/// The line and the column of the setting at `path`, such as `limits.api.burst`, or of the nearest thing above it that
/// is in the file. A name in the path may contain dots.
pub(crate) fn place_of(yaml: &str, path: &str) -> Option<(u64, u64)> {
    let mut node: Spanned<Node> = serde_saphyr::from_str(yaml).ok()?;
    let mut rest = path;
    let mut place: Option<Location> = None;
    while let Node::Map(fields) = node.value {
        let fits = |key: &str| match rest.strip_prefix(key) {
            Some("") => true,
            Some(more) => more.starts_with('.'),
            None => false,
        };
        let fitting = fields.into_iter().filter(|(key, _)| fits(&key.value));
        let Some((key, value)) = fitting.max_by_key(|(key, _)| key.value.len()) else { break };
        place = Some(if value.referenced.line() > 0 && matches!(value.value, Node::Other) {
            value.referenced
        } else {
            key.referenced
        });
        rest = rest[key.value.len()..].trim_start_matches('.');
        if rest.is_empty() {
            break;
        }
        node = value;
    }
    place.map(|place| (place.line(), place.column())).filter(|(line, _)| *line > 0)
}

/// A file as far as paths lead through it.
enum Node {
    Map(Vec<(Spanned<String>, Spanned<Self>)>),
    Other,
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Node;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("anything")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Node::Map(fields))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Node::Other)
            }

            fn visit_bool<E>(self, _: bool) -> Result<Node, E> {
                Ok(Node::Other)
            }

            fn visit_i64<E>(self, _: i64) -> Result<Node, E> {
                Ok(Node::Other)
            }

            fn visit_u64<E>(self, _: u64) -> Result<Node, E> {
                Ok(Node::Other)
            }

            fn visit_f64<E>(self, _: f64) -> Result<Node, E> {
                Ok(Node::Other)
            }

            fn visit_str<E>(self, _: &str) -> Result<Node, E> {
                Ok(Node::Other)
            }

            fn visit_unit<E>(self) -> Result<Node, E> {
                Ok(Node::Other)
            }
        }
        deserializer.deserialize_any(Any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_leads_to_its_line_in_block_and_flow_style() {
        let yaml = "limits:\n  api: {rate: 10/s, burst: 0}\nkinds:\n  video.probe:\n    timeout_ms: 0\n\
                    load_balancing:\n  strategy: pull\n  thresholds:\n    busy_threshold: 1\n";
        for (path, place) in [
            ("limits.api.burst", (2, 28)),
            ("limits.api", (2, 3)),
            ("kinds.video.probe", (4, 3)),
            ("kinds.video.probe.timeout_ms", (5, 17)),
            ("load_balancing.thresholds.idle_threshold", (8, 3)),
            ("load_balancing.thresholds.busy_threshold", (9, 21)),
        ] {
            assert_eq!(place_of(yaml, path), Some(place), "{path}");
        }
        assert_eq!(place_of(yaml, "poison_after"), None);
        assert_eq!(place_of("- a\n", "a"), None);
    }
}
