//! A real browser, whose only way out is a proxy of the test that knows every page of its web.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use divvy_frontier::frontier::Everything;
use futures_util::future::BoxFuture;
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::browser::Browser;
use super::*;

/// How long something may take that happens at once on an idle machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A proxy that answers for all hosts itself, and for those named `refused…` not at all.
struct Web {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Web {
    async fn start(page: fn(&str) -> Option<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let noted = Arc::clone(&asked);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, page, Arc::clone(&noted)));
            }
        });
        Self { address, asked }
    }

    fn options(&self) -> Options {
        let program = find().expect("chromium is missing; install it: apt-get install chromium");
        Options {
            program,
            proxy: self.address,
            agent: "divvybot (+http://a.example/bot)".to_owned(),
        }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

/// Answers one request. Whatever its page is, it is not kept by the browser.
async fn answer(
    mut stream: TcpStream,
    page: fn(&str) -> Option<String>,
    asked: Arc<Mutex<Vec<String>>>,
) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let line = head.lines().next().unwrap_or_default().to_owned();
    let url = line.split(' ').nth(1).unwrap_or_default().to_owned();
    asked.lock().unwrap().push(line.clone());
    let agent = if head.contains("divvybot") { "divvybot" } else { "another" };
    let (status, body) = match page(&url) {
        Some(body) if line.starts_with("GET ") => ("200 OK", body.replace("AGENT", agent)),
        _ => ("403 Forbidden", "refused".to_owned()),
    };
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/html\r\nAccess-Control-Allow-Origin: *\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    let _ = stream.write_all(answer.as_bytes()).await;
}

/// Hosts that permit everything.
#[derive(Debug)]
struct Open;

impl Others for Open {
    fn permission<'a>(&'a self, _: &'a Address) -> BoxFuture<'a, Option<Arc<dyn Permission>>> {
        Box::pin(std::future::ready(Some(Arc::new(Everything) as Arc<dyn Permission>)))
    }
}

/// Renders a page of a web that was fetched before.
async fn render(
    renderer: &mut Renderer,
    pages: fn(&str) -> Option<String>,
    url: &str,
) -> Result<Rendered, RenderError> {
    let address = url.parse().unwrap();
    let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("text/html"))]);
    let body = pages(url).unwrap();
    let document = Document {
        address: &address,
        status: 200,
        headers: &headers,
        body: body.as_bytes(),
        permission: &Everything,
        others: &Open,
    };
    renderer.render(document).await
}

const PLAIN: &str = "http://app.example/plain";

fn pages(url: &str) -> Option<String> {
    let body = match url {
        "http://app.example/" => {
            "<div id=root></div><img src=/picture.png><video src=/film.mp4></video>
            <script>
              document.cookie = 'seen=' + (document.cookie ? 'again' : 'first');
              localStorage.seen = (localStorage.seen ?? '') + 'x';
              fetch('/data').then((answer) => answer.text()).then((text) => {
                document.title = text;
                document.getElementById('root').innerHTML =
                  `<a href=/made>made</a> ${document.cookie} storage=${localStorage.seen}`;
              });
            </script>"
        }
        "http://app.example/data" => "made by a script for AGENT",
        "http://app.example/moves" => {
            "<p>still here</p><script>location.replace('/moved')</script><iframe src=/framed></iframe>"
        }
        "http://app.example/plain" => "<p>plain</p>",
        "http://app.example/spins" => "<script>for (;;) {}</script>",
        "http://app.example/asks" => "<script>alert('stop'); document.write('went on')</script>",
        _ => return None,
    };
    Some(body.to_owned())
}

#[tokio::test]
async fn a_page_made_by_scripts_comes_back_rendered() {
    let web = Web::start(pages).await;
    let mut renderer = Renderer::new(web.options());
    // The second page must know nothing of the first.
    for _ in 0..2 {
        let rendered = render(&mut renderer, pages, "http://app.example/").await.unwrap();
        assert_eq!(rendered.address.as_str(), "http://app.example/");
        for expected in [
            "<title>made by a script for divvybot</title>",
            "<a href=\"/made\">",
            "seen=first storage=x",
        ] {
            assert!(rendered.html.contains(expected), "{expected} is not in {}", rendered.html);
        }
    }
    let first = renderer.process();
    assert!(first.is_some());
    let moves = render(&mut renderer, pages, "http://app.example/moves").await.unwrap();
    assert_eq!(moves.address.as_str(), "http://app.example/moves");
    assert!(moves.html.contains("still here"), "{}", moves.html);
    let led_on: Vec<&str> = moves.led_on.iter().map(Address::as_str).collect();
    assert_eq!(led_on, ["http://app.example/moved"]);
    let asked = render(&mut renderer, pages, "http://app.example/asks").await.unwrap();
    assert!(asked.html.contains("went on"), "{}", asked.html);
    assert_eq!(renderer.process(), first, "one browser renders many pages");

    let asked = web.asked();
    let of_app: Vec<&String> = asked.iter().filter(|line| line.contains("app.example")).collect();
    assert_eq!(
        of_app, ["GET http://app.example/data HTTP/1.1"; 2],
        "no document, nothing needless"
    );

    // A browser that dies is replaced.
    let id = i32::try_from(first.unwrap()).unwrap();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(id), nix::sys::signal::Signal::SIGKILL)
        .unwrap();
    let error = render(&mut renderer, pages, "http://app.example/").await.unwrap_err();
    assert!(matches!(error, RenderError::Browser(_)), "{error}");
    assert_eq!(renderer.process(), None);
    render(&mut renderer, pages, PLAIN).await.unwrap();
    assert_ne!(renderer.process(), first);
    renderer.close().await;
    assert_eq!(renderer.process(), None);
}

