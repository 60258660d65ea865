//! What browsers show: pages with a policy of their own, and the files that pages are made of. Everything is in the
//! program: no build step, and nothing from elsewhere.

use std::sync::OnceLock;

use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG};
use http::{HeaderMap, Method, StatusCode};

use crate::error::ApiError;
use crate::range::Wanted;

/// The type of a script.
pub const SCRIPT: &str = "text/javascript; charset=utf-8";
/// The type of a style sheet.
pub const STYLE: &str = "text/css; charset=utf-8";

/// A file in the folder `assets` beside the source that names it, with its type.
#[macro_export]
macro_rules! asset {
    ($name:literal, $content_type:expr) => {
        $crate::pages::Asset {
            name: $name,
            content_type: $content_type,
            bytes: include_bytes!(concat!("assets/", $name)),
        }
    };
}

/// The files that pages are made of, as a `static`.
#[derive(Debug)]
pub struct Assets {
    files: &'static [Asset],
    /// The tags in the order of the files: a browser asks each time and is mostly told that it has the file already.
    tags: OnceLock<Vec<String>>,
}

/// One file.
#[derive(Clone, Copy, Debug)]
pub struct Asset {
    /// Its name in the address.
    pub name: &'static str,
    /// Its type.
    pub content_type: &'static str,
    /// What is in it.
    pub bytes: &'static [u8],
}

impl Assets {
    /// These files.
    pub const fn new(files: &'static [Asset]) -> Self {
        Self { files, tags: OnceLock::new() }
    }

    /// All of them.
    pub fn files(&self) -> &'static [Asset] {
        self.files
    }

    /// The answer to a request for the file of this name.
    ///
    /// # Errors
    /// If there is none.
    pub fn answer(&self, name: &str, headers: &HeaderMap) -> Result<Response, ApiError> {
        let Some(at) = self.files.iter().position(|file| file.name == name) else {
            let message = "the pages have no such part";
            return Err(ApiError::new(StatusCode::NOT_FOUND, "no_such_file", message));
        };
        let hash = |file: &Asset| format!("\"{}\"", blake3::hash(file.bytes).to_hex());
        let tags = self.tags.get_or_init(|| self.files.iter().map(hash).collect());
        let (file, tag) = (self.files[at], tags[at].as_str());
        let caching = [(ETAG, tag), (CACHE_CONTROL, "no-cache")];
        if Wanted::new(&Method::GET, headers, tag, 0) == Wanted::NotModified {
            return Ok((StatusCode::NOT_MODIFIED, caching).into_response());
        }
        Ok((caching, [(CONTENT_TYPE, file.content_type)], file.bytes).into_response())
    }
}

/// The content security policy of pages whose scripts, styles and pictures come from this server only.
pub const OWN_ONLY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
    form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Makes sure that these pages use only what there is, under this address, and have nothing inline: no policy would let
/// a browser run it. For tests of those who have pages.
///
/// # Panics
/// If a page, or a script that it may use, does otherwise.
pub fn check(pages: &[&str], address: &str, assets: &Assets) {
    const INLINE: [&str; 6] =
        ["<style", " style=", " onclick=", "javascript:", "src=\"http", "href=\"http"];
    // What strangers wrote becomes text, never HTML.
    const MAKES_HTML: [&str; 5] =
        ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("];
    for page in pages {
        for part in page.split(address).skip(1) {
            let name = part.split('"').next().unwrap_or_default();
            assert!(assets.files().iter().any(|file| file.name == name), "there is no {name}");
        }
        let inline = INLINE.iter().find(|bad| page.contains(**bad));
        assert!(inline.is_none(), "{inline:?} is in a page");
        assert_eq!(page.matches("<script").count(), page.matches("<script ").count());
    }
    for file in assets.files().iter().filter(|file| file.content_type == SCRIPT) {
        let text = String::from_utf8_lossy(file.bytes);
        let bad = MAKES_HTML.iter().find(|bad| text.contains(**bad));
        assert!(bad.is_none(), "{bad:?} is in {}", file.name);
    }
}

/// A page with its content security policy.
pub fn page(status: StatusCode, policy: String, text: String) -> Response {
    let headers =
        [(CONTENT_TYPE, "text/html; charset=utf-8".to_owned()), (CONTENT_SECURITY_POLICY, policy)];
    (status, headers, text).into_response()
}

/// Text as it may stand in HTML.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use http::header::IF_NONE_MATCH;

    use super::*;

    static ASSETS: Assets =
        Assets::new(&[Asset { name: "a.js", content_type: SCRIPT, bytes: b"let a;" }]);

    #[test]
    fn a_browser_that_has_a_file_is_told_so() {
        let mut headers = HeaderMap::new();
        let first = ASSETS.answer("a.js", &headers).unwrap();
        assert_eq!(
            (first.status().as_u16(), &first.headers()[CONTENT_TYPE]),
            (200, &SCRIPT.parse().unwrap())
        );
        headers.insert(IF_NONE_MATCH, first.headers()[ETAG].clone());
        assert_eq!(ASSETS.answer("a.js", &headers).unwrap().status(), StatusCode::NOT_MODIFIED);
        headers.insert(IF_NONE_MATCH, "\"other\"".parse().unwrap());
        assert_eq!(ASSETS.answer("a.js", &headers).unwrap().status(), StatusCode::OK);
        assert_eq!(ASSETS.answer("b.js", &headers).unwrap_err().code(), "no_such_file");
    }

    #[test]
    fn a_text_cannot_leave_its_place() {
        assert_eq!(
            escape("</title><b a='\"'>&"),
            "&lt;/title&gt;&lt;b a=&#39;&quot;&#39;&gt;&amp;"
        );
    }
}
