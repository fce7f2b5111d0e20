use std::io::{Read, Write};
use std::net::TcpStream;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::StreamExt;
use futures::executor::block_on;
use serde_json::json;

use super::*;

fn live() -> Live {
    Live::open(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), &json!({"nodes": ["north"]})).unwrap()
}

/// Sends a request for `path` below the token, with these header lines, and returns the answer.
fn asked(live: &Live, method: &str, path: &str, head: &str) -> String {
    let mut stream = TcpStream::connect(live.server.address()).unwrap();
    write!(stream, "{method} {path} HTTP/1.1\r\n{head}\r\n").unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer
}

fn own(live: &Live) -> (String, String) {
    let host = format!("Host: 127.0.0.1:{}\r\n", live.server.address().port());
    (format!("/{}/", live.shared.token), host)
}

fn code(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or_default()
}

#[test]
fn who_lacks_the_token_or_comes_by_a_foreign_name_is_refused() {
    let live = live();
    let (path, host) = own(&live);
    let port = live.server.address().port();
    assert_eq!(code(&asked(&live, "GET", &path, &host)), "200");
    assert_eq!(code(&asked(&live, "GET", &path, &format!("Host: localhost:{port}\r\n"))), "200");
    assert_eq!(code(&asked(&live, "GET", &path, &format!("Host: [::1]:{port}\r\n"))), "200");
    for wrong in ["/", "/0123/", &path[..path.len() - 1], &path.to_uppercase(), &format!("/x{path}")] {
        assert_eq!(code(&asked(&live, "GET", wrong, &host)), "403", "{wrong}");
    }
    let port = port.to_string();
    for name in ["evil.example:PORT", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:PORT", ""] {
        let head = format!("Host: {}\r\n", name.replace("PORT", &port));
        assert_eq!(code(&asked(&live, "GET", &path, &head)), "403", "{name}");
    }
    assert_eq!(code(&asked(&live, "GET", &format!("{path}passwd"), &host)), "404");
    assert_eq!(code(&asked(&live, "POST", &path, &host)), "405");
    assert_eq!(code(&asked(&live, "GET", &format!("{path}report"), &host)), "404");
    live.report("<p>all</p>".into());
    assert!(asked(&live, "GET", &format!("{path}report"), &host).ends_with("<p>all</p>"));
}

#[test]
fn the_page_stands_alone_and_its_policy_names_its_one_script() {
    let live = live();
    let (path, host) = own(&live);
    let answer = asked(&live, "GET", &path, &host);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let head = head.to_lowercase();
    let nonce = head.split("script-src 'nonce-").nth(1).unwrap().split('\'').next().unwrap();
    assert_eq!(nonce.len(), 32);
    assert!(body.contains(&format!("<script nonce=\"{nonce}\">")));
    assert!(head.contains("default-src 'none'") && head.contains("frame-ancestors 'none'"));
    assert!(head.contains("cache-control: no-store") && head.contains("referrer-policy: no-referrer"));
    for foreign in ["src=\"", "@import", "url(", "{style}", "{script}", "innerHTML"] {
        assert!(!body.contains(foreign), "{foreign}");
    }
    let again = asked(&live, "GET", &path, &host);
    assert!(!again.contains(nonce), "a nonce is used only once");
}

