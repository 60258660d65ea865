//! Fair shares: virtual time of queues and of keys in a queue.
