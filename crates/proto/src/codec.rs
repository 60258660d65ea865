//! How messages are read from the wire: their lists are counted in the bytes before anything is built from them.
//!
//! The generated services and clients use this codec. Writing is prost's own.

use std::marker::PhantomData;

use bytes::Buf as _;
use divvy_types::REFUSAL_MARK;
use prost::Message;
use tonic::codec::{Codec, DecodeBuf, Decoder};
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Code, Status};
use tonic_prost::ProstCodec;

use crate::lists::{Counted, count};

/// The code of a refusal of what is too large to be read.
const CODE: &str = "message_too_large";

/// A codec that writes `T` and reads `U`.
#[derive(Debug)]
pub struct CountingCodec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for CountingCodec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> Codec for CountingCodec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Counted + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = <ProstCodec<T, U> as Codec>::Encoder;
    type Decoder = CountingDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<T, U>::default().encoder()
    }

    fn decoder(&mut self) -> Self::Decoder {
        CountingDecoder(PhantomData)
    }
}

/// Reads a `U`.
#[derive(Debug)]
pub struct CountingDecoder<U>(PhantomData<U>);

impl<U: Message + Counted + Default> Decoder for CountingDecoder<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        let message = buffer.copy_to_bytes(buffer.remaining());
        if let Some(fields) = U::FIELDS {
            count(&message, fields).map_err(|problem| {
                let mut metadata = MetadataMap::new();
                metadata.insert(REFUSAL_MARK, MetadataValue::from_static(CODE));
                Status::with_metadata(Code::InvalidArgument, problem.to_string(), metadata)
            })?;
        }
        let decoded = U::decode(message);
        decoded.map(Some).map_err(|error| Status::internal(error.to_string()))
    }
}
