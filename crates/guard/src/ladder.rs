//! What to give up first when a part is slow or gone.
