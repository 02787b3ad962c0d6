//! The parameter `limit` of every list.

use std::fmt::Display;
use std::str::FromStr;

use serde_json::json;

use crate::api_error::{ApiError, ErrorCode};

/// Characters of a value that a message quotes.
const SHOWN_CHARS: usize = 100;

/// Parses `limit`: an integer from 1 to `max`, in digits.
///
/// # Errors
/// 400 `invalid_parameter`.
pub fn limit<N>(text: &str, max: N) -> Result<N, ApiError>
where
    N: Copy + Display + From<u8> + FromStr + PartialOrd,
{
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let read = text.parse().ok().filter(|_| is_number);
    read.filter(|limit| (N::from(1)..=max).contains(limit))
        .ok_or_else(|| {
            let shown: String = text.chars().take(SHOWN_CHARS).collect();
            let message = format!("limit must be between 1 and {max}, got {shown}");
            let details = json!({
                "parameter": "limit", "value": shown, "allowed": format!("an integer from 1 to {max}")
            });
            ApiError::new(ErrorCode::InvalidParameter, message).with_details(details)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_read_in_digits_and_within_its_bounds() {
        assert_eq!(limit("1", 1000_u32), Ok(1));
        assert_eq!(limit("1000", 1000_usize), Ok(1000));
        for text in [
            "0",
            "1001",
            "-1",
            "+1",
            "1.0",
            " 1",
            "x",
            "",
            "99999999999999999999999",
        ] {
            let error = limit(text, 1000_u32).unwrap_err();
            assert_eq!(
                (error.status, error.code.as_str()),
                (400, "invalid_parameter")
            );
            assert_eq!(
                error.message,
                format!("limit must be between 1 and 1000, got {text}")
            );
        }
    }
}
