// The plan that one begins with: small enough to be read, large enough to be true.
export const EXAMPLE = `title: 1,000 videos a day
item: video

# By the hour, from midnight: quiet nights, busy evenings.
arrivals:
  per_hour: [15, 10, 8, 7, 7, 9, 15, 26, 36, 42, 46, 50,
             52, 52, 51, 51, 53, 58, 68, 80, 86, 80, 60, 38]

sizes:
  - {share: 95, from_gb: 0.1, to_gb: 1}
  - {share: 5, from_gb: 1, to_gb: 10}

# Seconds of one core.
stages:
  - {name: probe, sec: 5}
  - {name: transcode, sec: 10, sec_per_gb: 7000, piece_gb: 0.1, spread: 20, after: [probe]}
  - {name: publish, sec: 10, sec_per_gb: 20, after: [transcode]}

goal: {percentile: 95, within_sec: 1800}

workers:
  - {name: large, slots: 16, price_hour: 0.68, boot_sec: 120, billing_sec: 60, max: 40}
  - {name: large-spot, slots: 16, price_hour: 0.27, boot_sec: 120, billing_sec: 60, max: 40,
     spot: true, interruptions_hour: 0.03, notice_sec: 120}

days: 1
seeds: 1
`;
