//! `spindle health`: probes the process with the same settings. Containers without a shell have no other way.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;

/// Time for a response: well within the ten seconds after which a check usually counts as failed.
const ANSWER_TIME: Duration = Duration::from_secs(5);

#[derive(Args)]
pub(crate) struct HealthArgs {
    /// Check every part, not only whether the process answers
    #[arg(long)]
    pub(crate) ready: bool,
}

/// Returns when the process that listens on this address is healthy, and fails with its message otherwise.
pub(crate) async fn ask(listen: SocketAddr, args: &HealthArgs) -> anyhow::Result<()> {
    let path = if args.ready { "ready" } else { "live" };
    let url = format!("http://{}/health/{path}", reachable(listen));
    let client = reqwest::Client::builder()
        .timeout(ANSWER_TIME)
        .no_proxy()
        .build()?;
    let answer = client
        .get(&url)
        .send()
        .await
        .with_context(|| format!("nothing answers at {url}"))?;
    let status = answer.status();
    if !status.is_success() {
        bail!("{status}: {}", answer.text().await.unwrap_or_default());
    }
    Ok(())
}

/// The address for clients on the same machine.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::http::StatusCode;
    use axum::routing::get;

    use super::*;

    #[tokio::test]
    async fn a_process_that_is_alive_and_not_ready_is_told_apart_from_one_that_is_away() {
        let listener = tokio::net::TcpListener::bind("0.0.0.0:0").await.unwrap();
        let listen = listener.local_addr().unwrap();
        let router = Router::new()
            .route("/health/live", get(|| async { "{}" }))
            .route(
                "/health/ready",
                get(|| async { (StatusCode::SERVICE_UNAVAILABLE, "not ready: log") }),
            );
        let server = tokio::spawn(async move { axum::serve(listener, router).await });
        ask(listen, &HealthArgs { ready: false }).await.unwrap();
        let refusal = ask(listen, &HealthArgs { ready: true }).await.unwrap_err();
        assert!(format!("{refusal:#}").contains("not ready: log"));
        server.abort();
        assert!(server.await.unwrap_err().is_cancelled());
        let away = ask(listen, &HealthArgs { ready: false }).await.unwrap_err();
        assert!(format!("{away:#}").contains("nothing answers"));
    }

    #[test]
    fn an_address_for_everyone_is_asked_on_loopback() {
        let at = |text: &str| reachable(text.parse().unwrap()).to_string();
        assert_eq!(at("0.0.0.0:7070"), "127.0.0.1:7070");
        assert_eq!(at("[::]:7070"), "[::1]:7070");
        assert_eq!(at("10.0.0.7:80"), "10.0.0.7:80");
    }
}
