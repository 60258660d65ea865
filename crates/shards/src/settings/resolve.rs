//! Names that a crawl knows by itself, before anybody else is asked: `a.example=192.0.2.7`, or `*.test=127.77.0.0/26`, where
//! each name gets one address of the network, always the same. Whether an address may be reached is decided elsewhere.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use divvy::net::Network;
use futures_util::future::BoxFuture;
use xxhash_rust::xxh3::xxh3_64;

use crate::net::{Cache, NameError, Resolve, SystemResolver};

/// Names that a crawl can know.
const NAMES_MAX: usize = 10_000;

/// Names and what they stand for; all others are asked of the system.
#[derive(Debug)]
pub struct Names {
    known: Vec<Known>,
    others: Cache<SystemResolver>,
}

#[derive(Debug)]
struct Known {
    /// The name, or the ending with its dot if it stands for all that end so.
    name: String,
    is_ending: bool,
    address: IpAddr,
    bits: u32,
}

impl Names {
    /// Reads `NAME=ADDRESS` and `*.ENDING=NETWORK`.
    ///
    /// # Errors
    /// Says which cannot be read.
    pub fn read(rules: &[String]) -> Result<Self, String> {
        if rules.len() > NAMES_MAX {
            return Err(format!("has {} names, at most {NAMES_MAX}", rules.len()));
        }
        let known: Result<Vec<Known>, String> =
            rules.iter().map(|rule| Known::read(rule)).collect();
        Ok(Self { known: known?, others: Cache::new(SystemResolver::default()) })
    }

    /// Whether a host is on this machine, as far as that is known without asking anybody.
    pub(super) fn is_loopback(&self, host: &str) -> bool {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let address = host.parse().ok().or_else(|| self.find(host));
        match address {
            Some(address) => IpAddr::to_canonical(&address).is_loopback(),
            // By RFC 6761 these names stand for nothing else.
            None => host == "localhost" || host.ends_with(".localhost"),
        }
    }

    fn find(&self, name: &str) -> Option<IpAddr> {
        self.known.iter().find(|known| known.fits(name)).map(|known| known.address_of(name))
    }
}

impl Resolve for Names {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Vec<IpAddr>, NameError>> {
        match self.find(name) {
            Some(address) => Box::pin(std::future::ready(Ok(vec![address]))),
            None => self.others.resolve(name),
        }
    }
}

impl Known {
    fn read(rule: &str) -> Result<Self, String> {
        let bad = || {
            format!(
                "is `{rule}`; expected NAME=ADDRESS or *.ENDING=NETWORK, such as *.test=127.77.0.0/26"
            )
        };
        let (name, place) = rule.split_once('=').ok_or_else(bad)?;
        let (address, bits) = match place.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u32>().map_err(|_| bad())?)),
            None => (place, None),
        };
        let address: IpAddr = address.parse().map_err(|_| bad())?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(width);
        let (name, is_ending) = match name.strip_prefix('*') {
            Some(ending) if ending.starts_with('.') => (ending, true),
            Some(_) => return Err(bad()),
            None => (name, false),
        };
        if bits > width || name.is_empty() || name.contains('*') {
            return Err(bad());
        }
        Ok(Self { name: name.to_ascii_lowercase(), is_ending, address, bits })
    }

    fn fits(&self, name: &str) -> bool {
        if self.is_ending { name.ends_with(&self.name) } else { name == self.name }
    }

    fn address_of(&self, name: &str) -> IpAddr {
        let chance = xxh3_64(name.as_bytes());
        match self.address {
            IpAddr::V4(base) => {
                let free = u32::MAX.checked_shr(self.bits).unwrap_or(0);
                Ipv4Addr::from((u32::from(base) & !free) | (chance as u32 & free)).into()
            }
            IpAddr::V6(base) => {
                let free = u128::MAX.checked_shr(self.bits).unwrap_or(0);
                Ipv6Addr::from((u128::from(base) & !free) | (u128::from(chance) & free)).into()
            }
        }
    }
}

/// Networks that may be reached although they are not public.
///
/// # Errors
/// Says which is none.
pub fn networks(texts: &[String]) -> Result<Vec<Network>, String> {
    let read =
        |text: &String| text.parse::<Network>().map_err(|error| format!("is `{text}`: {error}"));
    texts.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_has_its_address_in_the_network() {
        let rules = ["a.example=192.0.2.7".to_owned(), "*.test=127.77.0.0/26".to_owned()];
        let names = Names::read(&rules).unwrap();
        assert_eq!(names.find("a.example"), Some("192.0.2.7".parse().unwrap()));
        assert_eq!(names.find("b.example"), None);
        let mut found: Vec<IpAddr> =
            (0..500).filter_map(|at| names.find(&format!("site{at}.test"))).collect();
        assert_eq!(found[3], names.find("site3.test").unwrap());
        found.sort_unstable();
        found.dedup();
        assert_eq!(found.len(), 64);
        assert!(found[0] >= "127.77.0.0".parse::<IpAddr>().unwrap());
        assert!(found[63] <= "127.77.0.63".parse::<IpAddr>().unwrap());
        for bad in ["a.example", "*test=127.0.0.1", "a=127.0.0.0/99", "=127.0.0.1", "a=b"] {
            assert!(Names::read(&[bad.to_owned()]).is_err(), "{bad}");
        }
    }
}