#[test]
fn only_the_page_itself_makes_a_node_leave() {
    let live = live();
    let (path, host) = own(&live);
    let (leave, own) = (format!("{path}leave"), host.replace("Host: ", "Origin: http://"));
    assert_eq!(code(&asked(&live, "POST", &leave, &format!("{host}{own}"))), "409", "no node yet");
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    live.on_leave(move || {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    for origin in ["", "Origin: null\r\n", "Origin: http://evil.example\r\n"] {
        assert_eq!(code(&asked(&live, "POST", &leave, &format!("{host}{origin}"))), "403", "{origin}");
    }
    assert_eq!(code(&asked(&live, "GET", &leave, &format!("{host}{own}"))), "405");
    assert_eq!(count.load(Ordering::Relaxed), 0);
    assert_eq!(code(&asked(&live, "POST", &leave, &format!("{host}{own}"))), "200");
    assert_eq!(count.load(Ordering::Relaxed), 1);
}

fn told(feed: &Feed, after: Option<u64>) -> String {
    let mut told = String::new();
    let mut stream = pin!(feed.read(after));
    while !told.ends_with("event: over\ndata: null\n\n") {
        told += &block_on(stream.next()).unwrap();
    }
    told
}

#[test]
fn a_late_page_has_every_event_and_one_that_comes_back_those_that_it_lacks() {
    let feed = Feed::default();
    feed.about(&json!({"title": "wards"}));
    (0..3).for_each(|i| feed.event(Some(0), &json!({"event": format!("e{i}")}), "text"));
    feed.status(0, &json!({"at": 1}));
    feed.status(0, &json!({"at": 2}));
    feed.end();
    let all = told(&feed, None);
    assert!(
        all.starts_with("event: about\ndata: {\"title\":\"wards\"}\n\nid: 1\nevent: happened\n"),
        "{all}"
    );
    for i in 0..3 {
        assert_eq!(all.matches(&format!("\"e{i}\"")).count(), 1);
    }
    assert!(all.contains("{\"at\":2}") && !all.contains("{\"at\":1}"), "only the newest status");
    assert!(all.ends_with("event: over\ndata: null\n\n"));
    let rest = told(&feed, Some(2));
    assert!(!rest.contains("\"e1\"") && rest.contains("id: 3\n") && rest.contains("\"e2\""), "{rest}");
    // A number above all events belongs to another run of the program.
    assert!(told(&feed, Some(u64::MAX)).ends_with("event: over\ndata: null\n\n"));
    assert_eq!(feed.readers(), 0, "a reader that has closed the stream is not counted");
}

#[test]
fn what_is_kept_has_a_bound_and_a_late_page_is_told_what_it_missed() {
    let feed = Feed::default();
    let long = "x".repeat(1 << 20);
    (0..40).for_each(|i| feed.event(None, &json!({"event": i}), &long));
    feed.end();
    let all = told(&feed, None);
    let kept = all.matches("event: happened").count();
    assert!((10..=16).contains(&kept), "{kept}");
    assert!(
        all.contains(&format!("event: missed\ndata: {}\n", 40 - kept)),
        "the number of missed events is sent"
    );
    assert!(all.contains("id: 40\n"));
}

#[test]
fn a_page_is_told_what_happens_while_it_is_open_and_the_end_waits_until_it_closes_its_stream() {
    let live = live();
    let (path, host) = own(&live);
    let mut stream = TcpStream::connect(live.server.address()).unwrap();
    write!(stream, "GET {path}events HTTP/1.1\r\n{host}\r\n").unwrap();
    let mut got = String::new();
    let mut until = |wanted: &str| {
        let mut buffer = [0; 4096];
        while !got.contains(wanted) {
            let count = stream.read(&mut buffer).unwrap();
            assert!(count > 0, "{got}");
            got += std::str::from_utf8(&buffer[..count]).unwrap();
        }
    };
    until("event: about");
    live.feed().event(Some(0), &json!({"event": "joined"}), "north joined");
    until("\"joined\"");
    live.feed().status(0, &json!({"waits": null}));
    until("event: status");
    assert_eq!(live.feed().readers(), 1);
    let ending = live.clone();
    let ended = std::thread::spawn(move || ending.finish());
    until("event: over");
    live.report("<p>all</p>".into());
    assert_eq!(code(&asked(&live, "GET", &format!("{path}report"), &host)), "200");
    assert_eq!(live.feed().readers(), 1, "it may still fetch the report");
    assert!(!ended.is_finished());
    drop(stream);
    ended.join().unwrap();
    assert_eq!(live.feed().readers(), 0);
}

#[test]
fn no_more_pages_than_the_bound_are_told_events_at_a_time() {
    let live = live();
    let (path, host) = own(&live);
    let open: Vec<_> = (0..PAGES)
        .map(|_| {
            let mut stream = TcpStream::connect(live.server.address()).unwrap();
            write!(stream, "GET {path}events HTTP/1.1\r\n{host}\r\n").unwrap();
            assert!(stream.read(&mut [0; 16]).unwrap() > 0);
            stream
        })
        .collect();
    assert_eq!(live.feed().readers(), PAGES);
    assert_eq!(code(&asked(&live, "GET", &format!("{path}events"), &host)), "503");
    drop(open);
}
