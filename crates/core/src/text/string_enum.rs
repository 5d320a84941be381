//! Enums whose variants have one fixed text each.
//!
//! A variant is stored, sent and displayed as this text.

/// Defines an enum of fixed texts with `ALL`, `as_str`, `Display`, `FromStr`, serde and a JSON schema.
///
/// - `$name as "…"`: the name of the JSON schema, if it differs from the name of the enum.
/// - `$what`: the set with its article, such as `a role`, for the error of `FromStr`.
/// - `$text or "…"`: a second spelling that is parsed but never written.
macro_rules! string_enum {
    (
        $(#[$meta:meta])*
        $name:ident $(as $schema:literal)?, $what:literal {
            $( $(#[$doc:meta])* $variant:ident = $text:literal $(or $alias:literal)? ),+ $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $( $(#[$doc])* $variant ),+
        }

        impl $name {
            /// All variants, in the order of their declaration.
            pub const ALL: &'static [Self] = &[$( Self::$variant ),+];

            /// Returns the text that is stored and sent.
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
            type Err = $crate::lifecycle::ParseEnumError;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text {
                    $( $text $(| $alias)? => Ok(Self::$variant), )+
                    _ => Err($crate::lifecycle::ParseEnumError::new($what, text, &[$( $text ),+])),
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
                [$( $schema, )? stringify!($name)][0].into()
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

pub(crate) use string_enum;
