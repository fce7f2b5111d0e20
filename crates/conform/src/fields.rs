//! The fields of an encoded item, each with its bytes. They help the author of a peer in another
//! language to find the error in a frame.

use std::ops::Range;

use serde::de::value::Error;
use serde::ser::{
    Impossible, Serialize, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant, Serializer,
};

use flyswarm::protocol::wire::canonical;

/// A field of an item, in the order of the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    /// Names of struct fields and of variants, and indices in lists: `View.Up.1.Keys[0].author`.
    pub(crate) path: String,
    /// Range of its bytes within the encoded item.
    pub(crate) at: Range<usize>,
    pub(crate) value: String,
    /// Value of the byte, if the field is a byte of a list.
    byte: Option<u8>,
    /// Number of bytes of its type, if the field is an unsigned integer in the shortest encoding.
    pub(crate) width: Option<usize>,
}

/// Returns the fields of `item` in the encoding of [`canonical`].
pub(crate) fn fields<T: Serialize>(item: &T) -> Vec<Field> {
    let mut walk = Walk::default();
    match item.serialize(&mut walk) {
        Ok(()) => walk.fields,
        Err(error) => unreachable!("BUG: protocol items always encode: {error}"),
    }
}

#[derive(Default)]
struct Walk {
    path: String,
    at: usize,
    fields: Vec<Field>,
}

impl Walk {
    /// Adds a field whose encoding is that of `encoded`.
    fn field<T: Serialize + ?Sized>(&mut self, encoded: &T, value: String) {
        let length = canonical(&encoded).len();
        self.raw(length, value);
    }

    /// Adds an unsigned integer.
    fn integer<T: Serialize>(&mut self, encoded: T, value: String) {
        self.field(&encoded, value);
        if let Some(field) = self.fields.last_mut() {
            field.width = Some(size_of::<T>());
        }
    }

    fn raw(&mut self, length: usize, value: String) {
        let at = self.at..self.at + length;
        self.at = at.end;
        self.fields.push(Field { path: self.path.clone(), at, value, byte: None, width: None });
    }

    /// Adds the variant of an enum; its contents come below its name.
    fn variant(&mut self, index: u32, name: &'static str) -> usize {
        self.integer(index, name.to_owned());
        let length = self.path.len();
        self.deeper(name);
        length
    }

    fn deeper(&mut self, name: &str) {
        if !self.path.is_empty() && !name.starts_with('[') {
            self.path.push('.');
        }
        self.path.push_str(name);
    }

    /// Walks through `item`, which has this name below the path.
    fn below<T: Serialize + ?Sized>(&mut self, name: &str, item: &T) -> Result<(), Error> {
        let length = self.path.len();
        self.deeper(name);
        item.serialize(&mut *self)?;
        self.path.truncate(length);
        Ok(())
    }
}

/// Result of opening a list or a struct.
type Open<'a> = Result<Parts<'a>, Error>;

/// A list, or an item with several parts.
struct Parts<'a> {
    walk: &'a mut Walk,
    /// Length of the path before the item, and index of its first field.
    path: usize,
    first: usize,
    count: usize,
    /// True if indices are written `[0]`; indices of tuples are written `.0`.
    listed: bool,
}

impl<'a> Parts<'a> {
    fn new(walk: &'a mut Walk, path: usize, listed: bool) -> Self {
        let first = walk.fields.len();
        Self { walk, path, first, count: 0, listed }
    }

    fn next<T: Serialize + ?Sized>(&mut self, item: &T) -> Result<(), Error> {
        let name = if self.listed { format!("[{}]", self.count) } else { self.count.to_string() };
        self.count += 1;
        self.walk.below(&name, item)
    }

    /// Ends the item, and joins bytes to one field.
    fn finish(self) {
        let walk = self.walk;
        let bytes: Option<Vec<u8>> = walk.fields[self.first..].iter().map(|field| field.byte).collect();
        if let Some(bytes) = bytes
            && !bytes.is_empty()
        {
            let (from, to) = (walk.fields[self.first].at.start, walk.at);
            walk.fields.truncate(self.first);
            let value = hex::encode(bytes);
            walk.fields.push(Field { path: walk.path.clone(), at: from..to, value, byte: None, width: None });
        }
        walk.path.truncate(self.path);
    }
}

macro_rules! plain {
    ($how:ident: $($method:ident: $type:ty),*) => {
        $(fn $method(self, value: $type) -> Result<(), Error> {
            plain!($how, self, value);
            Ok(())
        })*
    };
    (field, $walk:ident, $value:ident) => { $walk.field(&$value, $value.to_string()) };
    (integer, $walk:ident, $value:ident) => { $walk.integer($value, $value.to_string()) };
}

impl<'a> Serializer for &'a mut Walk {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Parts<'a>;
    type SerializeTuple = Parts<'a>;
    type SerializeTupleStruct = Parts<'a>;
    type SerializeTupleVariant = Parts<'a>;
    type SerializeMap = Impossible<(), Error>;
    type SerializeStruct = Parts<'a>;
    type SerializeStructVariant = Parts<'a>;

