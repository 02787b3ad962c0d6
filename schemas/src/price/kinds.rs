//! The kinds of usage that have rates of their own, and the set of those that a row had no rate for.

use super::rate::Rate;

/// What a rate is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RateKind {
    /// Prompt tokens without a rate of their own.
    Input,
    /// Completion tokens without a rate of their own.
    Output,
    /// Prompt tokens read from a cache.
    CachedInput,
    /// All tokens, where only their total is known.
    Total,
    /// Prompt tokens written to a cache of the default lifetime.
    CacheWrite,
    /// Prompt tokens written to a cache that lasts one hour.
    CacheWrite1h,
    InputAudio,
    InputImage,
    OutputAudio,
    /// Completion tokens of reasoning; nearly every provider charges them as output.
    Reasoning,
}

impl RateKind {
    pub const ALL: [RateKind; 10] = [
        Self::Input,
        Self::Output,
        Self::CachedInput,
        Self::Total,
        Self::CacheWrite,
        Self::CacheWrite1h,
        Self::InputAudio,
        Self::InputImage,
        Self::OutputAudio,
        Self::Reasoning,
    ];

    /// The name in files, in the API (with the unit behind it) and in the store.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Output => "output",
            Self::CachedInput => "cached_input",
            Self::Total => "total",
            Self::CacheWrite => "cache_write",
            Self::CacheWrite1h => "cache_write_1h",
            Self::InputAudio => "input_audio",
            Self::InputImage => "input_image",
            Self::OutputAudio => "output_audio",
            Self::Reasoning => "reasoning",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// A rate for each of some kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KindRates([Option<Rate>; RateKind::ALL.len()]);

impl KindRates {
    pub fn get(&self, kind: RateKind) -> Option<Rate> {
        self.0[kind as usize]
    }

    pub fn set(&mut self, kind: RateKind, rate: Option<Rate>) {
        self.0[kind as usize] = rate;
    }

    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    /// The kinds with a rate, in the order of [`RateKind::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (RateKind, Rate)> + '_ {
        let kinds = RateKind::ALL.into_iter();
        kinds.filter_map(|kind| Some((kind, self.get(kind)?)))
    }
}

impl FromIterator<(RateKind, Rate)> for KindRates {
    fn from_iter<T: IntoIterator<Item = (RateKind, Rate)>>(rates: T) -> Self {
        let mut all = Self::default();
        for (kind, rate) in rates {
            all.set(kind, Some(rate));
        }
        all
    }
}

/// Something that a call used and the row of its model has no rate for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UnpricedKind {
    CacheRead,
    CacheWrite,
    CacheWrite1h,
    InputAudio,
    InputImage,
    OutputAudio,
    Request,
    ServiceTier,
}

impl UnpricedKind {
    pub const ALL: [UnpricedKind; 8] = [
        Self::CacheRead,
        Self::CacheWrite,
        Self::CacheWrite1h,
        Self::InputAudio,
        Self::InputImage,
        Self::OutputAudio,
        Self::Request,
        Self::ServiceTier,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::CacheRead => "cache_read",
            Self::CacheWrite => "cache_write",
            Self::CacheWrite1h => "cache_write_1h",
            Self::InputAudio => "input_audio",
            Self::InputImage => "input_image",
            Self::OutputAudio => "output_audio",
            Self::Request => "request",
            Self::ServiceTier => "service_tier",
        }
    }
}

/// A set of [`UnpricedKind`], in one byte.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct UnpricedKinds(u8);

impl UnpricedKinds {
    /// From [`UnpricedKinds::bits`]. Every byte is a set.
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    /// One bit for each kind, in the order of [`UnpricedKind::ALL`] from the lowest bit. Tables may hold it, so the
    /// order never changes.
    pub const fn bits(self) -> u8 {
        self.0
    }

    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub const fn contains(self, kind: UnpricedKind) -> bool {
        self.0 & (1 << kind as u8) != 0
    }

    pub const fn insert(&mut self, kind: UnpricedKind) {
        self.0 |= 1 << kind as u8;
    }

    /// The kinds that are in one of both.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The kinds' names, in the order of [`UnpricedKind::ALL`].
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let kinds = UnpricedKind::ALL.into_iter();
        kinds
            .filter(move |kind| self.contains(*kind))
            .map(UnpricedKind::name)
    }
}

impl std::fmt::Debug for UnpricedKinds {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_set().entries(self.names()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_place_and_a_name_of_its_own() {
        for (at, kind) in RateKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, at);
            assert_eq!(RateKind::named(kind.name()), Some(kind));
        }
        assert_eq!(RateKind::named("colour"), None);
        let mut all = UnpricedKinds::default();
        assert!(all.is_empty());
        for (at, kind) in UnpricedKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, at);
            assert!(!all.contains(kind));
            all.insert(kind);
            assert!(all.contains(kind));
        }
        assert_eq!(all.bits(), u8::MAX);
        assert_eq!(all.names().count(), 8);
    }

    #[test]
    fn a_set_has_the_bits_that_tables_hold_and_names_in_order() {
        let mut some = UnpricedKinds::default();
        some.insert(UnpricedKind::ServiceTier);
        some.insert(UnpricedKind::CacheWrite);
        assert_eq!(some.bits(), 0b1000_0010);
        assert_eq!(UnpricedKinds::from_bits(0b1000_0010), some);
        let names: Vec<&str> = some.names().collect();
        assert_eq!(names, ["cache_write", "service_tier"]);
        assert_eq!(format!("{some:?}"), r#"{"cache_write", "service_tier"}"#);
        let both = UnpricedKinds::from_bits(1).union(some);
        assert_eq!(both.bits(), 0b1000_0011);
    }
}
