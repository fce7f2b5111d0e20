//! A page that shows running nodes. It is one file, which is served on this machine.
//!
//! Anyone with the printed address can open the page, because the address contains a token of 128 bits.
//! The server accepts requests whose `Host` is an IP address or `localhost`, with its own port. So a page of
//! another site cannot read anything, even if its domain name resolves to this machine. The page loads
//! nothing from elsewhere, and a policy makes the browser enforce this. The only command on the page makes
//! the node leave.

mod feed;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use rand::TryRng;
use rand::rngs::SysRng;
use serde_json::Value;

use super::Failure;
use crate::html::STYLE;
use crate::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, HeaderName, HeaderValue, ORIGIN};
use crate::http::{self, Body, Method, Request, Response, Server, StatusCode};
use feed::Feed;

const HTML: &str = include_str!("dashboard/dashboard.html");
const SCRIPT: &str = include_str!("dashboard/dashboard.js");
/// Time for which the program waits at the end until open pages have read everything and closed their streams
/// (guess: browsers on this machine need a tenth of a second, and more under load).
const END: Duration = Duration::from_secs(5);
/// Maximum number of open pages at a time.
const PAGES: usize = 16;
const HTML_TYPE: &str = "text/html; charset=utf-8";

/// Data of a page in addition to the events.
#[derive(Default)]
struct Shared {
    feed: Feed,
    token: String,
    /// Port of the server.
    port: OnceLock<u16>,
    /// Makes the node leave. It is not set before the node starts, and never if the page shows many nodes.
    leave: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// The report, when it has been made.
    report: Mutex<Option<Bytes>>,
}

/// A page that is served. It is cheap to clone.
#[derive(Clone)]
pub(super) struct Live {
    shared: Arc<Shared>,
    server: Arc<Server>,
}

impl Live {
    /// Serves the page at `address`; `about` describes the session on the page.
    pub(super) fn open(address: SocketAddr, about: &Value) -> Result<Self, Failure> {
        let mut token = [0; 16];
        SysRng
            .try_fill_bytes(&mut token)
            .map_err(|error| Failure::Environment(format!("the system gives no random bytes: {error}")))?;
        let shared = Arc::new(Shared { token: hex::encode(token), ..Shared::default() });
        shared.feed.about(about);
        let answering = Arc::clone(&shared);
        let server = Server::start("flyswarm-page", address, move |request| answering.answer(request))
            .map_err(|error| Failure::Environment(format!("--page {address}: {error}")))?;
        shared.port.get_or_init(|| server.address().port());
        Ok(Self { shared, server: Arc::new(server) })
    }

    /// Returns the address for a browser.
    pub(super) fn url(&self) -> String {
        let address = self.server.address();
        let at = match address.ip() {
            // If the server listens on all interfaces, the loopback address works.
            ip if ip.is_unspecified() => SocketAddr::new(
                if ip.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { std::net::Ipv6Addr::LOCALHOST.into() },
                address.port(),
            ),
            _ => address,
        };
        format!("http://{at}/{}/", self.shared.token)
    }

    /// Returns the feed of events and statuses.
    pub(super) fn feed(&self) -> &Feed {
        &self.shared.feed
    }

    /// Sets the action of the button *leave*.
    pub(super) fn on_leave(&self, leave: impl Fn() + Send + Sync + 'static) {
        self.shared.leave.get_or_init(|| Box::new(leave));
    }

    /// Sets the report, which the page shows at the end.
    pub(super) fn report(&self, html: String) {
        *self.shared.report.lock().unwrap_or_else(PoisonError::into_inner) = Some(html.into());
    }

    /// Returns the page with all its events, so that it can be read after the program has ended.
    pub(super) fn kept(&self) -> Option<String> {
        let report = self.shared.report.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let report = report.map(|html| String::from_utf8_lossy(&html).into_owned());
        let kept = format!("{{\"told\":{},\"report\":{}}}", self.shared.feed.kept(), Value::from(report));
        let (html, policy) = html(&kept)?;
        let policy = format!("<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n");
        let rest = html.strip_prefix(BEGINNING)?;
        Some(format!("{BEGINNING}{policy}{rest}"))
    }

    /// Ends the feed, and gives open pages time to read the end.
    pub(super) fn finish(&self) {
        self.shared.feed.end();
        let step = Duration::from_millis(20);
        let mut left = END;
        while self.shared.feed.readers() > 0 && !left.is_zero() {
            std::thread::sleep(step);
            left = left.saturating_sub(step);
        }
    }
}

impl Shared {
    fn answer(&self, request: &Request<Incoming>) -> Response<Body> {
        let mut response = self.route(request);
        let headers = response.headers_mut();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-resource-policy", "same-origin"),
            ("x-frame-options", "DENY"),
        ] {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        if !headers.contains_key(CONTENT_SECURITY_POLICY) {
            headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'"));
        }
        response
    }

