//! Sorted streams to one: a tree of losers (Knuth, The Art of Computer Programming, volume 3, 5.4.1), whose nodes carry the
//! eight bytes that decide nearly always.
//!
//! Streams that come first win where keys are equal, so their order is that of the input.

use std::cmp::Ordering;
use std::io::{Read, Write};

use memchr::memchr;

use super::OrderError;
use super::layout::{Layout, Order};
use super::tally::Tally;

/// Bytes that a stream has for itself, at least.
pub const MERGE_BUFFER_BYTES_MIN: usize = 1 << 14;
/// Bytes that are written at once.
const STAGE_BYTES: usize = 1 << 18;

/// Merges sorted streams into one, and counts it. Every stream has `buffer_bytes` of memory, and more while it holds a
/// longer record. `step` is told of the bytes that were written since it was last called; its error ends the merge.
pub fn merge<R: Read, W: Write, E: From<OrderError>>(
    order: &Order,
    streams: Vec<R>,
    buffer_bytes: usize,
    output: &mut W,
    step: &mut dyn FnMut(u64) -> Result<(), E>,
) -> Result<Tally, E> {
    let buffer_bytes = buffer_bytes.max(MERGE_BUFFER_BYTES_MIN);
    let mut tree = Tree::new(*order, streams, buffer_bytes)?;
    let mut tally = Tally::default();
    let mut stage = Vec::with_capacity(2 * STAGE_BYTES);
    let write = |stage: &mut Vec<u8>, output: &mut W| {
        output.write_all(stage).map_err(OrderError::from)?;
        let written = stage.len() as u64;
        stage.clear();
        Ok::<u64, OrderError>(written)
    };
    while let Some(record) = tree.first() {
        tally.add(record);
        stage.extend_from_slice(record);
        if stage.len() >= STAGE_BYTES {
            step(write(&mut stage, output)?)?;
        }
        tree.advance()?;
    }
    step(write(&mut stage, output)?)?;
    Ok(tally)
}

/// Who is where: the prefix of a stream's record, and the stream.
#[derive(Clone, Copy, Debug)]
struct Node {
    prefix: u64,
    stream: u32,
}

struct Tree<R> {
    order: Order,
    streams: Vec<Stream<R>>,
    /// The losers of all games, the winner of all at 0. The parent of a node is at half its place.
    nodes: Vec<Node>,
}

impl<R: Read> Tree<R> {
    fn new(order: Order, streams: Vec<R>, buffer_bytes: usize) -> Result<Self, OrderError> {
        let streams = streams.into_iter().map(|stream| Stream::open(stream, &order, buffer_bytes));
        let streams = streams.collect::<Result<Vec<_>, _>>()?;
        let nodes = vec![Node { prefix: 0, stream: 0 }; streams.len()];
        let mut tree = Self { order, streams, nodes };
        if !tree.streams.is_empty() {
            tree.nodes[0] = tree.play(1);
        }
        Ok(tree)
    }

    /// Plays all games below a node, and gives the winner.
    fn play(&mut self, at: usize) -> Node {
        let count = self.streams.len();
        if at >= count {
            return self.node(at - count);
        }
        let (left, right) = (self.play(2 * at), self.play(2 * at + 1));
        let (winner, loser) =
            if self.is_before(left, right) { (left, right) } else { (right, left) };
        self.nodes[at] = loser;
        winner
    }

    fn node(&self, stream: usize) -> Node {
        Node { prefix: self.streams[stream].prefix, stream: stream as u32 }
    }

    /// The record that comes next, with its line end.
    #[inline]
    fn first(&self) -> Option<&[u8]> {
        let node = self.nodes.first()?;
        self.streams[node.stream as usize].whole()
    }

