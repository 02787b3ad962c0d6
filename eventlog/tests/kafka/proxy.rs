//! A network between a client and a broker that can be cut.

use std::sync::Arc;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Passes connections on until it is cut. Ends when dropped.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    whole: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

impl Proxy {
    /// Listens; where to is said with [`Proxy::connect`].
    pub(crate) async fn listen() -> (Proxy, TcpListener) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let proxy = Proxy {
            port: listener.local_addr().unwrap().port(),
            whole: watch::Sender::new(true),
            tasks: JoinSet::new(),
        };
        (proxy, listener)
    }

    /// Passes on to this port from now on.
    pub(crate) fn connect(&mut self, listener: TcpListener, port: u16) {
        let whole = Arc::new(self.whole.subscribe());
        self.tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (mut client, _) = listener.accept().await.unwrap();
                let mut whole = (*whole).clone();
                connections.spawn(async move {
                    if !*whole.borrow_and_update() {
                        return;
                    }
                    let Ok(mut broker) = TcpStream::connect(("127.0.0.1", port)).await else {
                        return;
                    };
                    tokio::select! {
                        _ = copy_bidirectional(&mut client, &mut broker) => {}
                        _ = whole.wait_for(|whole| !whole) => {}
                    }
                });
            }
        });
    }

    /// Ends all connections and every new one at once.
    pub(crate) fn cut(&self) {
        self.whole.send_replace(false);
    }

    /// Passes new connections on again.
    pub(crate) fn mend(&self) {
        self.whole.send_replace(true);
    }
}
