//! What `divvy config init` writes: every field with its meaning and its default, all commented out. A setting has its
//! `#` right before it, a sentence has a space between, so that a test can switch all settings on.

/// The text of the file.
pub(crate) const TEXT: &str = "\
# Settings of divvy. Flags and DIVVY_* variables come before this file; what is
# not set here has the value shown. See them all: divvy config show --origin

# The server that commands and workers talk to.
#server: http://127.0.0.1:7171
# The bearer token that a server asks for and clients send. It is better kept
# out of files: set DIVVY_TOKEN.
#token: change-me
# Colours: auto, always or never.
#color: auto

# The server itself (divvy up, divvy serve).
#serve:
# The address to listen on. Another than loopback needs a token.
#  listen: 127.0.0.1:7171
# The data folder, relative to this file.
#  data: divvy-data
# Names under which browsers may reach the server besides loopback.
#  allowed_hosts: []
# Silence of a worker for this long loses its tasks.
#  lease: 30s
# Days that finished tasks are kept.
#  retention_days: 7

# What divvy up adds to the server.
#up:
# Local worker processes: auto (cores - 1, from 1 to 8) or a number.
#  workers: auto

# Workers (divvy up, divvy work).
#work:
# Queues to serve; an empty list is all of them.
#  queues: []
# What this worker has; tasks name what they need.
#  capabilities: []
# Tasks at once, per tier. Without this: by the number of cores.
#  slots: {async: 64, blocking: 8, cpu: 2, process: 2}
# Programs that tasks may run, by kind, without a shell.
#  exec:
#    example.echo: cat
# Whether http tasks may call private addresses.
#  allow_private: false
# How long a stopping worker waits for its tasks.
#  drain_timeout: 30s
";
