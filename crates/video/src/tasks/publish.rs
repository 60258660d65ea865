//! The end of a video: in the library, or with a reason why not.
