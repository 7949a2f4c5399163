//! As much of HTTP as one question and one answer need.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// A list of members is a few kilobytes, all figures of an etcd are some hundred.
const MOST: usize = 1 << 20;

pub(crate) struct Request(String);

pub(crate) struct Response {
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    /// In HTTP/1.0: then a long answer ends with the connection, and does not come in chunks.
    pub(crate) fn get(path: &str, host: &str) -> Request {
        Request(format!(
            "GET {path} HTTP/1.0\r\nHost: {host}\r\nUser-Agent: conclave\r\nAccept: */*\r\nConnection: close\r\n\r\n"
        ))
    }

    pub(crate) async fn send(&self, mut stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<Response> {
        stream.write_all(self.0.as_bytes()).await?;
        stream.flush().await?;
        let mut bytes = Vec::new();
        while stream.read_buf(&mut bytes).await? > 0 {
            if bytes.len() > MOST {
                return Err(io::Error::other("the answer is too long"));
            }
        }
        let cut_short = || io::Error::from(io::ErrorKind::UnexpectedEof);
        let (head, body) = split(&bytes).ok_or_else(cut_short)?;
        let mut response = Response::parse(head);
        let length = response.length().unwrap_or(body.len());
        response.body = body.get(..length).ok_or_else(cut_short)?.to_vec();
        Ok(response)
    }

    /// Reads one to its end and tells its path.
    pub(crate) async fn receive(mut stream: impl AsyncRead + Unpin) -> io::Result<String> {
        let mut bytes = Vec::new();
        while split(&bytes).is_none() {
            if bytes.len() > MOST {
                return Err(io::Error::other("the question is too long"));
            }
            if stream.read_buf(&mut bytes).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let text = String::from_utf8_lossy(&bytes);
        Ok(text.split(' ').nth(1).unwrap_or_default().to_string())
    }
}

impl Response {
    pub(crate) async fn send(
        status: &str,
        headers: &[(&str, &str)],
        body: &[u8],
        mut stream: impl AsyncWrite + Unpin,
    ) -> io::Result<()> {
        let mut head = format!(
            "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n",
            body.len()
        );
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(body).await?;
        stream.shutdown().await
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self
            .headers
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    fn parse(head: &[u8]) -> Response {
        let text = String::from_utf8_lossy(head);
        let headers = text
            .lines()
            .skip(1)
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.trim().to_string(), value.trim().to_string()))
            .collect();
        Response {
            headers,
            body: Vec::new(),
        }
    }

    /// As it says itself.
    fn length(&self) -> Option<usize> {
        self.header("content-length")?.parse().ok()
    }
}

fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    Some((&bytes[..end], &bytes[end + 4..]))
}