/// Whether a process runs, or has ended and was not waited for.
fn is_there(process: u32) -> bool {
    let process = nix::unistd::Pid::from_raw(i32::try_from(process).unwrap());
    nix::sys::signal::kill(process, None).is_ok()
}

#[tokio::test]
async fn a_browser_is_replaced_after_so_many_pages() {
    let web = Web::start(pages).await;
    let mut renderer = Renderer::new(web.options());
    renderer.pages_max = 2;
    render(&mut renderer, pages, PLAIN).await.unwrap();
    let first = renderer.process().unwrap();
    render(&mut renderer, pages, PLAIN).await.unwrap();
    assert_eq!(renderer.process(), None, "it has rendered its two pages");
    assert!(!is_there(first));
    render(&mut renderer, pages, PLAIN).await.unwrap();
    assert!(renderer.process().is_some_and(|second| second != first));
}

#[tokio::test]
async fn a_page_that_takes_longer_than_its_budget_ends_its_browser() {
    let web = Web::start(pages).await;
    let mut renderer = Renderer::new(web.options());
    render(&mut renderer, pages, PLAIN).await.unwrap();
    let first = renderer.process().unwrap();
    // A script that never ends holds up everything that could be asked of its page.
    renderer.budget = Duration::from_secs(1);
    let spins = render(&mut renderer, pages, "http://app.example/spins");
    let rendering = tokio::time::timeout(PATIENCE, spins).await;
    let error = rendering.expect("a page has its budget").unwrap_err();
    assert!(matches!(error, RenderError::Slow(_)), "{error}");
    assert_eq!(renderer.process(), None);
    assert!(!is_there(first), "nobody would end the script");
    renderer.budget = BUDGET;
    render(&mut renderer, pages, PLAIN).await.unwrap();
}

#[tokio::test]
async fn a_page_reaches_nothing_that_the_proxy_refuses() {
    // Something on this machine that listens, as a database might.
    let private = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = private.local_addr().unwrap().port();
    let page = |url: &str| {
        let port = url.strip_prefix("http://evil.example/")?;
        Some(format!(
            "<p id=said></p><iframe src='http://localhost:{port}/frame'></iframe><script>
               const urls = ['http://127.0.0.1:{port}/', 'http://localhost:{port}/', 'http://[::1]:{port}/',
                 'https://127.0.0.1:{port}/', 'http://name.example:{port}/'];
               const said = (text) => document.getElementById('said').append(text + ' ');
               new WebSocket('ws://127.0.0.1:{port}/').onerror = () => said('socket-failed');
               Promise.all(urls.map((url) => fetch(url, {{ mode: 'no-cors' }}).then((answer) => answer.type, () => 'failed')))
                 .then((all) => said('all:' + all.length));
             </script>"
        ))
    };
    let web = Web::start(page).await;
    let mut renderer = Renderer::new(web.options());
    let url = format!("http://evil.example/{port}");
    let rendered = render(&mut renderer, page, &url).await.unwrap();
    assert!(rendered.html.contains("all:5"), "{}", rendered.html);
    // Everything was asked of the proxy, and nothing of the private port.
    let asked = web.asked();
    for expected in [
        format!("GET http://127.0.0.1:{port}/ "),
        format!("GET http://localhost:{port}/ "),
        format!("GET http://[::1]:{port}/ "),
        format!("CONNECT 127.0.0.1:{port} "),
    ] {
        assert!(
            asked.iter().any(|line| line.starts_with(&expected)),
            "{expected} is not in {asked:?}"
        );
    }
    renderer.close().await;
    // A connection of ours comes after any that the browser made.
    let ours = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let (_, from) = private.accept().await.unwrap();
    assert_eq!(from, ours.local_addr().unwrap(), "the browser reached the private port");
}

#[tokio::test]
async fn a_browser_ends_with_its_owner() {
    let web = Web::start(|_| None).await;
    let mut browser = Browser::start(&web.options()).unwrap();
    let version = browser.pipe.call(None, "Browser.getVersion", serde_json::json!({}));
    tokio::time::timeout(PATIENCE, version).await.unwrap().unwrap();
    // What the system does when an owner is killed: its ends of the pipes are closed, and nobody says anything.
    let mut other =
        Browser::start(&Options { program: "/bin/sh".into(), ..web.options() }).unwrap();
    std::mem::swap(&mut browser.pipe, &mut other.pipe);
    drop(other);
    tokio::time::timeout(PATIENCE, browser.ended()).await.expect("the browser ends by itself");
}

#[tokio::test]
async fn a_browser_that_is_missing_is_named() {
    let options = Options {
        program: "/nowhere/chromium".into(),
        proxy: "127.0.0.1:1".parse().unwrap(),
        agent: String::new(),
    };
    let error = render(&mut Renderer::new(options), pages, PLAIN).await.unwrap_err().to_string();
    assert!(error.contains("/nowhere/chromium") && error.contains("--render off"), "{error}");
}
