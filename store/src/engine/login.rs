//! The only login of the user `default`: the engine's local session.
//!
//! `clickhouse local` logs in as `default` without a password, and so could every client of a listener. So the users
//! file asks an HTTP endpoint of this process about each login of `default` (`http_authentication`). The endpoint
//! accepts one login, which is the local session's since the listener starts afterwards, and is then closed for good. A
//! login that cannot ask is rejected.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use super::port::ReservedPort;

/// The engine sends its request at once; another local process that connects and waits blocks the endpoint this long.
const READ_TIMEOUT: Duration = Duration::from_millis(200);
/// The request is one line and a few headers.
const REQUEST_BYTES_MAX: u64 = 4096;

/// Starts the endpoint and returns its URL. The path is random, so only a reader of the engine's settings can use up
/// the login.
pub(super) fn allow_one() -> io::Result<String> {
    let port = ReservedPort::new()?;
    let listener = port.listen()?;
    let path = format!("/{}", hex::encode(rand::random::<[u8; 16]>()));
    let url = format!("http://127.0.0.1:{}{path}", port.number());
    let answer = move || {
        answer_one(listener, &path);
        // Reserved until the process ends: the engine would trust another process's listener.
        std::mem::forget(port);
    };
    std::thread::Builder::new()
        .name("session-login".to_owned())
        .spawn(answer)?;
    Ok(url)
}

/// Returns, with the listener closed, after responding to the request for the path.
fn answer_one(listener: TcpListener, path: &str) {
    for stream in listener.incoming().flatten() {
        if asks_for(&stream, path).unwrap_or(false) {
            let accept = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            let _ = (&stream).write_all(accept);
            return;
        }
    }
}

fn asks_for(stream: &TcpStream, path: &str) -> io::Result<bool> {
    stream.set_read_timeout(Some(READ_TIMEOUT))?;
    let mut request = Vec::new();
    let mut bytes = stream.take(REQUEST_BYTES_MAX);
    let mut chunk = [0; 512];
    while !request.windows(4).any(|window| window == b"\r\n\r\n") {
        match bytes.read(&mut chunk)? {
            0 => return Ok(false),
            length => request.extend_from_slice(&chunk[..length]),
        }
    }
    Ok(request.starts_with(format!("GET {path} ").as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(url: &str, path: Option<&str>) -> io::Result<String> {
        let (address, rest) = url.trim_start_matches("http://").split_once('/').unwrap();
        let mut stream = TcpStream::connect(address)?;
        let path = path.unwrap_or(rest);
        stream.write_all(format!("GET /{path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }

    #[test]
    fn one_login_is_accepted_and_none_after_it() {
        let url = allow_one().unwrap();
        let guess = ask(&url, Some("0000"));
        assert!(!guess.unwrap_or_default().contains("200"));
        assert!(ask(&url, None).unwrap().starts_with("HTTP/1.1 200"));
        // The listener closes right after the response.
        let deadline = std::time::Instant::now() + Duration::from_secs(10);
        while ask(&url, None).is_ok_and(|answer| answer.is_empty()) {
            assert!(std::time::Instant::now() < deadline);
        }
        assert!(ask(&url, None).is_err());
    }
}
