//! A range of addresses, written as `10.0.0.0/8`: what of private space somebody allows. Knows nothing of what is private.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// Addresses with the same first bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

/// A text that is no network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidNetwork {
    text: String,
}

impl Network {
    /// Whether an address is in it.
    pub fn contains(&self, address: IpAddr) -> bool {
        let (ours, theirs, width) = match (self.address, address) {
            (IpAddr::V4(ours), IpAddr::V4(theirs)) => {
                (ours.to_bits().into(), theirs.to_bits().into(), 32)
            }
            (IpAddr::V6(ours), IpAddr::V6(theirs)) => (ours.to_bits(), theirs.to_bits(), 128),
            _ => return false,
        };
        let difference: u128 = ours ^ theirs;
        // Shifting by all bits would overflow: then any address is in it.
        difference.checked_shr(width - u32::from(self.bits)).is_none_or(|rest| rest == 0)
    }

    /// Its address, if it has only one.
    pub fn only_address(&self) -> Option<IpAddr> {
        (self.bits == width(self.address)).then_some(self.address)
    }
}

impl FromStr for Network {
    type Err = InvalidNetwork;

    /// `10.0.0.0/8`, or an address for a network of it alone.
    fn from_str(text: &str) -> Result<Self, InvalidNetwork> {
        let invalid = || InvalidNetwork { text: text.to_owned() };
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| invalid())?;
        let bits = match bits {
            Some(bits) => bits.parse().map_err(|_| invalid())?,
            None => width(address),
        };
        if bits > width(address) { Err(invalid()) } else { Ok(Self { address, bits }) }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

impl fmt::Display for InvalidNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is no network; write it as 10.0.0.0/8, fd00::/8 or 127.0.0.1", self.text)
    }
}

impl std::error::Error for InvalidNetwork {}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_holds_the_addresses_with_its_first_bits() {
        let facts = [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("192.168.1.77/24", "192.168.1.1", true),
            ("192.168.1.77/24", "192.168.2.1", false),
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.1", "127.0.0.2", false),
            ("0.0.0.0/0", "8.8.8.8", true),
            ("::/0", "fd00::1", true),
            ("fd00::/8", "fd12::1", true),
            ("fd00::/8", "fc00::1", false),
            ("0.0.0.0/0", "::1", false),
        ];
        for (network, address, holds) in facts {
            let network: Network = network.parse().unwrap();
            assert_eq!(network.contains(address.parse().unwrap()), holds, "{network} {address}");
        }
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for text in ["", "10.0.0.0/33", "::/129", "10.0.0/8", "10.0.0.0/", "10.0.0.0/-1", "host/8"]
        {
            let problem = text.parse::<Network>().unwrap_err().to_string();
            assert!(problem.contains("10.0.0.0/8"), "{problem}");
        }
    }
}
