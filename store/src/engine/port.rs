//! A loopback port that belongs to this process from its choice to its end.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use socket2::{Domain, Socket, Type};

/// Queued connections: the listener has one client.
const BACKLOG: i32 = 16;

/// A bound socket that never listens. Connections to the port fail unless a listener of the same user shares it.
///
/// The kernel lets only processes of the same user bind a port whose sockets all set `SO_REUSEPORT`, so no other user
/// of the machine can take the port between its choice and the listener, or while the listener restarts.
#[derive(Debug)]
pub(super) struct ReservedPort {
    _socket: Socket,
    number: u16,
}

impl ReservedPort {
    pub(super) fn new() -> io::Result<Self> {
        let socket = bind(0)?;
        let address = socket.local_addr()?.as_socket();
        let number = address.map(|address| address.port());
        let number = number.ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Self {
            _socket: socket,
            number,
        })
    }

    pub(super) fn number(&self) -> u16 {
        self.number
    }

    /// Listens on the port, which stays reserved after the listener is closed.
    pub(super) fn listen(&self) -> io::Result<TcpListener> {
        let socket = bind(self.number)?;
        socket.listen(BACKLOG)?;
        Ok(socket.into())
    }
}

/// Without `SO_REUSEADDR`, which would admit another user's listener while no socket on the port listens.
fn bind(port: u16) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    #[cfg(unix)]
    socket.set_reuse_port(true)?;
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)).into())?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn a_reserved_port_is_refused_to_others_and_answers_only_while_it_listens() {
        let port = ReservedPort::new().unwrap();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port.number()));
        assert!(TcpListener::bind(address).is_err());
        assert!(TcpStream::connect(address).is_err());
        let listener = port.listen().unwrap();
        assert!(TcpStream::connect(address).is_ok());
        drop(listener);
        assert!(TcpStream::connect(address).is_err());
        assert!(TcpListener::bind(address).is_err());
    }
}
