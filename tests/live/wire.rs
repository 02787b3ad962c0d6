//! A connection that can be cut: a port that passes everything on to another one, until it is told not to.

use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A port before another one. Ends when dropped.
pub(crate) struct Wire {
    pub(crate) address: SocketAddr,
    is_cut: watch::Sender<bool>,
    task: tokio::task::JoinHandle<()>,
}

impl Wire {
    /// To `host:port`.
    pub(crate) async fn to(target: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let is_cut = watch::Sender::new(false);
        let task = tokio::spawn(pass(listener, target.to_owned(), is_cut.clone()));
        Self {
            address,
            is_cut,
            task,
        }
    }

    /// Breaks every connection and lets none through.
    pub(crate) fn cut(&self) {
        self.is_cut.send_replace(true);
    }

    /// Lets connections through again.
    pub(crate) fn mend(&self) {
        self.is_cut.send_replace(false);
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.cut();
        self.task.abort();
    }
}

async fn pass(listener: TcpListener, target: String, is_cut: watch::Sender<bool>) {
    loop {
        let Ok((mut near, _)) = listener.accept().await else {
            return;
        };
        let mut cut = is_cut.subscribe();
        if *cut.borrow() {
            continue;
        }
        let target = target.clone();
        tokio::spawn(async move {
            let Ok(mut far) = TcpStream::connect(target).await else {
                return;
            };
            tokio::select! {
                _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                _ = cut.wait_for(|is_cut| *is_cut) => {}
            }
        });
    }
}
