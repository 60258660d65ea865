//! Lets a scanner look at the thumbnails.
