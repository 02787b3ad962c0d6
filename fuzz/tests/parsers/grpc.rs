//! Exports over gRPC: the frame around a message, and the status in headers or trailers.

use fuzz::fuzz;
use http::HeaderMap;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;

use crate::ingest_tier::{TRACES, post, runtime, send};
use crate::otlp::{protobuf_seeds, same};

const EXPORT: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap();
    [&[0], &length.to_be_bytes()[..], message].concat()
}

fn status(headers: &HeaderMap) -> Option<&str> {
    headers.get("grpc-status")?.to_str().ok()
}

#[test]
fn grpc() {
    let runtime = runtime();
    let messages = protobuf_seeds::<ExportTraceServiceRequest>(TRACES, "grpc_messages");
    let frames: Vec<_> = messages
        .iter()
        .map(|(_, message)| framed(message))
        .collect();
    let packed = messages.iter().map(|(_, message)| {
        let packed = zstd::bulk::compress(message, 1).unwrap();
        let mut frame = framed(&packed);
        frame[0] = 1;
        frame
    });
    let seeds = fuzz::Seeds::of_files("grpc")
        .with_all(packed)
        .with_all(frames);
    fuzz!(seeds, 300, |body: &[u8]| {
        let request = post(EXPORT, "application/grpc").header("grpc-encoding", "zstd");
        let answer = send(&runtime, request, body);
        assert_eq!(answer.status, 200, "every answer of gRPC is a 200");
        let given = status(&answer.headers).or(status(&answer.trailers));
        let is_ok = given.expect("a status") == "0";
        let message = body.get(5..).unwrap_or_default();
        let is_frame = body.len() >= 5 && framed(message)[1..5] == body[1..5];
        assert!(!is_ok || is_frame, "a frame of another length is taken");
        if !is_ok {
            assert!(answer.records.is_empty(), "refused, and in the log");
            assert!(answer.headers.contains_key("grpc-message"));
        } else if body[0] == 0 {
            let over_http = send(&runtime, post(TRACES, "application/x-protobuf"), message);
            same(&answer, &over_http);
        }
    });
}
