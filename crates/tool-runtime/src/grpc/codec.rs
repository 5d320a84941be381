//! gRPC codecs for envelopes: protobuf messages or JSON.

use std::marker::PhantomData;

use bytes::{Buf as _, BufMut as _};
use prost::Message;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// Codec for protobuf messages.
pub struct ProtobufCodec<E, D>(PhantomData<(E, D)>);

/// Codec for JSON, with the content subtype `json`.
pub struct JsonCodec<E, D>(PhantomData<(E, D)>);

macro_rules! codec {
    ($name:ident, $encode:path, $decode:path, { $($bound:tt)+ }, { $($back:tt)+ }) => {
        impl<E, D> Default for $name<E, D> {
            fn default() -> Self {
                Self(PhantomData)
            }
        }

        impl<E: $($bound)+, D: $($back)+> Codec for $name<E, D> {
            type Encode = E;
            type Decode = D;
            type Encoder = Self;
            type Decoder = Self;

            fn encoder(&mut self) -> Self {
                Self::default()
            }

            fn decoder(&mut self) -> Self {
                Self::default()
            }
        }

        impl<E: $($bound)+, D: $($back)+> Encoder for $name<E, D> {
            type Item = E;
            type Error = Status;

            fn encode(&mut self, item: E, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
                $encode(item, buffer).map_err(|problem| Status::internal(problem))
            }
        }

        impl<E: $($bound)+, D: $($back)+> Decoder for $name<E, D> {
            type Item = D;
            type Error = Status;

            fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<D>, Status> {
                // Decoding again cannot succeed either.
                $decode(buffer).map(Some).map_err(|problem| Status::data_loss(problem))
            }
        }
    };
}

codec!(ProtobufCodec, to_protobuf, from_protobuf, { Message + 'static }, { Message + Default + 'static });
codec!(JsonCodec, to_json, from_json, { Serialize + Send + 'static }, { DeserializeOwned + Send + 'static });

fn to_protobuf<E: Message>(item: E, buffer: &mut EncodeBuf<'_>) -> Result<(), String> {
    item.encode(buffer).map_err(|error| error.to_string())
}

fn from_protobuf<D: Message + Default>(buffer: &mut DecodeBuf<'_>) -> Result<D, String> {
    D::decode(buffer).map_err(|error| error.to_string())
}

fn to_json<E: Serialize>(item: E, buffer: &mut EncodeBuf<'_>) -> Result<(), String> {
    serde_json::to_writer(buffer.writer(), &item).map_err(|error| error.to_string())
}

fn from_json<D: DeserializeOwned>(buffer: &mut DecodeBuf<'_>) -> Result<D, String> {
    serde_json::from_reader(buffer.reader()).map_err(|error| error.to_string())
}
