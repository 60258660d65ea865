//! Playlists and the manifest.
