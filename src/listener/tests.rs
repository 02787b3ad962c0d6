use std::time::Instant;

use axum::Router;
use axum::routing::get;
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::TokioExecutor;
use prometheus::Registry;

use super::*;

const STALL: Duration = Duration::from_millis(500);
/// Whatever takes a stall or two has happened by then, on the busiest machine.
const SURELY: Duration = Duration::from_secs(30);
const LARGE_BYTES: usize = 4 << 20;

/// Serves a large response, a small one, and one in parts with pauses longer than a stall.
async fn server() -> SocketAddr {
    let pauses = || {
        futures::stream::unfold(0, async |part| {
            tokio::time::sleep(STALL * 2).await;
            (part < 3).then(|| (Ok::<_, Infallible>(": still here\n\n"), part + 1))
        })
    };
    let router = Router::new()
        .route("/large", get(|| async { vec![7; LARGE_BYTES] }))
        .route("/small", get(|| async { "small" }))
        .route(
            "/pauses",
            get(move || async move { Body::from_stream(pauses()) }),
        );
    let limits = PaceLimits {
        stall: STALL,
        bytes_per_second: 1024,
    };
    let config = HttpConfig {
        max_connections: 10,
        max_connections_per_address: 10,
        header_timeout: SURELY,
        body: limits,
        answer: limits,
        in_flight_bytes: 1 << 20,
        drain_timeout: SURELY,
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let metrics = HttpMetrics::register(&Registry::new()).unwrap();
    let routes = Routes::new(router);
    tokio::spawn(serve(
        listener,
        routes,
        config,
        metrics,
        CancellationToken::new(),
    ));
    address
}

fn request(path: &str) -> hyper::Request<Empty<Bytes>> {
    let uri = format!("http://spindle{path}");
    hyper::Request::get(uri)
        .header("host", "spindle")
        .body(Empty::new())
        .unwrap()
}

async fn over_http2(address: SocketAddr) -> http2::SendRequest<Empty<Bytes>> {
    let io = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (send, connection) = http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(64 << 10)
        .initial_connection_window_size(8 << 20)
        .handshake(io)
        .await
        .unwrap();
    tokio::spawn(connection);
    send
}

#[tokio::test]
async fn a_stream_that_is_not_read_is_reset_and_the_others_of_its_connection_go_on() {
    let mut client = over_http2(server().await).await;
    let unread = client.send_request(request("/large")).await.unwrap();
    let begun = Instant::now();
    while begun.elapsed() < STALL * 6 {
        let small = client.send_request(request("/small")).await.unwrap();
        assert_eq!(
            small.into_body().collect().await.unwrap().to_bytes(),
            "small"
        );
        tokio::time::sleep(STALL / 5).await;
    }
    let read = tokio::time::timeout(SURELY, unread.into_body().collect()).await;
    assert!(read.unwrap().is_err(), "the stream was reset");
    // A response that is read arrives completely.
    let large = client.send_request(request("/large")).await.unwrap();
    let large = large.into_body().collect().await.unwrap();
    assert_eq!(large.to_bytes().len(), LARGE_BYTES);
}

#[tokio::test]
async fn an_answer_with_pauses_of_the_server_is_never_cut_off() {
    let address = server().await;
    let io = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (mut first, connection) = http1::handshake(io).await.unwrap();
    tokio::spawn(connection);
    let mut second = over_http2(address).await;
    let over_http1 = first.send_request(request("/pauses")).await.unwrap();
    let over_http2 = second.send_request(request("/pauses")).await.unwrap();
    for answer in [over_http1, over_http2] {
        let body = answer.into_body().collect().await.unwrap();
        assert_eq!(body.to_bytes(), ": still here\n\n".repeat(3));
    }
}
