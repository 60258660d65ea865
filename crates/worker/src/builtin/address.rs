//! Which addresses a task may reach. Decides by the address alone, after names were resolved, so that no spelling of an
//! address and no name that points to it goes around the rule. Only global unicast addresses pass, and private ones if the
//! worker allows them. Link-local addresses and those of cloud metadata, which hand out the credentials of the machine, pass
//! only if the worker names them one by one.
//!
//! A caller follows redirects itself and checks every hop with [`check_url`]; names are checked when they are resolved.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use super::network::Network;
use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// An address that a task may not reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedAddress {
    /// The name or address in the URL.
    pub host: String,
    /// What it stands for.
    pub address: IpAddr,
    /// What sort of address that is.
    pub sort: &'static str,
    /// Whether a worker that may reach private addresses may reach it.
    pub is_private: bool,
}

impl fmt::Display for RefusedAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, address, sort, is_private } = self;
        write!(f, "`{host}` stands for {address}, which is {sort}; ")?;
        if *is_private {
            f.write_str("this worker may reach public addresses only, unless it is started with --allow-private")
        } else {
            write!(
                f,
                "this worker may reach it only if it is started with --allow-address {address}"
            )
        }
    }
}

impl std::error::Error for RefusedAddress {}

/// How far tasks of a worker may go. `false.into()` is public addresses only, `true.into()` private ones too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    allow_private: bool,
    named: Arc<[IpAddr]>,
    networks: Arc<[Network]>,
}

impl Reach {
    /// Private addresses or not, and these whatever they are.
    pub fn new(allow_private: bool, named: impl IntoIterator<Item = IpAddr>) -> Self {
        let named = named.into_iter().map(plain).collect();
        Self { allow_private, named, networks: Arc::default() }
    }

    /// Public addresses, and these networks. A network of one address names it; others let no address of cloud metadata and
    /// no link-local one pass.
    pub fn within(networks: impl IntoIterator<Item = Network>) -> Self {
        let networks: Arc<[Network]> = networks.into_iter().collect();
        let named = networks.iter().filter_map(Network::only_address);
        Self { networks: networks.clone(), ..Self::new(false, named) }
    }

    /// Whether a task may reach `address`, which `host` stands for.
    pub fn check(&self, host: &str, address: IpAddr) -> Result<(), RefusedAddress> {
        self.refuse(host, address).map_or(Ok(()), Err)
    }

    /// Why a task may not reach `address`, which `host` stands for; nothing if it may.
    fn refuse(&self, host: &str, address: IpAddr) -> Option<RefusedAddress> {
        let plain = plain(address);
        let is_private = !is_never_meant(plain);
        let sort = match refusal(address) {
            _ if self.named.contains(&plain) => None,
            _ if self.allow_private && is_private => None,
            _ if is_private && self.networks.iter().any(|network| network.contains(plain)) => None,
            sort => sort,
        }?;
        Some(RefusedAddress { host: host.to_owned(), address, sort, is_private })
    }
}

impl From<bool> for Reach {
    fn from(allow_private: bool) -> Self {
        Self::new(allow_private, [])
    }
}

/// An HTTP client that connects to addresses that a task may reach only, follows no redirects and asks no proxy, which
/// would resolve names itself and so go around the rules.
pub fn client(reach: impl Into<Reach>) -> reqwest::Result<reqwest::Client> {
    reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .dns_resolver(Arc::new(CheckedResolver { reach: reach.into() }))
        .user_agent(concat!("divvy/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(Duration::from_secs(10))
        .build()
}

/// Checks one hop of a call, before it is made; says why it may not be made.
pub fn check_url(url: &Url, reach: impl Into<Reach>) -> Result<(), String> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("url {url} is not http or https"));
    }
    let Some(host) = url.host_str() else { return Err(format!("url {url} names no host")) };
    let literal: Option<IpAddr> = host.trim_start_matches('[').trim_end_matches(']').parse().ok();
    match literal.and_then(|address| reach.into().refuse(host, address)) {
        Some(refused) => Err(refused.to_string()),
        None => Ok(()),
    }
}

