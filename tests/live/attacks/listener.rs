//! Clients that take what the port has without a credential: connections, bodies that never end, answers never read.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use reqwest::StatusCode;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::harness::{Server, Setup, event};

/// What is bounded by seconds in the settings has happened by then, on the busiest machine.
const SURELY: Duration = Duration::from_secs(30);

/// A connection from an address of loopback: clients with different addresses, as from different machines.
async fn connect(server: &Server, host: u8) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    let from = IpAddr::from([127, 0, 0, host]);
    socket.bind(SocketAddr::new(from, 0)).unwrap();
    let to = server.url.trim_start_matches("http://").parse().unwrap();
    socket.connect(to).await.unwrap()
}

/// Sends the head of a request, and the beginning of its body.
async fn begin(server: &Server, host: u8, head: &str, body: &[u8]) -> TcpStream {
    let mut stream = connect(server, host).await;
    let head = format!("{head}\r\nHost: spindle\r\nContent-Type: application/json\r\n\r\n");
    // The server may have closed it already.
    let _ = stream.write_all(&[head.as_bytes(), body].concat()).await;
    stream
}

/// What comes until the connection ends.
async fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let read = tokio::time::timeout(SURELY, stream.read_to_end(&mut bytes)).await;
    assert!(read.is_ok(), "the server keeps the connection");
    String::from_utf8_lossy(&bytes).into_owned()
}

