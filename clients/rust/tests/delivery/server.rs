//! A scripted HTTP server: it records its requests, and responds, waits or closes the connection as the test demands.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use spindle_client::Settings;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The response to one request.
#[derive(Clone, Debug)]
pub(crate) enum Turn {
    Accept,
    /// A status, with these further header lines.
    Status(u16, &'static str),
    /// 200 with this body.
    Body(&'static str),
    /// Closes the connection.
    HangUp,
    /// Never responds.
    Silence,
}

#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) head: String,
    pub(crate) events: Vec<Value>,
    pub(crate) bytes: usize,
}

#[derive(Default)]
struct Script {
    turns: VecDeque<Turn>,
    seen: Vec<Request>,
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    script: Arc<Mutex<Script>>,
    count: watch::Sender<usize>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// Responds to requests by these turns, and accepts all further ones.
    pub(crate) async fn start(turns: &[Turn]) -> Self {
        Self::at("127.0.0.1:0".parse().unwrap(), turns).await
    }

    pub(crate) async fn at(address: SocketAddr, turns: &[Turn]) -> Self {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        // A previous server on this port may not be gone entirely.
        socket.set_reuseaddr(true).unwrap();
        socket.bind(address).unwrap();
        let listener: TcpListener = socket.listen(64).unwrap();
        let script = Arc::new(Mutex::new(Script {
            turns: turns.iter().cloned().collect(),
            seen: Vec::new(),
        }));
        let count = watch::Sender::new(0);
        let address = listener.local_addr().unwrap();
        let (shared, counted) = (Arc::clone(&script), count.clone());
        let task = tokio::spawn(async move {
            // Connections end with the server.
            let mut open = tokio::task::JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                open.spawn(serve(stream, Arc::clone(&shared), counted.clone()));
            }
        });
        Self {
            address,
            script,
            count,
            task,
        }
    }

    pub(crate) fn settings(&self) -> Settings {
        settings(self.address)
    }

    pub(crate) fn seen(&self) -> Vec<Request> {
        self.script.lock().unwrap().seen.clone()
    }

    /// Every event so far, duplicates included.
    pub(crate) fn events(&self) -> Vec<Value> {
        self.seen()
            .into_iter()
            .flat_map(|request| request.events)
            .collect()
    }

    /// Waits until so many requests have come.
    pub(crate) async fn requests(&self, count: usize) {
        let mut seen = self.count.subscribe();
        let wait = seen.wait_for(|seen| *seen >= count);
        tokio::time::timeout(Duration::from_secs(20), wait)
            .await
            .expect("the requests come")
            .unwrap();
    }
}

/// Settings with short waits.
pub(crate) fn settings(address: SocketAddr) -> Settings {
    Settings {
        url: format!("http://{address}/"),
        api_key: Some("sp_key_test".to_owned()),
        flush_interval: Duration::from_millis(5),
        retry_wait: Duration::from_millis(5),
        close_timeout: Duration::from_secs(20),
        ..Settings::default()
    }
}

async fn serve(stream: TcpStream, script: Arc<Mutex<Script>>, count: watch::Sender<usize>) {
    let mut stream = BufReader::new(stream);
    while let Some((head, body)) = request(&mut stream).await {
        let parsed: Value = serde_json::from_slice(&body).unwrap_or_default();
        let events = parsed["events"].as_array().cloned().unwrap_or_default();
        let accepted = events.len();
        let turn = {
            let mut script = script.lock().unwrap();
            script.seen.push(Request {
                head,
                events,
                bytes: body.len(),
            });
            script.turns.pop_front().unwrap_or(Turn::Accept)
        };
        count.send_modify(|count| *count += 1);
        let report = json!({"accepted": accepted, "rejected": 0, "errors": []}).to_string();
        let (status, headers, body) = match turn {
            Turn::Accept => (200, "", report.as_str()),
            Turn::Status(status, headers) => (status, headers, "{}"),
            Turn::Body(body) => (200, "", body),
            Turn::HangUp => return,
            Turn::Silence => std::future::pending().await,
        };
        let answer = format!(
            "HTTP/1.1 {status} X\r\nContent-Length: {}\r\n{headers}\r\n{body}",
            body.len()
        );
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// Head and body of the next request; none at the end.
async fn request(stream: &mut BufReader<TcpStream>) -> Option<(String, Vec<u8>)> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).unwrap();
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim().parse::<usize>().unwrap())
    });
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).await.ok()?;
    Some((head, body))
}