    /// Goes on behind the first record.
    #[inline]
    fn advance(&mut self) -> Result<(), OrderError> {
        let stream = self.nodes[0].stream as usize;
        self.streams[stream].advance(&self.order)?;
        let mut winner = self.node(stream);
        let mut at = (self.streams.len() + stream) / 2;
        while at > 0 {
            let other = self.nodes[at];
            if self.is_before(other, winner) {
                self.nodes[at] = winner;
                winner = other;
            }
            at /= 2;
        }
        self.nodes[0] = winner;
        Ok(())
    }

    #[inline]
    fn is_before(&self, a: Node, b: Node) -> bool {
        match a.prefix.cmp(&b.prefix) {
            Ordering::Less => true,
            Ordering::Greater => false,
            Ordering::Equal => self.is_before_behind_prefix(a.stream, b.stream),
        }
    }

    #[cold]
    fn is_before_behind_prefix(&self, a: u32, b: u32) -> bool {
        let (one, other) = (&self.streams[a as usize], &self.streams[b as usize]);
        let compared = match (one.record(), other.record()) {
            (Some(one), Some(other)) => {
                self.order.compare_rest(self.order.key(one), self.order.key(other))
            }
            // A stream that has ended comes after all.
            (one, other) => other.is_some().cmp(&one.is_some()),
        };
        compared.then(a.cmp(&b)) == Ordering::Less
    }
}

struct Stream<R> {
    input: R,
    buffer: Vec<u8>,
    /// The current record, without and with its line end; nothing once it has ended.
    at: usize,
    end: usize,
    whole_end: usize,
    ended: bool,
    prefix: u64,
}

impl<R: Read> Stream<R> {
    fn open(input: R, order: &Order, buffer_bytes: usize) -> Result<Self, OrderError> {
        let buffer = Vec::with_capacity(buffer_bytes);
        let mut stream =
            Self { input, buffer, at: 0, end: 0, whole_end: 0, ended: false, prefix: 0 };
        stream.advance(order)?;
        Ok(stream)
    }

    fn record(&self) -> Option<&[u8]> {
        (!self.ended).then(|| &self.buffer[self.at..self.end])
    }

    #[inline]
    fn whole(&self) -> Option<&[u8]> {
        (!self.ended).then(|| &self.buffer[self.at..self.whole_end])
    }

    #[inline]
    fn advance(&mut self, order: &Order) -> Result<(), OrderError> {
        self.at = self.whole_end;
        loop {
            let rest = &self.buffer[self.at..];
            let found = match order.layout {
                Layout::Records { bytes, .. } => {
                    let bytes = bytes as usize;
                    (rest.len() >= bytes).then_some((bytes, bytes))
                }
                Layout::Lines | Layout::Fields { .. } => {
                    memchr(b'\n', rest).map(|end| (end, end + 1))
                }
            };
            if let Some((bytes, whole)) = found {
                self.end = self.at + bytes;
                self.whole_end = self.at + whole;
                self.prefix = order.prefix(order.key(&self.buffer[self.at..self.end]), 0);
                return Ok(());
            }
            if !self.refill()? {
                self.ended = true;
                self.prefix = u64::MAX;
                return Ok(());
            }
        }
    }

    /// Moves what is left to the front and reads on; says whether there was anything to read.
    #[cold]
    fn refill(&mut self) -> Result<bool, OrderError> {
        self.buffer.copy_within(self.at.., 0);
        self.buffer.truncate(self.buffer.len() - self.at);
        self.at = 0;
        self.whole_end = 0;
        let free = self.buffer.capacity() - self.buffer.len();
        let wanted = if free == 0 { self.buffer.capacity().max(1) } else { free };
        self.buffer.reserve_exact(wanted);
        let input = self.input.by_ref();
        let read = input.take(wanted as u64).read_to_end(&mut self.buffer)?;
        if read == 0 && !self.buffer.is_empty() {
            // Runs end with a whole record; this one was cut.
            return Err(OrderError::Io(std::io::ErrorKind::UnexpectedEof.into()));
        }
        Ok(read > 0)
    }
}
