//! Numbers of many digits in a query string: the reader of decimals took a stack frame for each leading zero, and a build
//! without optimization ended by SIGABRT.

use reqwest::{Method, StatusCode};

use crate::harness::Setup;

#[tokio::test]
async fn numbers_of_many_digits_do_not_end_the_process() {
    let setup = Setup::new();
    let server = setup.start().await;
    server.ready().await;

    // Nearly as long as an address may be.
    let zeros = "0".repeat(50_000);
    for value in [
        format!("{zeros}1"),
        format!("{zeros}e0"),
        format!("0.{zeros}1"),
    ] {
        let path = format!("/api/run/?min_cost={value}");
        let (status, answer) = server.ask(Method::GET, &server.key, &path, None).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
    }
}
