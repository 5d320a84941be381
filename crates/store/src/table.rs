//! The tables as row structs, and small functions over [`Tx`](crate::Tx) that read and change rows.
//!
//! Each file holds one table. States, kinds and modes decode into the enums of [`provost_core`]; an unknown value is
//! [`StoreError::Unreadable`](crate::StoreError::Unreadable).

/// The column name of a field: the field's name, or the literal after `as`.
macro_rules! column {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $column:literal) => {
        $column
    };
}

/// Defines the row struct of a table: its columns in order, and functions that read and insert rows.
macro_rules! table {
    (
        $(#[$doc:meta])*
        $name:ident in $table:literal {
            $( $(#[$field_doc:meta])* $field:ident $(as $column:literal)?: $type:ty, )+
        }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name {
            $( $(#[$field_doc])* pub $field: $type, )+
        }

        impl $name {
            /// Column names in field order.
            pub(crate) const COLUMNS: &'static [&'static str] =
                &[$( column!($field $($column)?) ),+];

            /// Builds a query for whole rows. `rest` is the SQL after the table name.
            #[allow(dead_code, reason = "some tables are only read through statements that change them")]
            pub(crate) fn select(rest: &str) -> String {
                format!("SELECT {} FROM {} {rest}", Self::COLUMNS.join(", "), $table)
            }

            /// Returns the values in field order.
            #[allow(dead_code, reason = "not every table is changed row by row")]
            pub(crate) fn values(&self) -> Vec<$crate::Value<'_>> {
                vec![$( $crate::ToColumn::to_value(&self.$field) ),+]
            }

            /// Inserts the row.
            pub fn insert(&self, tx: &mut $crate::Tx<'_>) -> Result<(), $crate::StoreError> {
                static SQL: std::sync::LazyLock<String> =
                    std::sync::LazyLock::new(|| $crate::table::insert_sql($table, $name::COLUMNS));
                tx.execute(&SQL, $crate::params![$( self.$field ),+]).map(drop)
            }

            /// Inserts the row unless its key exists. Returns true if it was inserted.
            pub fn insert_new(&self, tx: &mut $crate::Tx<'_>) -> Result<bool, $crate::StoreError> {
                static SQL: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| {
                    $crate::table::insert_sql($table, $name::COLUMNS) + " ON CONFLICT DO NOTHING"
                });
                Ok(tx.execute(&SQL, $crate::params![$( self.$field ),+])? == 1)
            }
        }

        impl $crate::FromRow for $name {
            fn from_row(row: &mut $crate::Row<'_>) -> Result<Self, $crate::StoreError> {
                let table = row.of_table($table, Self::COLUMNS);
                Ok(Self { $( $field: row.take_of(table)?, )+ })
            }
        }

        #[cfg(test)]
        impl $crate::table::tests::SampleRow for $name {
            const TABLE: &'static str = $table;

            fn sample(seed: u64) -> Self {
                Self { $( $field: $crate::table::tests::Sample::sample(seed), )+ }
            }

            fn fields() -> Vec<$crate::table::tests::Field> {
                vec![$( $crate::table::tests::Field::of::<$type>(column!($field $($column)?)) ),+]
            }

            fn select_all() -> String {
                Self::select("")
            }

            fn insert_into(&self, tx: &mut $crate::Tx<'_>) -> Result<(), $crate::StoreError> {
                self.insert(tx)
            }
        }
    };
}

pub mod governance;
mod lock;
pub mod memory;
pub mod outbound;
pub mod scheduling;
pub mod session_file;
pub mod state;
pub mod work;

#[cfg(test)]
mod tests;

/// Returns the statement that inserts a row.
fn insert_sql(table: &str, columns: &[&str]) -> String {
    let places: Vec<String> = (1..=columns.len()).map(|place| format!("?{place}")).collect();
    format!("INSERT INTO {table} ({}) VALUES ({})", columns.join(", "), places.join(", "))
}
