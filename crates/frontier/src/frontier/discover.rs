//! Links come in: which are queued, and into which band of which host.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::entry::Entry;
use super::host::{Group, Host, NOBODY};
use super::{
    Block, Discovery, Frontier, HOPS_MAX, HOST_BYTES_MAX, Later, Link, PATH_BYTES_MAX, Refusal,
};
use crate::rules::{BAND_MEMORY_MIN, priority};
use crate::seen::Offer;

impl Frontier {
    /// The key of an address in the store.
    pub fn fingerprint(&self, link: &Link<'_>) -> u64 {
        self.fingerprint_of(link.host, link.path)
    }

    /// A link was found.
    pub fn discover(&mut self, now_ms: u64, link: &Link<'_>) -> Discovery {
        if let Some(refusal) = self.refusal(link) {
            return self.refuse(refusal);
        }
        let fingerprint = self.fingerprint(link);
        match self.seen.offer(fingerprint) {
            Offer::New => self.queue(now_ms, link, fingerprint),
            Offer::Known => self.refuse(Refusal::Seen),
            Offer::Ask if self.pending.fingerprints.contains(&fingerprint) => {
                self.refuse(Refusal::Seen)
            }
            Offer::Ask => Discovery::Ask,
        }
    }

    /// A link that was answered with [`Discovery::Ask`], and that the store does not have.
    pub fn admit(&mut self, now_ms: u64, link: &Link<'_>) -> Discovery {
        if let Some(refusal) = self.refusal(link) {
            return self.refuse(refusal);
        }
        let fingerprint = self.fingerprint(link);
        if self.pending.fingerprints.contains(&fingerprint) {
            return self.refuse(Refusal::Seen);
        }
        self.seen.know(fingerprint);
        self.queue(now_ms, link, fingerprint)
    }

    /// A link that was answered with [`Discovery::Ask`], and that the store has: it is told so at once for a while.
    pub fn dismiss(&mut self, link: &Link<'_>) {
        self.seen.know(self.fingerprint(link));
        self.refuse(Refusal::Seen);
    }

    /// What the store has that is due now. What was given already and is not committed yet is passed over, as is what
    /// names a host that is not known.
    pub fn again(&mut self, later: &Later) {
        let is_known = (later.host as usize) < self.hosts.len();
        if !is_known || Entry::unpack(&later.entry).is_none() {
            return;
        }
        if self.pending.not_later.insert(later.fingerprint) {
            self.append(later.host, later.band.min(priority::LAST), &later.entry);
            self.schedule(later.host);
        }
    }

    /// Why a link would not be queued, apart from having been seen.
    pub(super) fn refusal(&self, link: &Link<'_>) -> Option<Refusal> {
        let is_long = link.path.len() > PATH_BYTES_MAX || link.host.len() > HOST_BYTES_MAX;
        match () {
            () if link.depth > self.rules.depth_max => return Some(Refusal::TooDeep),
            () if link.hops > HOPS_MAX => return Some(Refusal::TooManyHops),
            () if is_long => return Some(Refusal::TooLong),
            () => {}
        }
        if let Some(host) = self.find(link.host) {
            let host = &self.hosts[host];
            if host.used >= self.budget_of(host) {
                return Some(Refusal::HostBudget);
            }
        } else if self.hosts.len() >= self.rules.hosts_max as usize {
            return Some(Refusal::TooManyHosts);
        }
        let group = self.find_group(link.domain)?;
        let is_used_up = u64::from(self.groups[group].used) >= self.rules.domain_budget;
        is_used_up.then_some(Refusal::DomainBudget)
    }

    /// Addresses of a host that may ever be queued.
    pub(super) fn budget_of(&self, host: &Host) -> u32 {
        host.rare().budget.unwrap_or(self.rules.host_budget)
    }

    /// The number of a host.
    pub(super) fn find(&self, name: &str) -> Option<u32> {
        let hash = xxh3_64_with_seed(name.as_bytes(), self.salt);
        self.host_index.find(hash, |number| self.name_of(number) == name)
    }

