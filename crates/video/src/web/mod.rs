//! The API of the library, the files of videos, and the pages that show them.