    plain!(
        field: serialize_bool: bool, serialize_i8: i8, serialize_i16: i16, serialize_i32: i32,
        serialize_i64: i64, serialize_f32: f32, serialize_f64: f64, serialize_char: char, serialize_str: &str
    );
    plain!(integer: serialize_u16: u16, serialize_u32: u32, serialize_u64: u64);

    fn serialize_u8(self, value: u8) -> Result<(), Error> {
        self.raw(1, value.to_string());
        if let Some(field) = self.fields.last_mut() {
            field.byte = Some(value);
        }
        Ok(())
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<(), Error> {
        self.integer(value.len() as u64, format!("{} bytes", value.len()));
        self.raw(value.len(), hex::encode(value));
        Ok(())
    }

    fn serialize_none(self) -> Result<(), Error> {
        self.raw(1, "none".to_owned());
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        self.raw(1, "some".to_owned());
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Error> {
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Error> {
        Ok(())
    }

    fn serialize_unit_variant(self, _: &'static str, index: u32, name: &'static str) -> Result<(), Error> {
        self.integer(index, name.to_owned());
        Ok(())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        index: u32,
        name: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        let length = self.variant(index, name);
        value.serialize(&mut *self)?;
        self.path.truncate(length);
        Ok(())
    }

    fn serialize_seq(self, length: Option<usize>) -> Open<'a> {
        let length = length.unwrap_or_default();
        self.integer(length as u64, format!("{length} entries"));
        let path = self.path.len();
        Ok(Parts::new(self, path, true))
    }

    fn serialize_tuple(self, _: usize) -> Open<'a> {
        let path = self.path.len();
        Ok(Parts::new(self, path, false))
    }

    fn serialize_tuple_struct(self, _: &'static str, length: usize) -> Open<'a> {
        self.serialize_tuple(length)
    }

    fn serialize_tuple_variant(self, _: &'static str, index: u32, name: &'static str, _: usize) -> Open<'a> {
        let path = self.variant(index, name);
        Ok(Parts::new(self, path, false))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self::SerializeMap, Error> {
        unreachable!("BUG: the protocol has no maps")
    }

    fn serialize_struct(self, _: &'static str, length: usize) -> Open<'a> {
        self.serialize_tuple(length)
    }

    fn serialize_struct_variant(self, _: &'static str, index: u32, name: &'static str, _: usize) -> Open<'a> {
        let path = self.variant(index, name);
        Ok(Parts::new(self, path, false))
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}

macro_rules! places {
    ($($trait:ident: $method:ident),*) => {
        $(impl $trait for Parts<'_> {
            type Ok = ();
            type Error = Error;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
                self.next(value)
            }

            fn end(self) -> Result<(), Error> {
                self.finish();
                Ok(())
            }
        })*
    };
}

places!(
    SerializeSeq: serialize_element, SerializeTuple: serialize_element, SerializeTupleStruct: serialize_field,
    SerializeTupleVariant: serialize_field
);

macro_rules! names {
    ($($trait:ident),*) => {
        $(impl $trait for Parts<'_> {
            type Ok = ();
            type Error = Error;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                name: &'static str,
                value: &T,
            ) -> Result<(), Error> {
                self.walk.below(name, value)
            }

            fn end(self) -> Result<(), Error> {
                self.finish();
                Ok(())
            }
        })*
    };
}

names!(SerializeStruct, SerializeStructVariant);

#[cfg(test)]
mod tests {
    use super::*;
    use flyswarm::protocol::message::Message;

    use crate::traces::tests::all;

    #[test]
    fn the_fields_of_every_message_are_all_of_its_bytes_in_their_order() {
        for (what, message) in all() {
            let fields = fields(&message);
            let mut at = 0;
            for field in &fields {
                assert_eq!(field.at.start, at, "{what}: {}", field.path);
                assert!(field.at.end > at, "{what}: {}", field.path);
                at = field.at.end;
            }
            assert_eq!(at, canonical(&message).len(), "{what}");
        }
    }

    #[test]
    fn a_field_has_a_name_its_value_and_its_place() {
        let find = |message: &Message, path: &str| {
            let field = fields(message).into_iter().find(|field| field.path == path);
            let field = field.unwrap_or_else(|| panic!("{path} in {:?}", fields(message)));
            (field.at, field.value)
        };
        let all = all();
        let message = |name: &str| &all.iter().find(|(what, _)| *what == name).unwrap().1;
        let hello = message("hello");
        assert_eq!(find(hello, ""), (0..1, "Hello".to_owned()));
        assert_eq!(find(hello, "Hello.version"), (1..2, "5".to_owned()));
        let (at, value) = find(hello, "Hello.session");
        assert_eq!((at, value.len()), (2..34, 64));
        assert_eq!(find(hello, "Hello.trace"), (35..36, "none".to_owned()));
        let keys = message("up keys");
        assert_eq!(find(keys, "View.Up.1.Keys").1, "2 entries");
        assert_eq!(find(keys, "View.Up.1.Keys[1].author").1, "1");
    }
}
