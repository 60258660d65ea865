//! Typed references to the nodes of a workflow.

use std::fmt;
use std::marker::PhantomData;

/// A task of a workflow, and the type of its result.
pub struct Node<O> {
    mark: u64,
    place: u32,
    output: PhantomData<fn() -> O>,
}

impl<O> Node<O> {
    pub(crate) fn new(mark: u64, place: u32) -> Self {
        Self { mark, place, output: PhantomData }
    }

    pub(crate) fn mark(self) -> u64 {
        self.mark
    }

    pub(crate) fn place(self) -> u32 {
        self.place
    }
}

impl<O> Clone for Node<O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<O> Copy for Node<O> {}

impl<O> fmt::Debug for Node<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Node").field(&self.place).finish()
    }
}

/// Nodes to wait for: one, an array, a slice or vector of them, or a tuple of these.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a set of workflow nodes",
    note = "pass a Node, an array, slice or Vec of nodes, or a tuple of these"
)]
pub trait Nodes {
    /// Which workflow each belongs to, and its place there.
    #[doc(hidden)]
    fn places(&self) -> Vec<(u64, u32)>;
}

impl<O> Nodes for Node<O> {
    fn places(&self) -> Vec<(u64, u32)> {
        vec![(self.mark, self.place)]
    }
}

impl<N: Nodes> Nodes for [N] {
    fn places(&self) -> Vec<(u64, u32)> {
        self.iter().flat_map(Nodes::places).collect()
    }
}

impl<N: Nodes, const LEN: usize> Nodes for [N; LEN] {
    fn places(&self) -> Vec<(u64, u32)> {
        self[..].places()
    }
}

impl<N: Nodes> Nodes for Vec<N> {
    fn places(&self) -> Vec<(u64, u32)> {
        self[..].places()
    }
}

impl<N: Nodes + ?Sized> Nodes for &N {
    fn places(&self) -> Vec<(u64, u32)> {
        (**self).places()
    }
}

macro_rules! tuples {
    ($($name:ident),*) => {
        impl<$($name: Nodes),*> Nodes for ($($name,)*) {
            fn places(&self) -> Vec<(u64, u32)> {
                #[allow(non_snake_case, reason = "the names of the types serve as names of the values")]
                let ($($name,)*) = self;
                [$($name.places()),*].concat()
            }
        }
    };
}
tuples!(First, Second);
tuples!(First, Second, Third);
tuples!(First, Second, Third, Fourth);
