//! An HTTP server for people and programs that watch a node. It has few connections with limits, and none of
//! them can delay the node.
//!
//! At a loopback address the server answers only requests to an IP address or `localhost`. So a page of
//! another site cannot read anything, even if its domain name resolves to this machine.
//!
//! hyper implements the protocol. A connection carries one request. The head of the request must arrive
//! within [`PATIENCE`]. The client must read an answer of known length within twice that time; a stream may
//! take longer. Bodies of requests are not read.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body as _, Incoming};
use hyper::header::{CONTENT_TYPE, HOST, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
pub(crate) use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{sleep, timeout};

/// Largest head of a request, in bytes. It is the smallest limit that hyper accepts.
const REQUEST: usize = 8 * 1024;
/// Time limit for the head of a request (guess).
const PATIENCE: Duration = Duration::from_secs(2);
/// Maximum number of connections at a time. More connections wait until one ends (guess).
const CONNECTIONS: usize = 32;

/// Content type of an answer to Prometheus.
pub(crate) const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Content type of an answer in plain text.
pub(crate) const PLAIN: &str = "text/plain; charset=utf-8";
/// Answer to a request with another host name.
pub(crate) const NOT_OWN: &str = "the Host header is not this server's address\n";

/// Body of an answer.
pub(crate) type Body = UnsyncBoxBody<Bytes, Infallible>;

/// A server. It ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    address: SocketAddr,
    _stop: oneshot::Sender<()>,
}

impl Server {
    /// Starts a server at `address`, on its own thread called `name`.
    ///
    /// # Errors
    /// If the address cannot be bound, or the system starts no thread.
    pub(crate) fn start(
        name: &str,
        address: SocketAddr,
        answer: impl Fn(&Request<Incoming>) -> Response<Body> + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(listener)?
        };
        let answer = move |request: &Request<Incoming>| match address.ip().is_loopback()
            && !is_to(request, address.port())
        {
            true => text(StatusCode::FORBIDDEN, PLAIN, NOT_OWN),
            false => answer(request),
        };
        let (stop, stopped) = oneshot::channel::<()>();
        thread::Builder::new().name(name.to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = accept(listener, Arc::new(answer)) => {}
                    // An error means that the server was dropped.
                    _ = stopped => {}
                }
            });
        })?;
        Ok(Self { address, _stop: stop })
    }

    /// Returns the server's address.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

async fn accept<A>(listener: tokio::net::TcpListener, answer: Arc<A>)
where
    A: Fn(&Request<Incoming>) -> Response<Body> + Send + Sync + 'static,
{
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let answer = Arc::clone(&answer);
                tokio::spawn(async move {
                    converse(stream, &*answer).await;
                    drop(place);
                });
            }
            // There may be too many open files at the moment, so it tries again later.
            Err(_) => sleep(Duration::from_millis(100)).await,
        }
    }
}

/// Serves one connection. A client that sends a wrong or slow request gets no answer.
async fn converse<A: Fn(&Request<Incoming>) -> Response<Body>>(stream: TcpStream, answer: &A) {
    let streams = AtomicBool::new(false);
    let service = service_fn(|request: Request<Incoming>| {
        let response = answer(&request);
        streams.store(response.body().size_hint().exact().is_none(), Ordering::Relaxed);
        std::future::ready(Ok::<_, Infallible>(response))
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .max_buf_size(REQUEST)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    if timeout(2 * PATIENCE, &mut connection).await.is_err() && streams.load(Ordering::Relaxed) {
        // It is not an error if the client has left.
        let _ = connection.await;
    }
}

/// Returns whether the Host of a request is an IP address or `localhost`, with this port. So a request to a
/// domain name of another site is refused.
pub(crate) fn is_to(request: &Request<Incoming>, port: u16) -> bool {
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let (name, given) = match host.rsplit_once(':') {
        Some((name, given)) if !given.ends_with(']') => (name, given.parse().ok()),
        _ => (host, Some(80)),
    };
    let name = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    given == Some(port) && (name == "localhost" || name.parse::<IpAddr>().is_ok())
}

/// Makes an answer with this text.
pub(crate) fn text(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Full::new(body.into()).boxed_unsync());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpStream};

    use super::*;

    fn server() -> Server {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Server::start("test", address, |_| text(StatusCode::OK, "text/plain", "here")).unwrap()
    }

    fn get(server: &Server, host: &str) -> TcpStream {
        sent(server, format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes())
    }

    fn own(server: &Server) -> TcpStream {
        get(server, &server.address().to_string())
    }

    fn sent(server: &Server, request: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(4 * PATIENCE)).unwrap();
        // An error is ignored, because the server may close the connection before the test has written
        // everything.
        let _ = stream.write_all(request);
        stream
    }

    fn read(mut stream: TcpStream) -> String {
        let mut answer = Vec::new();
        // A reset connection counts as closed. If a connection stays open, reading ends with a time-out
        // error.
        if let Err(error) = stream.read_to_end(&mut answer) {
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset, "{error}");
        }
        String::from_utf8(answer).unwrap()
    }

    #[test]
    fn who_asks_slowly_or_at_length_is_dropped_and_others_are_answered_meanwhile() {
        let server = server();
        let slow: Vec<_> = (0..CONNECTIONS - 1).map(|_| sent(&server, b"GET / HTTP/1.1\r\nHo")).collect();
        assert!(read(own(&server)).ends_with("\r\n\r\nhere"));
        let long = [&b"GET / HTTP/1.1\r\nHost: x\r\nA: "[..], &vec![b'a'; 2 * REQUEST], b"\r\n\r\n"].concat();
        assert!(!read(sent(&server, &long)).contains("here"));
        for stream in slow {
            assert!(!read(stream).contains("here"));
        }
    }

    #[test]
    fn more_connections_than_the_bound_wait_until_others_end() {
        let server = server();
        let slow: Vec<_> = (0..CONNECTIONS).map(|_| sent(&server, b"GET")).collect();
        let waits = own(&server);
        waits.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        assert!((&waits).read(&mut [0; 1]).is_err(), "this connection still waits");
        drop(slow);
        waits.set_read_timeout(Some(4 * PATIENCE)).unwrap();
        assert!(read(waits).ends_with("here"));
    }

    #[test]
    fn a_name_that_leads_to_loopback_is_refused() {
        let server = server();
        let port = server.address().port();
        for host in [format!("localhost:{port}"), format!("127.0.0.1:{port}"), format!("[::1]:{port}")] {
            assert!(read(get(&server, &host)).ends_with("here"), "{host}");
        }
        let other = format!("127.0.0.1:{}", port ^ 1);
        for host in
            [format!("stranger.example:{port}"), other, "127.0.0.1".into(), "[::1]".into(), String::new()]
        {
            let answer = read(get(&server, &host));
            assert!(answer.starts_with("HTTP/1.1 403") && answer.ends_with(NOT_OWN), "{host}: {answer}");
        }
    }

    #[test]
    fn a_server_that_is_dropped_lets_its_address_go() {
        let address = {
            let server = server();
            assert!(read(own(&server)).ends_with("here"));
            server.address()
        };
        let gone = (0..200).any(|_| {
            thread::sleep(Duration::from_millis(10));
            TcpStream::connect(address).is_err()
        });
        assert!(gone);
    }
}