async fn reports(server: &Server, run: &str) {
    let events = [event("attacked", run, "agent_start", 0)];
    let begun = Instant::now();
    let answer = server.report(&events).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    assert!(begun.elapsed() < SURELY, "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_wait_for_their_clients_never_keep_a_report_out_x1() {
    // No wait ends by itself while this test runs.
    let setup = Setup::new()
        .with("server.max_connections", "50")
        .with("server.max_connections_per_address", "20")
        .with("server.body_stall_timeout", "10m")
        .with("server.header_timeout", "10m");
    let server = setup.start_ready().await;
    let mut held = Vec::new();
    for number in 0..200_u32 {
        let host = 2 + (number % 9) as u8;
        let head = "POST /api/session HTTP/1.1\r\nContent-Length: 100";
        held.push(begin(&server, host, head, b"{").await);
        // And some that send nothing, or half of a head.
        held.push(connect(&server, host).await);
    }
    for run in 0..5 {
        reports(&server, &format!("r{run}")).await;
    }
    assert!(server.metric("spindle_http_connections").await <= 51.0);
    assert!(server.metric("spindle_http_ended_total").await >= 300.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_has_no_more_connections_than_its_share_x1() {
    let setup = Setup::new().with("server.max_connections_per_address", "5");
    let server = setup.start_ready().await;
    // Streams that are answered do not give way.
    let live = format!(
        "GET /api/run/live HTTP/1.1\r\nAuthorization: Bearer {}",
        server.key
    );
    let mut held = Vec::new();
    for _ in 0..5 {
        let mut stream = begin(&server, 2, &live, b"").await;
        let mut start = [0; 15];
        stream.read_exact(&mut start).await.unwrap();
        assert_eq!(&start, b"HTTP/1.1 200 OK");
        held.push(stream);
    }
    let mut refused = connect(&server, 2).await;
    // Closed, or reset.
    let read = tokio::time::timeout(SURELY, refused.read(&mut [0; 1])).await;
    assert!(matches!(read.unwrap(), Ok(0) | Err(_)));
    let live = begin(
        &server,
        3,
        "GET /health/live HTTP/1.1\r\nConnection: close",
        b"",
    );
    assert!(rest(&mut live.await).await.starts_with("HTTP/1.1 200 OK"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_and_answers_have_a_minimum_rate_and_a_bound_on_memory_x1() {
    let setup = Setup::new()
        .with("server.body_stall_timeout", "1s")
        .with("server.answer_stall_timeout", "1s")
        .with("server.in_flight_bytes", "64 KiB");
    let server = setup.start_ready().await;

    // No body at all, on every kind of route. Exporters of OpenTelemetry send again after 503 and not after 408.
    let (key, token) = (&server.key, &server.token);
    let slow = [
        ("POST /api/session", "", "408"),
        ("POST /api/run/compare", key, "408"),
        ("POST /api/internal/projects", token, "408"),
        ("POST /api/internal/cache/clear", token, "408"),
        ("POST /api/report", key, "408"),
        ("POST /v1/traces", key, "503"),
    ];
    let slow = slow.map(async |(route, secret, status)| {
        let head =
            format!("{route} HTTP/1.1\r\nContent-Length: 100\r\nAuthorization: Bearer {secret}");
        let answer = rest(&mut begin(&server, 2, &head, b"{").await).await;
        let expected = format!("HTTP/1.1 {status}");
        assert!(answer.starts_with(&expected), "{route}: {answer}");
    });
    futures::future::join_all(slow).await;

    // A byte now and then does not help; the rate of a slow link does.
    let mut dribble = begin(
        &server,
        2,
        "POST /api/session HTTP/1.1\r\nContent-Length: 9000",
        b"",
    )
    .await;
    let mut answer = [0; 12];
    let answered = tokio::time::timeout(SURELY, async {
        let (mut read, mut write) = dribble.split();
        let send = async {
            while write.write_all(b" ").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            answered = read.read_exact(&mut answer) => answered,
            () = send => unreachable!(),
        }
    });
    answered.await.expect("it is ended").unwrap();
    assert_eq!(&answer, b"HTTP/1.1 408");

    // Bodies of unauthenticated requests are small.
    let large = json!({"token": "x".repeat(20_000)});
    let signed_in = server.client.post(format!("{}/api/session", server.url));
    let signed_in = signed_in.json(&large).send().await.unwrap();
    assert_eq!(signed_in.status(), StatusCode::PAYLOAD_TOO_LARGE);
    // And all bodies together have a bound.
    let body = json!({"run_ids": ["x".repeat(100_000)]});
    let (status, fault) = server
        .ask(
            reqwest::Method::POST,
            &server.key,
            "/api/run/compare",
            Some(body),
        )
        .await;
    assert_eq!(
        (status, &fault["error"]),
        (StatusCode::SERVICE_UNAVAILABLE, &json!("unavailable"))
    );

    // A client that asks and never reads.
    let ask = "GET /api/openapi.json HTTP/1.1\r\nHost: spindle\r\n\r\n".repeat(50);
    let mut deaf = connect(&server, 2).await;
    let ended = tokio::time::timeout(SURELY, async {
        while deaf.write_all(ask.as_bytes()).await.is_ok() {}
    });
    ended
        .await
        .expect("a client that does not read is sent away");
    assert!(server.metric("spindle_http_ended_total").await >= 4.0);
    reports(&server, "after").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endless_body_of_empty_gzip_members_ends_at_the_bound_on_compressed_bytes_x1() {
    let setup = Setup::new()
        .with("ingest.body_bytes", "128 KiB")
        .with("ingest.keyless_body_bytes", "64 KiB");
    let server = setup.start_ready().await;
    // An empty member, as any encoder writes it.
    let member = [
        31, 139, 8, 0, 0, 0, 0, 0, 0, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    let block = member.repeat(1000);
    let chunk = [b"4e20\r\n".as_slice(), &block, b"\r\n"].concat();
    // The query tier takes one member and rejects what is behind it; ingest takes any number up to the bound.
    for (path, status) in [
        ("/api/session", "400"),
        ("/api/report", "413"),
        ("/v1/traces", "413"),
    ] {
        let head = format!(
            "POST {path} HTTP/1.1\r\nAuthorization: Bearer {}\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked",
            server.key
        );
        let mut endless = begin(&server, 2, &head, b"").await;
        let (mut read, mut write) = endless.split();
        let send = async {
            while write.write_all(&chunk).await.is_ok() {}
            std::future::pending::<()>().await;
        };
        let mut answer = [0; 12];
        let answered = async {
            tokio::select! {
                read = read.read_exact(&mut answer) => read,
                () = send => unreachable!(),
            }
        };
        let answered = tokio::time::timeout(SURELY, answered).await;
        answered.expect("it has an end").unwrap();
        let answer = std::str::from_utf8(&answer).unwrap();
        assert_eq!(answer, format!("HTTP/1.1 {status}"), "{path}");
    }
}