/// Why a call was refused, if that is why it failed: no retry can help then.
pub fn refused(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(refused) = error.downcast_ref::<RefusedAddress>() {
            return Some(refused.to_string());
        }
        cause = error.source();
    }
    None
}

/// Why a task may not reach an address, in words, or nothing if it may.
pub fn refusal(address: IpAddr) -> Option<&'static str> {
    match plain(address) {
        IpAddr::V4(address) => refusal_v4(address),
        IpAddr::V6(address) => refusal_v6(address),
    }
}

/// Whether an address is on this link only or hands out credentials of the machine: nobody means it who allows private ones.
fn is_never_meant(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => matches!(
            address.octets(),
            // Alibaba, Azure and Oracle keep their metadata outside of the link-local range.
            [169, 254, ..] | [100, 100, 100, 200] | [168, 63, 129, 16] | [192, 0, 0, 192]
        ),
        IpAddr::V6(address) => matches!(
            address.segments(),
            [0xfe80..=0xfebf, ..]
                | [0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x254]
                | [0xfd20, 0x00ce, 0, 0, 0, 0, 0, 0x254]
        ),
    }
}

/// The IPv4 address that a mapped or NAT64 one is in disguise.
fn plain(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) => match v6.segments() {
            [0, 0, 0, 0, 0, 0xffff, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => {
                let [.., a, b, c, d] = v6.octets();
                Ipv4Addr::new(a, b, c, d).into()
            }
            _ => address,
        },
        IpAddr::V4(_) => address,
    }
}

fn refusal_v4(address: Ipv4Addr) -> Option<&'static str> {
    Some(match address.octets() {
        [0, ..] => "unspecified",
        [127, ..] => "loopback",
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => "private",
        [100, 64..=127, ..] => "shared by a carrier (CGNAT)",
        [169, 254, ..] => "link-local, where cloud metadata lives",
        // Azure's platform service is inside of public space.
        [168, 63, 129, 16] => "a cloud metadata service",
        [192, 0, 0, _] | [192, 88, 99, _] => "reserved for protocols",
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => "reserved for documentation",
        [198, 18..=19, ..] => "reserved for benchmarks",
        [224..=239, ..] => "multicast",
        [240..=255, ..] => "reserved or broadcast",
        _ => return None,
    })
}

fn refusal_v6(address: Ipv6Addr) -> Option<&'static str> {
    Some(match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => "unspecified",
        [0, 0, 0, 0, 0, 0, 0, 1] => "loopback",
        [0x64, 0xff9b, 1, ..] => "a private NAT64 address",
        [0xfc00..=0xfdff, ..] => "private (unique local)",
        [0xfe80..=0xfebf, ..] => "link-local",
        [0xfec0..=0xfeff, ..] => "private (site-local)",
        [0xff00..=0xffff, ..] => "multicast",
        [0x2002, ..] => "a 6to4 tunnel",
        [0x2001, 0, ..] => "a Teredo tunnel",
        [0x2001, 0x0db8, ..] | [0x3fff, 0..=0x0fff, ..] => "reserved for documentation",
        [0x2001, 0..=0x01ff, ..] => "reserved for protocols",
        [0x2000..=0x3fff, ..] => return None,
        _ => "not a global address",
    })
}

