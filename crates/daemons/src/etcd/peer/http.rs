//! Sends one HTTP GET request, each over a new connection.

use std::io;

use error_causes::with_causes;
use http_body_util::{BodyExt, Empty, LengthLimitError, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{HeaderMap, Request, header};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::PeerTlsConnector;

/// A member list has a few kilobytes, the metrics of an etcd some hundred.
const MAX_BODY_BYTES: usize = 1 << 20;
const MAX_HEAD_BYTES: usize = 1 << 16;

/// The headers and the whole body of an HTTP response from the etcd peer port of another node. Callers ignore the
/// status code: they recognise etcd by its headers and its body.
pub(crate) struct PeerHttpResponse {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl PeerHttpResponse {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// Connects to `host_port`, with TLS if `tls` is given, and requests `path`. The caller sets the deadline.
pub(crate) async fn get(
    path: &str,
    host_port: &str,
    tls: Option<&PeerTlsConnector>,
) -> io::Result<PeerHttpResponse> {
    let stream = TcpStream::connect(host_port).await?;
    match tls {
        Some(tls) => get_over(tls.connect(host_port, stream).await?, path, host_port).await,
        None => get_over(stream, path, host_port).await,
    }
}

/// Returns as soon as the body is complete by its length or its last chunk, and closes the connection. It does not wait
/// until the server closes it: etcd often closes a connection to its peer port only 5 s after the response.
async fn get_over(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send,
    path: &str,
    host_port: &str,
) -> io::Result<PeerHttpResponse> {
    let request = Request::get(path)
        .header(header::HOST, host_port)
        .header(header::USER_AGENT, "conclave")
        .header(header::CONNECTION, "close")
        .body(Empty::<Bytes>::new())
        .map_err(io::Error::other)?;
    let (mut sender, connection) = http1::Builder::new()
        .max_buf_size(MAX_HEAD_BYTES)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(io_error)?;
    let exchange = async move {
        let (head, body) = sender.send_request(request).await.map_err(io_error)?.into_parts();
        let body = Limited::new(body, MAX_BODY_BYTES).collect().await;
        let body = body.map_err(|error| match error.downcast::<hyper::Error>() {
            Ok(error) => io_error(*error),
            Err(error) if error.is::<LengthLimitError>() => {
                io::Error::other(format!("the response is larger than {MAX_BODY_BYTES} bytes"))
            }
            Err(error) => io::Error::other(error),
        })?;
        Ok(PeerHttpResponse {
            headers: head.headers,
            body: body.to_bytes(),
        })
    };
    tokio::pin!(exchange);
    tokio::select! {
        response = &mut exchange => response,
        // The connection has ended; the exchange has received all of the response, or an error.
        _ = connection => exchange.await,
    }
}

fn io_error(error: hyper::Error) -> io::Error {
    io::Error::other(with_causes(&error))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

    use super::*;

    /// What the fake HTTP server of a test does with the connection after its response.
    enum AfterResponse {
        KeepsOpen,
        Closes,
    }

    async fn read_request(server: &mut DuplexStream) {
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            assert_ne!(server.read_buf(&mut request).await.unwrap(), 0);
        }
    }

    /// `expected` is the body, or `None` for an error.
    async fn check(response: &str, after: AfterResponse, expected: Option<&str>) {
        let (client, mut server) = tokio::io::duplex(1 << 16);
        let serve = async {
            read_request(&mut server).await;
            server.write_all(response.as_bytes()).await.unwrap();
            if let AfterResponse::Closes = after {
                server.shutdown().await.unwrap();
            }
        };
        let limit = std::time::Duration::from_secs(10);
        let receive = tokio::time::timeout(limit, get_over(client, "/", "here"));
        let ((), received) = tokio::join!(serve, receive);
        let received = received.unwrap_or_else(|_| panic!("waits for the connection to end: {response:?}"));
        let body = received.map(|response| String::from_utf8(response.body.to_vec()).unwrap());
        assert_eq!(body.ok().as_deref(), expected, "{response:?}");
    }

    #[tokio::test]
    async fn a_complete_response_is_returned_while_the_connection_stays_open() {
        use AfterResponse::{Closes, KeepsOpen};
        let head = "HTTP/1.1 200 OK\r\nConnection: close\r\n";
        let with = |rest: &str| format!("{head}{rest}");
        check(&with("Content-Length: 2\r\n\r\n[]"), KeepsOpen, Some("[]")).await;
        check(&with("content-length: 0\r\n\r\n"), KeepsOpen, Some("")).await;
        let chunked = |body: &str| with(&format!("Transfer-Encoding: chunked\r\n\r\n{body}"));
        check(&chunked("0\r\n\r\n"), KeepsOpen, Some("")).await;
        check(
            &chunked("a\r\n0123456789\r\n2;x=y\r\n\r\n\r\n0\r\n\r\n"),
            KeepsOpen,
            Some("0123456789\r\n"),
        )
        .await;
        check(&with("\r\n[]"), Closes, Some("[]")).await;
        // Truncated or malformed.
        check(&with("Content-Length: 3\r\n\r\n[]"), Closes, None).await;
        check(&chunked("3\r\n[]"), Closes, None).await;
        check(&chunked("2\r\n[]\r\n"), Closes, None).await;
        check(head, Closes, None).await;
        check(&with("Content-Length: many\r\n\r\n[]"), KeepsOpen, None).await;
        check(&chunked("many\r\n[]"), KeepsOpen, None).await;
    }

    #[tokio::test]
    async fn an_endless_response_is_refused() {
        let error_of = async |start: &str, endless: &str| {
            let (client, mut server) = tokio::io::duplex(1 << 16);
            let serve = async {
                read_request(&mut server).await;
                server.write_all(start.as_bytes()).await.unwrap();
                while server.write_all(endless.as_bytes()).await.is_ok() {}
            };
            let ((), received) = tokio::join!(serve, get_over(client, "/", "here"));
            received.err().unwrap().to_string()
        };
        let too_large = "the response is larger than 1048576 bytes";
        let head = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
        assert_eq!(error_of(head, "aaaaaaaaaaaaaaaa").await, too_large);
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(error_of(chunked, "10\r\naaaaaaaaaaaaaaaa\r\n").await, too_large);
        let error = error_of("HTTP/1.1 200 OK\r\nX: ", "aaaaaaaaaaaaaaaa").await;
        assert!(error.contains("message head is too large"), "{error}");
        error_of("", "aaaaaaaaaaaaaaaa").await;
    }
}
