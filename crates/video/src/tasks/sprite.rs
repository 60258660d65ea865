//! Thumbnails on sheets, and the poster.
