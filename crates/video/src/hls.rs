//! Playlists for HTTP live streaming.
