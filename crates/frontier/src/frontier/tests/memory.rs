//! What the frontier takes in memory, by its own count, which agrees with the resident memory of a process within a
//! tenth.

use super::*;

const HOSTS: u64 = 20_000;

/// Hosts of as many domains, with so many addresses of 46 bytes each.
fn filled(rules: Rules, addresses: u64) -> Frontier {
    let mut frontier = frontier(rules);
    for n in 0..HOSTS * addresses {
        let host = n % HOSTS;
        let name = format!("https://www.site-{host:06}.example");
        let domain = &name[12..];
        let path = format!("/section/{:04}/a-page-of-some-kind-{:07}.html", n % 977, n);
        assert_eq!(path.len(), 46);
        let link = Link { depth: 3, ..link(&name, domain, &path) };
        frontier.discover(0, &link);
        if n % 1_024 == 0 {
            frontier.changes();
        }
    }
    frontier.changes();
    frontier
}

#[test]
fn an_address_in_memory_takes_ninety_bytes_and_a_spilled_one_ten() {
    let held = filled(Rules::default(), 10);
    let queued = held.queued();
    assert!(queued > HOSTS * 9, "{queued}");
    let each = held.bytes() as f64 / queued as f64;
    assert!(each <= 90.0, "{each} bytes for each address in memory");

    let idle = filled(Rules { memory_max: 0, band_memory_max: 0, ..Rules::default() }, 1);
    let each = idle.bytes() as f64 / HOSTS as f64;
    assert!(each < 400.0, "{each} bytes for each idle host");

    // Beyond what the host itself takes.
    let spilled = filled(Rules { band_memory_max: 0, ..Rules::default() }, 5);
    let queued = spilled.queued() - idle.queued();
    let more = spilled.bytes().saturating_sub(idle.bytes());
    let each = more as f64 / queued as f64;
    assert!(each <= 10.0, "{each} bytes for each spilled address");
}
