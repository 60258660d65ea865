//! Sources from the web, by our own client, which refuses private addresses.
