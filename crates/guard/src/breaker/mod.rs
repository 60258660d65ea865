//! Whether calls to a part that fails are let through.