    /// The number of a host, which is made if it is not known.
    pub(super) fn intern(&mut self, now_ms: u64, name: &str, domain: &str) -> u32 {
        if let Some(host) = self.find(name) {
            return host;
        }
        let text = self.names.push(name);
        let group = match self.find_group(domain) {
            Some(group) => group,
            None => {
                // Nearly always the name of the domain is a part of the host's.
                let part = name.find(domain).map(|at| text.part(at..at + domain.len()));
                let part = part.unwrap_or_else(|| self.names.push(domain));
                self.add_group(Group::new(part), domain)
            }
        };
        let number = self.hosts.len() as u32;
        let twin = other_scheme(name).and_then(|other| self.find(&other));
        let mut host = Host::new(text, group, self.rules.delay_ms);
        host.next_at_ms = now_ms;
        host.twin = twin.unwrap_or(NOBODY);
        self.hosts.push(host);
        if let Some(twin) = twin {
            self.hosts[twin].twin = number;
        }
        let (names, hosts, salt) = (&self.names, &self.hosts, self.salt);
        let hash_of = |n: u32| xxh3_64_with_seed(names.get(hosts[n].name).as_bytes(), salt);
        self.host_index.insert(xxh3_64_with_seed(name.as_bytes(), salt), number, hash_of);
        number
    }

    /// Adds an entry at the end of a band, durably and, if there is room, in memory.
    pub(super) fn append(&mut self, number: u32, band: u8, packed: &[u8]) {
        let most = if self.in_memory >= self.rules.memory_max {
            BAND_MEMORY_MIN
        } else {
            self.rules.band_memory_max
        };
        let queues = &mut self.hosts[number].queues;
        let (first, is_held) = queues.append(&mut self.pieces, band, packed, most);
        self.in_memory += u64::from(is_held);
        let block = self.pending.blocks.entry((number, band)).or_insert_with(|| Block {
            host: number,
            band,
            first,
            count: 0,
            bytes: Vec::new(),
        });
        block.bytes.extend_from_slice(packed);
        block.count += 1;
        self.touch(number);
    }

    pub(super) fn fingerprint_of(&self, host: &str, path: &str) -> u64 {
        let salt = xxh3_64_with_seed(host.as_bytes(), self.salt);
        // 0 is the mark of an empty slot elsewhere.
        xxh3_64_with_seed(path.as_bytes(), salt).max(1)
    }

    fn queue(&mut self, now_ms: u64, link: &Link<'_>, fingerprint: u64) -> Discovery {
        let number = self.intern(now_ms, link.host, link.domain);
        let host = &mut self.hosts[number];
        let band = match host.is_braked {
            true => priority::LAST,
            false => priority::of_new(link.depth, link.path, host.used == 0),
        };
        host.used += 1;
        let group = host.group;
        self.groups[group].used += 1;
        let entry = Entry {
            depth: link.depth,
            hops: link.hops,
            failed: 0,
            is_known: false,
            is_sitemap: link.is_sitemap,
            path: link.path,
        };
        self.append(number, band, &entry.packed());
        self.pending.fingerprints.insert(fingerprint);
        self.schedule(number);
        Discovery::Queued
    }

    fn refuse(&mut self, refusal: Refusal) -> Discovery {
        self.refused[refusal as usize] += 1;
        Discovery::Refused(refusal)
    }

    fn find_group(&self, domain: &str) -> Option<u32> {
        let hash = xxh3_64_with_seed(domain.as_bytes(), self.salt);
        self.group_index.find(hash, |number| self.names.get(self.groups[number].name) == domain)
    }

    fn add_group(&mut self, group: Group, domain: &str) -> u32 {
        let number = self.groups.push(group);
        let (names, groups, salt) = (&self.names, &self.groups, self.salt);
        let hash_of = |n: u32| xxh3_64_with_seed(names.get(groups[n].name).as_bytes(), salt);
        self.group_index.insert(xxh3_64_with_seed(domain.as_bytes(), salt), number, hash_of);
        number
    }
}

/// The same host under the other scheme, if both are at their usual ports.
fn other_scheme(name: &str) -> Option<String> {
    let has_port = |rest: &str| {
        let port = rest.rsplit_once(':').map_or("", |(_, port)| port);
        !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) && !rest.ends_with(']')
    };
    let (scheme, rest) = name.split_once("://").filter(|(_, rest)| !has_port(rest))?;
    match scheme {
        "http" => Some(format!("https://{rest}")),
        "https" => Some(format!("http://{rest}")),
        _ => None,
    }
}
