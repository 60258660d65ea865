//! The cookies of one host in one crawl, if the crawl wants any. A jar lives as long as the lease of its host and is never
//! shared, so what one host sets no other host gets, and what one crawl does no other crawl sees.
//!
//! Reads of RFC 6265 what a crawler needs: name, value, path, secure, and that a cookie is over. `domain` is passed over: a
//! cookie goes back to the very host that set it.

use std::collections::BTreeMap;

use url::Url;

/// Cookies in a jar.
const COOKIES_MAX: usize = 50;
/// Bytes of a cookie, name and value and path.
const COOKIE_BYTES_MAX: usize = 4_096;
/// Bytes of all cookies that are sent.
const HEADER_BYTES_MAX: usize = 16 * 1024;

/// The cookies of one host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Jar {
    /// By path and name.
    cookies: BTreeMap<(String, String), Cookie>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Cookie {
    value: String,
    is_secure: bool,
}

impl Jar {
    /// Takes note of a `set-cookie` that came with a URL. What cannot be read or is too much is passed over.
    pub fn set(&mut self, url: &Url, header: &[u8]) {
        let Ok(header) = std::str::from_utf8(header) else { return };
        let mut parts = header.split(';');
        let Some((name, value)) = parts.next().and_then(|pair| pair.split_once('=')) else {
            return;
        };
        let (name, value) = (name.trim(), value.trim());
        let mut path = default_path(url.path());
        let (mut is_secure, mut is_over) = (false, false);
        for part in parts {
            let (attribute, given) = part.split_once('=').unwrap_or((part, ""));
            let given = given.trim();
            match attribute.trim().to_ascii_lowercase().as_str() {
                "path" if given.starts_with('/') => path = given,
                "secure" => is_secure = true,
                // A date in the past is how hosts take a cookie back; jars do not live long enough for other dates.
                "expires" if given.contains("1970") => is_over = true,
                "max-age" => is_over = given.parse::<i64>().is_ok_and(|seconds| seconds <= 0),
                _ => {}
            }
        }
        let is_text = name.bytes().chain(value.bytes()).all(|byte| (b' '..=b'~').contains(&byte));
        if name.is_empty() || !is_text || name.len() + value.len() + path.len() > COOKIE_BYTES_MAX {
            return;
        }
        let key = (path.to_owned(), name.to_owned());
        if is_over {
            self.cookies.remove(&key);
        } else if self.cookies.len() < COOKIES_MAX || self.cookies.contains_key(&key) {
            self.cookies.insert(key, Cookie { value: value.to_owned(), is_secure });
        }
    }

    /// The header `cookie` for a URL; nothing if there are none for it. Longer paths come first.
    pub fn header(&self, url: &Url) -> Option<String> {
        let mut header = String::new();
        for ((path, name), cookie) in self.cookies.iter().rev() {
            let is_for_it =
                is_within(url.path(), path) && (!cookie.is_secure || url.scheme() == "https");
            if is_for_it && header.len() + name.len() + cookie.value.len() + 3 <= HEADER_BYTES_MAX {
                let separator = if header.is_empty() { "" } else { "; " };
                header = format!("{header}{separator}{name}={}", cookie.value);
            }
        }
        (!header.is_empty()).then_some(header)
    }
}

/// The folder of a path: `/a` for `/a/b`, `/` for `/a`.
fn default_path(path: &str) -> &str {
    match path.rfind('/') {
        Some(0) | None => "/",
        Some(end) => &path[..end],
    }
}

/// Whether a path is the folder or in it.
fn is_within(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || folder.ends_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_go_back_to_their_paths_and_end() {
        let url = |text: &str| -> Url { text.parse().unwrap() };
        let mut jar = Jar::default();
        let shop = url("http://a.test/shop/cart");
        jar.set(&shop, b"id=1; Path=/; HttpOnly");
        jar.set(&shop, b"cart=full");
        jar.set(&shop, b"safe=yes; Secure; Path=/");
        jar.set(&shop, b"no pair");
        jar.set(&shop, b"x=\xff");
        jar.set(&shop, b"y=a\r\nb: c");
        assert_eq!(jar.header(&shop).as_deref(), Some("cart=full; id=1"));
        assert_eq!(jar.header(&url("http://a.test/shopping")).as_deref(), Some("id=1"));
        assert_eq!(jar.header(&url("https://a.test/")).as_deref(), Some("safe=yes; id=1"));
        jar.set(&shop, b"id=; Path=/; Max-Age=0");
        jar.set(&shop, b"cart=; Expires=Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(jar.header(&shop), None);
    }

    #[test]
    fn a_jar_is_bounded() {
        let url: Url = "http://a.test/".parse().unwrap();
        let mut jar = Jar::default();
        for number in 0..2 * COOKIES_MAX {
            jar.set(&url, format!("c{number}=1").as_bytes());
        }
        jar.set(&url, format!("c1={}", "x".repeat(COOKIE_BYTES_MAX)).as_bytes());
        assert_eq!(jar.cookies.len(), COOKIES_MAX);
        assert!(jar.header(&url).unwrap().len() < 500);
    }
}
