//! Closed sets of words: the one way in which a state, a mode or a code is written.
//!
//! What is stored, what is sent and what is shown is the same text, so it is said once per word.

/// Defines an enum whose variants are words, with `ALL`, `as_str`, `Display`, `FromStr` and serde.
///
/// `or "…"` gives a second spelling that is read and never written.
macro_rules! words {
    (
        $(#[$meta:meta])*
        $name:ident, $what:literal {
            $( $(#[$doc:meta])* $variant:ident = $text:literal $(or $alias:literal)? ),+ $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $( $(#[$doc])* $variant ),+
        }

        impl $name {
            /// Every word of the set, in the order of this page.
            pub const ALL: &'static [Self] = &[$( Self::$variant ),+];

            /// The word as it is stored and sent.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $( Self::$variant => $text ),+
                }
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl ::std::str::FromStr for $name {
            type Err = $crate::lifecycle::UnknownWord;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text {
                    $( $text $(| $alias)? => Ok(Self::$variant), )+
                    _ => Err($crate::lifecycle::UnknownWord::new($what, text, &[$( $text ),+])),
                }
            }
        }

        impl ::serde::Serialize for $name {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl ::schemars::JsonSchema for $name {
            fn schema_name() -> ::std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut ::schemars::SchemaGenerator) -> ::schemars::Schema {
                ::schemars::json_schema!({"type": "string", "enum": [$( $text $(, $alias)? ),+]})
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D: ::serde::Deserializer<'de>>(
                deserializer: D,
            ) -> Result<Self, D::Error> {
                let text = ::std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(::serde::de::Error::custom)
            }
        }
    };
}

pub(crate) use words;
