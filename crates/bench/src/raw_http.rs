//! Plain HTTP requests on a connection of their own, which are read as slowly or as quickly as a measurement needs.

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// Sends a GET request and returns the connection after the header of the response. HTTP/1.0, so that the body is not
/// chunked and ends with the connection.
pub(crate) async fn get(address: &str, path: &str) -> Result<BufReader<TcpStream>> {
    let mut connection = TcpStream::connect(address)
        .await
        .with_context(|| format!("could not connect to {address}"))?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n");
    connection.write_all(request.as_bytes()).await?;
    let mut connection = BufReader::new(connection);
    let mut header = Vec::new();
    while !header.ends_with(b"\r\n\r\n") {
        header.push(
            connection
                .read_u8()
                .await
                .context("the server closed the connection")?,
        );
    }
    let header = String::from_utf8_lossy(&header);
    let status = header.lines().next().unwrap_or_default();
    ensure!(status.contains(" 200 "), "GET {path} was answered: {status}");
    Ok(connection)
}

/// Reads the whole body and returns its length.
pub(crate) async fn get_length(address: &str, path: &str) -> Result<u64> {
    let mut connection = get(address, path).await?;
    let mut buffer = vec![0; 64 << 10];
    let mut length = 0;
    loop {
        match connection.read(&mut buffer).await? {
            0 => return Ok(length),
            count => length += count as u64,
        }
    }
}
