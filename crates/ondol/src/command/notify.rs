//! Telling systemd how the server is (sd_notify's protocol), where it has asked for that.
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// `READY=1`, `STOPPING=1` and their like. If nobody listens, nobody is told.
pub fn notify(state: &str) {
    let Some(place) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let place = place.to_string_lossy();
    let address = match place.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&*place),
    };
    let _ = address.and_then(|a| UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &a));
}
