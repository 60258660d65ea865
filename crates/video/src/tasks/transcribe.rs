//! Lets a recogniser listen, and writes subtitles.
