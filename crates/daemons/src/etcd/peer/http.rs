//! As much of HTTP as one question and one answer need.

use std::io;

use tokio::io::{
    AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader,
};

/// A list of members is a few kilobytes, all figures of an etcd are some hundred.
const MOST: usize = 1 << 20;

pub(crate) struct Request(String);

pub(crate) struct Response {
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    /// In HTTP/1.1: then every answer of etcd says where it ends, a long one by coming in chunks.
    pub(crate) fn get(path: &str, host: &str) -> Request {
        Request(format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: conclave\r\nAccept: */*\r\nConnection: close\r\n\r\n"
        ))
    }

    /// Returns when the answer is complete. The connection may stay open for longer: on its port for peers, etcd often
    /// closes it only 5 s after the answer.
    pub(crate) async fn send(&self, mut stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<Response> {
        stream.write_all(self.0.as_bytes()).await?;
        stream.flush().await?;
        let mut limited = BufReader::new(stream).take(MOST as u64);
        let response = Response::receive(&mut limited).await;
        match limited.limit() {
            0 => Err(io::Error::other("the answer is too long")),
            _ => response,
        }
    }

    /// Reads one to its end and tells its path.
    pub(crate) async fn receive(mut stream: impl AsyncRead + Unpin) -> io::Result<String> {
        let mut bytes = Vec::new();
        while !bytes.windows(4).any(|four| four == b"\r\n\r\n") {
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

    async fn receive(stream: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Response> {
        // The status line: callers tell by the headers and the body who answered.
        read_line(stream).await?;
        let mut response = Response {
            headers: Vec::new(),
            body: Vec::new(),
        };
        loop {
            let line = read_line(stream).await?;
            if line.is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(':') {
                let header = (name.trim().to_string(), value.trim().to_string());
                response.headers.push(header);
            }
        }
        match response.body_end()? {
            BodyEnd::LastChunk => {
                while let size @ 1.. = chunk_size(&read_line(stream).await?)? {
                    read_exactly(stream, size, &mut response.body).await?;
                    read_line(stream).await?;
                }
            }
            BodyEnd::Length(length) => read_exactly(stream, length, &mut response.body).await?,
            BodyEnd::Connection => {
                stream.read_to_end(&mut response.body).await?;
            }
        }
        Ok(response)
    }

    fn body_end(&self) -> io::Result<BodyEnd> {
        let encoding = self.header("transfer-encoding").unwrap_or_default();
        match self.header("content-length") {
            _ if encoding.eq_ignore_ascii_case("chunked") => Ok(BodyEnd::LastChunk),
            Some(length) => length.parse().map(BodyEnd::Length).map_err(io::Error::other),
            None => Ok(BodyEnd::Connection),
        }
    }
}

/// Where a body ends.
enum BodyEnd {
    LastChunk,
    Length(u64),
    Connection,
}

/// Without its line break.
async fn read_line(stream: &mut (impl AsyncBufRead + Unpin)) -> io::Result<String> {
    let mut bytes = Vec::new();
    stream.read_until(b'\n', &mut bytes).await?;
    match bytes.strip_suffix(b"\n") {
        Some(line) => Ok(String::from_utf8_lossy(line).trim_end().to_string()),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// A semicolon begins extensions, which mean nothing here.
fn chunk_size(line: &str) -> io::Result<u64> {
    let digits = line.split(';').next().unwrap_or_default();
    u64::from_str_radix(digits.trim(), 16).map_err(io::Error::other)
}

async fn read_exactly(
    stream: &mut (impl AsyncBufRead + Unpin),
    length: u64,
    body: &mut Vec<u8>,
) -> io::Result<()> {
    let read = stream.take(length).read_to_end(body).await?;
    match u64::try_from(read) == Ok(length) {
        true => Ok(()),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The body, or `None` for an error. The other side keeps the connection open, unless it is said to close it.
    async fn check(answer: &str, closes: Closes, expected: Option<&str>) {
        let (ours, mut theirs) = tokio::io::duplex(1 << 16);
        theirs.write_all(answer.as_bytes()).await.unwrap();
        if let Closes::AfterAnswer = closes {
            theirs.shutdown().await.unwrap();
        }
        let request = Request::get("/", "here");
        let response = tokio::time::timeout(std::time::Duration::from_secs(10), request.send(ours)).await;
        let response = response.unwrap_or_else(|_| panic!("waits for the connection to end: {answer:?}"));
        let body = response.map(|response| String::from_utf8(response.body).unwrap());
        assert_eq!(body.ok().as_deref(), expected, "{answer:?}");
    }

    enum Closes {
        Later,
        AfterAnswer,
    }

    #[tokio::test]
    async fn a_complete_answer_is_not_held_up_by_an_open_connection() {
        use Closes::{AfterAnswer, Later};
        let head = "HTTP/1.1 200 OK\r\nConnection: close\r\n";
        let with = |rest: &str| format!("{head}{rest}");
        check(&with("Content-Length: 2\r\n\r\n[]"), Later, Some("[]")).await;
        check(&with("content-length: 0\r\n\r\n"), Later, Some("")).await;
        let chunked = |body: &str| with(&format!("Transfer-Encoding: chunked\r\n\r\n{body}"));
        check(&chunked("0\r\n\r\n"), Later, Some("")).await;
        check(
            &chunked("a\r\n0123456789\r\n2;x=y\r\n\r\n\r\n0\r\n\r\n"),
            Later,
            Some("0123456789\r\n"),
        )
        .await;
        check(&with("\r\n[]"), AfterAnswer, Some("[]")).await;
        // Cut short, or something else.
        check(&with("Content-Length: 3\r\n\r\n[]"), AfterAnswer, None).await;
        check(&chunked("3\r\n[]"), AfterAnswer, None).await;
        check(&chunked("2\r\n[]\r\n"), AfterAnswer, None).await;
        check(head, AfterAnswer, None).await;
        check(&with("Content-Length: many\r\n\r\n[]"), Later, None).await;
        check(&chunked("many\r\n[]"), Later, None).await;
    }

    #[tokio::test]
    async fn an_endless_answer_is_refused() {
        let (ours, mut theirs) = tokio::io::duplex(1 << 16);
        let endless = tokio::spawn(async move { while theirs.write_all(&[b'a'; 1 << 12]).await.is_ok() {} });
        let error = Request::get("/", "here").send(ours).await.err().unwrap();
        assert_eq!(error.to_string(), "the answer is too long");
        endless.await.unwrap();
    }
}
