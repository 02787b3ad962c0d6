//! A TCP proxy that can cut the network between two programs.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// State of the network between the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    Whole,
    /// Connections break and new ones are closed at once: a program that died, a rule that rejects.
    Refused,
    /// Nothing arrives: a cable that was pulled. What was sent meanwhile arrives afterwards on connections that both
    /// ends still hold, as when the cable is back.
    Silent,
}

/// A proxy in front of one port of loopback; ends when dropped.
pub struct Proxy {
    pub address: SocketAddr,
    network: Arc<watch::Sender<Network>>,
    listening: tokio::task::JoinHandle<()>,
}

impl Proxy {
    /// Listens on a free port of loopback, in front of `port`.
    pub async fn to(port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let network = Arc::new(watch::Sender::new(Network::Whole));
        let target = SocketAddr::from(([127, 0, 0, 1], port));
        let listening = tokio::spawn(accept(listener, target, network.subscribe()));
        Self {
            address,
            network,
            listening,
        }
    }

    pub fn set(&self, network: Network) {
        self.network.send_replace(network);
    }

    /// Sets the network for some time, then whole again.
    pub async fn disturb(&self, network: Network, time: Duration) {
        self.set(network);
        tokio::time::sleep(time).await;
        self.set(Network::Whole);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

async fn accept(listener: TcpListener, target: SocketAddr, network: watch::Receiver<Network>) {
    // Dropped with this task, and with it every connection.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                if let Ok((client, _)) = accepted {
                    connections.spawn(carry(client, target, network.clone()));
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn carry(client: TcpStream, target: SocketAddr, mut network: watch::Receiver<Network>) {
    let mut refusing = network.clone();
    let refused = async {
        refusing
            .wait_for(|now| *now == Network::Refused)
            .await
            .map(|_| ())
    };
    let carried = async {
        whole(&mut network).await;
        let Ok(server) = TcpStream::connect(target).await else {
            return;
        };
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let ((from_client, to_client), (from_server, to_server)) =
            (client.into_split(), server.into_split());
        tokio::join!(
            copy(from_client, to_server, network.clone()),
            copy(from_server, to_client, network.clone())
        );
    };
    tokio::select! {
        _ = refused => {}
        () = carried => {}
    }
}

/// Copies until the end of the stream, as the network allows.
async fn copy(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut network: watch::Receiver<Network>,
) {
    let mut buffer = vec![0; 64 << 10];
    loop {
        whole(&mut network).await;
        let Ok(read) = from.read(&mut buffer).await else {
            break;
        };
        whole(&mut network).await;
        if read == 0 || to.write_all(&buffer[..read]).await.is_err() {
            break;
        }
    }
    let _ = to.shutdown().await;
}

/// Waits for the end of a silence.
async fn whole(network: &mut watch::Receiver<Network>) {
    // An error is the end of the proxy, which ends this task as well.
    let _ = network.wait_for(|now| *now != Network::Silent).await;
}
