//! Offsets, byte positions and timestamps are three different things, and the compiler knows it.

use std::fmt;

macro_rules! unit {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u64);

        impl $name {
            /// Zero.
            pub const ZERO: Self = Self(0);
            /// The plain number.
            pub const fn get(self) -> u64 {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

unit! {
    /// A record's place in its partition: 0, 1, 2 … without gaps. Also used for "the offset after the last".
    Offset
}
unit! {
    /// A byte position in a file.
    Position
}
unit! {
    /// Milliseconds since the Unix epoch.
    Timestamp
}

impl Offset {
    /// No partition has so many records, 281 trillion: what names an offset from here on was not written by a broker.
    pub const MAX: Self = Self(1 << 48);

    /// The offset with this number.
    pub const fn new(offset: u64) -> Self {
        Self(offset)
    }

    /// The offset `count` records further on. What names an offset near the last number was not written by a broker, and whoever is
    /// shown it goes on all the same.
    pub const fn plus(self, count: u64) -> Self {
        Self(self.0.saturating_add(count))
    }

    /// The next one.
    pub const fn next(self) -> Self {
        self.plus(1)
    }

    /// How many records lie from `earlier` up to, not including, this one; 0 where `earlier` is not earlier.
    pub const fn since(self, earlier: Offset) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl Position {
    /// The position of this byte.
    pub const fn new(byte: u64) -> Self {
        Self(byte)
    }

    /// The position `bytes` further on.
    pub const fn plus(self, bytes: u64) -> Self {
        Self(self.0 + bytes)
    }
}

impl Timestamp {
    /// This many milliseconds after the Unix epoch.
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms)
    }

    /// Milliseconds since `earlier`; 0 where it is not earlier, as after a clock that ran backwards.
    pub const fn millis_since(self, earlier: Timestamp) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that is none of ours can say anything, and so can what lies in a file.
    #[test]
    fn an_offset_behind_the_last_number_there_is_is_that_number() {
        let last = Offset::new(u64::MAX);
        assert_eq!((last.next(), Offset::new(u64::MAX - 1).plus(7)), (last, last));
    }
}
