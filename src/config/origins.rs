//! The origins of `[platform]` whose pages may call with credentials.

use query::platform::headers::Origins;

use super::reader::Reader;

const ALLOWED_ORIGINS: &str = "platform.allowed_origins";

pub(super) fn read(from: &mut Reader) -> Origins {
    let origins = Origins::new(&from.list(ALLOWED_ORIGINS));
    origins.unwrap_or_else(|why| {
        from.fault(format!("`{ALLOWED_ORIGINS}`: {why}"));
        Origins::default()
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::DEFAULT_FILE;
    use super::*;

    #[test]
    fn any_origin_at_all_is_refused_at_start() {
        let faults = |file: &str| {
            let mut reader = Reader::new(DEFAULT_FILE, file, [], BTreeMap::new());
            super::super::Config::read(&mut reader);
            reader.finish().err().map(|faults| faults.to_string())
        };
        assert_eq!(faults(""), None);
        let good = "[platform]\nallowed_origins = [\"https://front.example\"]";
        assert_eq!(faults(good), None);
        let all = faults("[platform]\nallowed_origins = [\"*\"]").unwrap_or_default();
        assert!(
            all.contains("allowed_origins") && all.contains("credentials"),
            "{all}"
        );
    }
}
