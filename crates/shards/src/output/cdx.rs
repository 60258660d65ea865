//! The index of a WARC file: one line per response, in the eleven columns of the Internet Archive.
//!
//! Lines stand in the order of the file. Programs that search an index want it sorted: `LC_ALL=C sort`.

use divvy_frontier::address::Address;

use super::record::moment;

/// The first line of an index.
pub(super) const HEADER: &str = " CDX N b a m s k r M S V g\n";

/// What an index says of a response before its place is known.
pub(super) struct Line<'a> {
    pub(super) url: &'a str,
    pub(super) at_ms: u64,
    pub(super) content_type: Option<&'a str>,
    pub(super) status: u16,
    pub(super) digest: &'a str,
    pub(super) redirect: Option<&'a str>,
}

impl Line<'_> {
    /// The columns before length, place and file.
    pub(super) fn start(&self) -> String {
        format!(
            "{} {} {} {} {} {} {} -",
            key(self.url),
            moment(self.at_ms).strftime("%Y%m%d%H%M%S"),
            column(self.url),
            column(self.content_type.map_or("", |text| text.split(';').next().unwrap_or_default())),
            self.status,
            self.digest,
            column(self.redirect.unwrap_or_default()),
        )
    }
}

/// A column must not be empty and holds no blanks.
fn column(text: &str) -> &str {
    let text = text.trim();
    let is_one = text.bytes().all(|byte| byte.is_ascii_graphic());
    if text.is_empty() || !is_one { "-" } else { text }
}

/// The address in the order in which archives are sorted: `org,example)/path?a&b`, in lower case, parameters sorted.
fn key(url: &str) -> String {
    let Ok(address) = url.parse::<Address>() else { return "-".to_owned() };
    let host = address.host().strip_prefix("www.").unwrap_or_else(|| address.host());
    let mut key = if address.is_number() {
        host.to_owned()
    } else {
        host.rsplit('.').collect::<Vec<_>>().join(",")
    };
    if let Some(port) = address.url().port() {
        key.push_str(&format!(":{port}"));
    }
    key.push(')');
    key.push_str(address.path());
    if let Some(query) = address.url().query() {
        let mut parameters: Vec<&str> = query.split('&').collect();
        parameters.sort_unstable();
        key.push('?');
        key.push_str(&parameters.join("&"));
    }
    key.make_ascii_lowercase();
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_by_domain() {
        let facts = [
            ("http://www.Example.org/A?b=2&a=1", "org,example)/a?a=1&b=2"),
            ("https://a.b.example:8443/", "example,b,a:8443)/"),
            ("http://127.0.0.1:80/x", "127.0.0.1)/x"),
            ("no address", "-"),
        ];
        for (url, expected) in facts {
            assert_eq!(key(url), expected);
        }
    }

    #[test]
    fn columns_cannot_be_forged() {
        let line = Line {
            url: "http://a.example/",
            at_ms: 0,
            content_type: Some("text/ html\nforged; charset=x"),
            status: 301,
            digest: "D",
            redirect: Some("/x y"),
        };
        assert_eq!(line.start(), "example,a)/ 19700101000000 http://a.example/ - 301 D - -");
    }
}
