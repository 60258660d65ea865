//! The frame of all pages: the head that they share and the bar at the top, which leads to every page of the server and
//! of its workloads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use axum::response::Response;
use http::StatusCode;

use crate::pages::{self, Asset, Assets, OWN_ONLY, SCRIPT, STYLE, escape};

/// The title and the path of a page.
pub type Link = (&'static str, &'static str);

/// What all pages look like, and the scripts that all share; `live` is for those that show things as they go. The server has them under `/assets/`.
pub static LOOK: Assets = Assets::new(&[
    Asset { name: "base.css", content_type: STYLE, bytes: include_bytes!("look/base.css") },
    Asset { name: "base.js", content_type: SCRIPT, bytes: include_bytes!("look/base.js") },
    Asset { name: "live.css", content_type: STYLE, bytes: include_bytes!("look/live.css") },
    Asset { name: "live.js", content_type: SCRIPT, bytes: include_bytes!("look/live.js") },
    Asset { name: "theme.js", content_type: SCRIPT, bytes: include_bytes!("look/theme.js") },
    Asset {
        name: "icon.svg",
        content_type: "image/svg+xml",
        bytes: include_bytes!("look/icon.svg"),
    },
]);

/// What the head of every page has.
const HEAD: &str = r#"<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="/assets/icon.svg">
<link rel="stylesheet" href="/assets/base.css">
<script src="/assets/theme.js"></script>"#;

/// How a person ends a session; the server answers.
const SIGN_OUT: &str = r#"<form method="post" action="/sign-out"><button class="top-link" type="submit">Sign out</button></form>"#;

/// The frame of the pages of one server. A clone is cheap and is the same frame.
#[derive(Clone, Debug, Default)]
pub struct Frame(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// Whether people have a session that they can end.
    has_session: AtomicBool,
    /// The pages of the server, and those of its workloads.
    links: OnceLock<[Vec<Link>; 2]>,
}

impl Frame {
    /// A frame that leads nowhere yet.
    pub fn new(has_session: bool) -> Self {
        Self(Arc::new(Shared { has_session: has_session.into(), links: OnceLock::new() }))
    }

    /// Says where the bar leads: to the pages of the server, and to those of its workloads. Titles and paths stand in HTML
    /// as they are.
    ///
    /// # Panics
    /// If that was said before: pages would show two different bars.
    pub fn lead_to(&self, server: Vec<Link>, workloads: Vec<Link>) {
        let said = self.0.links.set([server, workloads]);
        assert!(said.is_ok(), "the bar of a server is made once");
    }

    /// From now on people have a session, or have none: the first token was made, or the last one revoked.
    pub fn set_session(&self, has_session: bool) {
        self.0.has_session.store(has_session, Ordering::Relaxed);
    }

    /// A template with the frame in its places, as the page at this path: `{{head}}` in its head, `{{frame}}` where its body
    /// begins, and `{{title}}`.
    pub fn filled(&self, template: &str, path: &str, title: &str) -> String {
        // What a title says is put in last, so that nothing in it is taken for a place.
        template
            .replace("{{head}}", HEAD)
            .replace("{{frame}}", &self.bar(path))
            .replace("{{title}}", &escape(title))
    }

    /// A page all of whose parts come from this server.
    pub fn page(&self, template: &str, path: &str, title: &str) -> Response {
        self.answer(StatusCode::OK, template, path, title)
    }

    /// The same for something that is not there; the title says so.
    pub fn missing(&self, template: &str, path: &str, title: &str) -> Response {
        self.answer(StatusCode::NOT_FOUND, template, path, title)
    }

    fn answer(&self, status: StatusCode, template: &str, path: &str, title: &str) -> Response {
        pages::page(status, OWN_ONLY.to_owned(), self.filled(template, path, title))
    }

    /// The bar at the top of the page at this path.
    fn bar(&self, path: &str) -> String {
        let lists = self.0.links.get().map_or(&[][..], |lists| &lists[..]);
        let current = lists.iter().flatten().filter(|(_, to)| is_under(path, to));
        let current = current.map(|(_, to)| *to).max_by_key(|to| to.len());
        let link = |(title, to): &Link| {
            let mark = if Some(*to) == current { " aria-current=\"page\"" } else { "" };
            format!("<a class=\"top-link\" href=\"{to}\"{mark}>{title}</a>")
        };
        let lists = lists.iter().filter(|list| !list.is_empty());
        let lists: Vec<String> = lists.map(|list| list.iter().map(link).collect()).collect();
        let links = lists.join("<span class=\"top-gap\" aria-hidden=\"true\"></span>");
        let session = if self.0.has_session.load(Ordering::Relaxed) { SIGN_OUT } else { "" };
        format!(
            "<header class=\"top\"><div class=\"top-inner\">\
             <a class=\"brand\" href=\"/\"><img src=\"/assets/icon.svg\" alt=\"\" width=\"28\" height=\"28\">divvy</a>\
             <nav class=\"top-links\" aria-label=\"Main\">{links}</nav>\
             <div class=\"top-end\" id=\"top-end\"><button class=\"top-link\" id=\"theme\" type=\"button\" hidden></button>{session}</div>\
             </div></header>"
        )
    }
}

/// Whether a page is the one at `to` or one below it.
fn is_under(path: &str, to: &str) -> bool {
    path == to || path.strip_prefix(to).is_some_and(|rest| rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(has_session: bool) -> Frame {
        let frame = Frame::new(has_session);
        frame.lead_to(vec![("Overview", "/"), ("Tasks", "/tasks")], vec![("Videos", "/videos")]);
        frame
    }

    #[test]
    fn the_bar_leads_to_every_page_and_marks_the_one_that_is_shown() {
        let current = |path: &str| {
            let bar = frame(false).filled("{{frame}}", path, "");
            assert_eq!(bar.matches("class=\"top-link\" href").count(), 3, "{bar}");
            let marked = bar.split("aria-current=\"page\">").nth(1);
            marked.map(|rest| rest.split('<').next().unwrap().to_owned())
        };
        assert_eq!(current("/").as_deref(), Some("Overview"));
        assert_eq!(current("/tasks").as_deref(), Some("Tasks"));
        assert_eq!(current("/videos/1").as_deref(), Some("Videos"));
        assert_eq!(current("/tasksmith"), None);
    }

    #[test]
    fn only_who_has_a_session_can_end_it() {
        let frame = frame(false);
        for has_session in [false, true] {
            frame.set_session(has_session);
            let bar = frame.filled("{{frame}}", "/", "");
            assert_eq!(bar.contains("action=\"/sign-out\""), has_session);
        }
    }

    #[test]
    fn a_title_is_text_and_takes_no_other_place() {
        let page = frame(true).filled("<title>{{title}}</title>", "/", "<{{frame}}");
        assert_eq!(page, "<title>&lt;{{frame}}</title>");
    }

    #[test]
    fn the_frame_uses_only_what_there_is_and_nothing_inline() {
        let page = frame(true).filled("{{head}}{{frame}}", "/", "");
        for part in page.split("/assets/").skip(1) {
            let name = part.split('"').next().unwrap();
            assert!(LOOK.files().iter().any(|file| file.name == name), "{name}");
        }
        for bad in ["<style", " style=", " onclick=", "javascript:", "<script>"] {
            assert!(!page.contains(bad), "{bad}");
        }
    }
}