    fn route(&self, request: &Request<Incoming>) -> Response<Body> {
        let said = |status, text: &'static str| http::text(status, http::PLAIN, text);
        let header = |name| request.headers().get(name).and_then(|value| value.to_str().ok());
        let host = header(HOST).unwrap_or_default();
        if !self.port.get().is_some_and(|port| http::is_to(request, *port)) {
            return said(StatusCode::FORBIDDEN, http::NOT_OWN);
        }
        let path = request.uri().path().trim_start_matches('/');
        let Some(place) = path.split_once('/').filter(|(token, _)| same(token, &self.token)).map(|at| at.1)
        else {
            return said(StatusCode::FORBIDDEN, "the address lacks the token that flyswarm has printed\n");
        };
        match (request.method(), place) {
            (&Method::GET, "") => page(),
            (&Method::GET, "events") if self.feed.readers() >= PAGES => {
                said(StatusCode::SERVICE_UNAVAILABLE, "too many pages are open\n")
            }
            (&Method::GET, "events") => {
                let after = header(HeaderName::from_static("last-event-id")).and_then(|id| id.parse().ok());
                events(&self.feed, after)
            }
            (&Method::GET, "report") => {
                match self.report.lock().unwrap_or_else(PoisonError::into_inner).clone() {
                    Some(html) => {
                        let mut response = http::text(StatusCode::OK, HTML_TYPE, html);
                        let policy =
                            HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'");
                        response.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
                        response
                    }
                    None => said(StatusCode::NOT_FOUND, "there is no report yet\n"),
                }
            }
            (&Method::POST, "leave") => {
                // A page of another site can send such a request, but not with this Origin header.
                if header(ORIGIN) != Some(&format!("http://{host}")) {
                    return said(StatusCode::FORBIDDEN, "the Origin header is not this page's\n");
                }
                match self.leave.get() {
                    Some(leave) => {
                        leave();
                        said(StatusCode::OK, "it leaves\n")
                    }
                    None => said(StatusCode::CONFLICT, "there is no node that could leave\n"),
                }
            }
            (_, "" | "events" | "report" | "leave") => {
                said(StatusCode::METHOD_NOT_ALLOWED, "this method is not allowed here\n")
            }
            _ => said(StatusCode::NOT_FOUND, "there is nothing here\n"),
        }
    }
}

/// Returns whether two tokens are equal, in a time that does not depend on the place of the first difference.
fn same(one: &str, other: &str) -> bool {
    blake3::hash(one.as_bytes()) == blake3::hash(other.as_bytes())
}

/// Beginning of every stored page. It identifies such pages, because no other file begins in this way.
pub(super) const BEGINNING: &str = "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
                                    <meta name=\"generator\" content=\"flyswarm page\">\n";

/// Returns the page and its policy. The only script of the page has a nonce. `kept` is all data of the page
/// as JSON, or `null` if the page receives events live.
fn html(kept: &str) -> Option<(String, String)> {
    let mut nonce = [0; 16];
    SysRng.try_fill_bytes(&mut nonce).ok()?;
    let nonce = hex::encode(nonce);
    let html = HTML.replace("{nonce}", &nonce).replace("{style}", STYLE).replace("{script}", SCRIPT);
    // Otherwise `</script>` in the data would end the enclosing element.
    let html = html.replace("{kept}", &kept.replace('<', "\\u003c"));
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'unsafe-inline'; connect-src 'self'; img-src data:; \
         base-uri 'none'; form-action 'none'"
    );
    Some((html, policy))
}

fn page() -> Response<Body> {
    let Some((html, policy)) = html("null") else {
        return http::text(StatusCode::INTERNAL_SERVER_ERROR, "text/plain", "no random bytes\n");
    };
    let mut response = http::text(StatusCode::OK, HTML_TYPE, html);
    if let Ok(policy) = HeaderValue::from_str(&format!("{policy}; frame-ancestors 'none'")) {
        response.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
    }
    response
}

/// Streams server-sent events: first all kept events with numbers above `after`, then new events.
fn events(feed: &Feed, after: Option<u64>) -> Response<Body> {
    let lines = futures::StreamExt::map(feed.read(after), |text| Ok(Frame::data(Bytes::from(text))));
    let mut response = Response::new(StreamBody::new(lines).boxed_unsync());
    let kind = HeaderValue::from_static("text/event-stream");
    response.headers_mut().insert(http::header::CONTENT_TYPE, kind);
    response
}

/// Parses an address for a page: ADDRESS:PORT, or only a port. In that case the address is 127.0.0.1.
pub(super) fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let port = text.parse().map(|port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    port.or_else(|_| text.parse())
        .map_err(|_| "must be a port or ADDRESS:PORT, such as 127.0.0.1:9464".to_owned())
}

#[cfg(test)]
mod tests;