/// Resolves names and hands on only addresses that a task may reach, so that these are what gets connected to.
#[derive(Clone, Debug)]
pub(crate) struct CheckedResolver {
    pub(crate) reach: Reach,
}

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let reach = self.reach.clone();
        Box::pin(async move {
            let found: Vec<SocketAddr> =
                tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let refused =
                found.iter().find_map(|address| reach.refuse(name.as_str(), address.ip()));
            match refused {
                // One refused address is enough: a name that mixes them is up to something.
                Some(refused) => Err(refused.into()),
                None => Ok(Box::new(found.into_iter()) as Addrs),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_addresses_are_refused_and_public_ones_pass() {
        let refused = "0.0.0.0 0.1.2.3 127.0.0.1 127.255.255.254 10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 \
            100.64.0.1 100.127.255.255 100.100.100.200 169.254.169.254 168.63.129.16 192.0.0.192 192.0.2.1 192.88.99.1 \
            198.18.0.1 198.19.255.255 198.51.100.7 203.0.113.9 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255 \
            :: ::1 ::ffff:127.0.0.1 ::ffff:10.1.1.1 ::ffff:169.254.169.254 ::127.0.0.1 64:ff9b::7f00:1 64:ff9b::a9fe:a9fe \
            64:ff9b:1::1 fc00::1 fd00:ec2::254 fe80::1 febf::1 fec0::1 ff02::1 2002:7f00:1:: 2001::1 2001:db8::1 \
            2001:10::1 3fff::1 100::1 5f00::1 4000::1";
        for text in refused.split_whitespace() {
            assert!(refusal(text.parse().unwrap()).is_some(), "{text} must be refused");
        }
        let public = "1.1.1.1 8.8.8.8 172.15.255.255 172.32.0.1 100.63.255.255 100.128.0.1 169.253.1.1 192.0.1.1 \
            198.17.255.255 223.255.255.255 ::ffff:8.8.8.8 64:ff9b::808:808 2606:4700:4700::1111 2a00:1450::1 2001:4860::8888";
        for text in public.split_whitespace() {
            assert_eq!(refusal(text.parse().unwrap()), None, "{text} must pass");
        }
    }
    #[test]
    fn private_addresses_can_be_allowed_and_metadata_only_by_name() {
        let reach = Reach::from(true);
        let may = |reach: &Reach, text: &str| reach.refuse("x", text.parse().unwrap()).is_none();
        for text in "127.0.0.1 10.0.0.1 192.168.1.1 100.64.0.1 ::1 fc00::1 ::ffff:10.1.1.1 8.8.8.8"
            .split_whitespace()
        {
            assert!(may(&reach, text), "{text} must pass");
        }
        let never = "169.254.169.254 169.254.0.1 100.100.100.200 168.63.129.16 192.0.0.192 fe80::1 febf::1 \
            fd00:ec2::254 fd20:ce::254 ::ffff:169.254.169.254 64:ff9b::a9fe:a9fe ::ffff:100.100.100.200";
        for text in never.split_whitespace() {
            assert!(!may(&reach, text), "{text} must be refused");
            let named = Reach::new(false, [text.parse().unwrap()]);
            assert!(may(&named, text), "{text} was named");
            assert!(!may(&named, "10.0.0.1") && may(&named, "8.8.8.8"));
        }
        assert!(may(
            &Reach::new(false, ["169.254.169.254".parse().unwrap()]),
            "::ffff:169.254.169.254"
        ));
    }

    #[test]
    fn networks_can_be_allowed_and_metadata_only_one_by_one() {
        let within = |text: &str| Reach::within([text.parse().unwrap()]);
        let may = |reach: &Reach, text: &str| reach.check("x", text.parse().unwrap()).is_ok();
        let office = within("10.1.0.0/16");
        for (address, expected) in [
            ("10.1.2.3", true),
            ("::ffff:10.1.2.3", true),
            ("8.8.8.8", true),
            ("10.2.0.1", false),
            ("127.0.0.1", false),
        ] {
            assert_eq!(may(&office, address), expected, "{address}");
        }
        for wide in ["0.0.0.0/0", "169.254.0.0/16"] {
            assert!(!may(&within(wide), "169.254.169.254"), "{wide}");
        }
        assert!(may(&within("169.254.169.254"), "169.254.169.254"), "it was named");
    }

    #[test]
    fn a_refusal_names_what_would_allow_it() {
        let refused = |url: &str, reach: bool| check_url(&url.parse().unwrap(), reach).unwrap_err();
        let loopback = refused("http://127.0.0.1:8080/hook", false);
        assert!(
            loopback.contains("loopback") && loopback.ends_with("--allow-private"),
            "{loopback}"
        );
        for reach in [false, true] {
            let metadata = refused("http://169.254.169.254/latest", reach);
            assert!(metadata.ends_with("--allow-address 169.254.169.254"), "{metadata}");
        }
    }
}
