//! Which port a process of a cluster listens on.
//!
//! Ports come from below those that the system gives to outgoing connections. Otherwise a connection of somebody else
//! could sit on the port of a scheduler that is about to come back, and who knocks there meanwhile could be given that
//! port as its own and reach itself.

use std::net::{IpAddr, TcpListener};

use anyhow::bail;

/// The lowest port that is tried.
const LOWEST: u16 = 20_000;
/// Where outgoing connections begin unless the system says it.
const OUTGOING: u16 = 32_768;
/// How many ports are tried.
const TRIES: usize = 200;

/// A port of `host` where nobody listens at the moment.
pub(crate) fn free(host: IpAddr) -> anyhow::Result<u16> {
    let below = outgoing().clamp(LOWEST + 1_000, u16::MAX);
    for _ in 0..TRIES {
        let port = fastrand::u16(LOWEST..below);
        if TcpListener::bind((host, port)).is_ok() {
            return Ok(port);
        }
    }
    bail!(
        "no port of {host} between {LOWEST} and {below} is free; is {host} an address of this machine?"
    )
}

/// The first port of outgoing connections.
fn outgoing() -> u16 {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
    let first = range.ok().and_then(|range| range.split_whitespace().next()?.parse().ok());
    first.unwrap_or(OUTGOING)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn a_free_port_can_be_listened_on() {
        let host = IpAddr::from(Ipv4Addr::LOCALHOST);
        let port = free(host).unwrap();
        assert!(port >= LOWEST);
        // Another process may have been quicker, but not every time.
        assert!((0..10).any(|_| TcpListener::bind((host, free(host).unwrap())).is_ok()));
    }

    #[test]
    fn an_address_of_another_machine_is_refused() {
        let elsewhere: IpAddr = "203.0.113.7".parse().unwrap();
        assert!(free(elsewhere).unwrap_err().to_string().contains("203.0.113.7"));
    }
}
