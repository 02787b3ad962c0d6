//! Errors of the store, and whether a retry can help.

use std::time::Duration;

mod api;

/// A variant exists where a caller acts differently.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The server cannot be reached, or the connection broke.
    #[error("ClickHouse is away: {0}")]
    Unavailable(String),
    #[error("ClickHouse did not answer within {} ms", .0.as_millis())]
    TimedOut(Duration),
    /// The server cannot take more now: memory, parts, connections, disk.
    #[error("ClickHouse is overloaded (code {code}): {message}")]
    Overloaded {
        code: u32,
        /// ClickHouse's message, first line.
        message: String,
    },
    /// A read exceeded one of its bounds (Q1): the query has to be narrower.
    #[error("the query went over its bounds (code {code}): {message}")]
    TooExpensive {
        code: u32,
        /// ClickHouse's message, first line.
        message: String,
    },
    /// The server rejected the statement and would reject it again.
    #[error("ClickHouse refused (code {code}): {message}")]
    Refused {
        /// ClickHouse's error code, 0 without one.
        code: u32,
        /// ClickHouse's message, first line.
        message: String,
    },
    /// The rows would have been stored after the writer's deadline: see [`crate::Store::with_deadline`]. None is
    /// stored.
    #[error("the time in which this could be written is over")]
    Fenced,
    /// A row does not have the expected columns.
    #[error("a row does not fit: {0}")]
    Shape(String),
    /// A newer version of this program migrated the database.
    #[error(
        "the database is at migration {found}, this program knows only {known}: use the newer program"
    )]
    TooNew {
        /// Newest migration in the database.
        found: u32,
        /// Newest migration compiled in.
        known: u32,
    },
    /// An applied migration differs from the compiled-in one.
    #[error("migration {0} in the database differs from the one in this program")]
    MigrationChanged(u32),
    /// Invalid values of the caller.
    #[error("{0}")]
    Invalid(String),
    /// It conflicts with stored data; the message names the conflict and the way out.
    #[error("{0}")]
    Conflict(String),
    /// The queue of one credential's reads is full, at its maximum length (X1).
    #[error("{0} reads of this credential wait already")]
    OverShare(usize),
    /// A file of the store could not be read or written.
    #[error("{path}: {source}")]
    File {
        path: String,
        source: std::io::Error,
    },
    /// The embedded engine cannot run.
    #[error("{0}")]
    Engine(String),
    #[error("metrics: {0}")]
    Metrics(#[from] prometheus::Error),
}

/// Transient errors: the same statement may succeed later. 3 UNEXPECTED_END_OF_FILE and 33 CANNOT_READ_ALL_DATA are
/// truncated requests.
const TRANSIENT_CODES: &[u32] = &[
    3,   // UNEXPECTED_END_OF_FILE
    33,  // CANNOT_READ_ALL_DATA
    74,  // CANNOT_READ_FROM_FILE_DESCRIPTOR
    75,  // CANNOT_WRITE_TO_FILE_DESCRIPTOR
    76,  // CANNOT_OPEN_FILE
    95,  // CANNOT_READ_FROM_SOCKET
    96,  // CANNOT_WRITE_TO_SOCKET
    164, // READONLY
    173, // CANNOT_ALLOCATE_MEMORY
    198, // DNS_ERROR
    201, // QUOTA_EXCEEDED
    202, // TOO_MANY_SIMULTANEOUS_QUERIES
    203, // NO_FREE_CONNECTION
    209, // SOCKET_TIMEOUT
    210, // NETWORK_ERROR
    225, // NO_ZOOKEEPER
    236, // ABORTED
    MEMORY_CODE,
    242,  // TABLE_IS_READ_ONLY
    243,  // NOT_ENOUGH_SPACE
    252,  // TOO_MANY_PARTS
    279,  // ALL_CONNECTION_TRIES_FAILED
    285,  // TOO_FEW_LIVE_REPLICAS
    286,  // UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE
    289,  // REPLICA_IS_NOT_IN_QUORUM
    319,  // UNKNOWN_STATUS_OF_INSERT
    384,  // PART_IS_TEMPORARILY_LOCKED
    394,  // QUERY_WAS_CANCELLED
    425,  // SYSTEM_ERROR
    439,  // CANNOT_SCHEDULE_TASK
    473,  // DEADLOCK_AVOIDED
    499,  // S3_ERROR
    745,  // SERVER_OVERLOADED
    999,  // KEEPER_EXCEPTION
    1001, // STD_EXCEPTION: of a disk or of memory, not of a row
];

/// MEMORY_LIMIT_EXCEEDED, of a query or of the server.
const MEMORY_CODE: u32 = 241;

/// Exceeded bounds: 158 TOO_MANY_ROWS, 159 TIMEOUT_EXCEEDED, 160 TOO_SLOW, 307 TOO_MANY_BYTES, 396
/// TOO_MANY_ROWS_OR_BYTES.
const EXPENSIVE_CODES: &[u32] = &[158, 159, 160, 307, 396];

/// The server's message for a rejected late insert, with this code: FUNCTION_THROW_IF_VALUE_IS_NON_ZERO.
pub(crate) const FENCED_MARK: &str = "spindle: this insert is too late";
const THROWN_CODE: u32 = 395;

impl StoreError {
    /// Whether the same call may succeed later without intervention.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::Unavailable(_) | Self::TimedOut(_) | Self::Overloaded { .. }
        )
    }

    /// Whether a query that reads less may succeed: it exceeded its bounds, or the memory of the query or server.
    pub(crate) fn is_too_large(&self) -> bool {
        matches!(
            self,
            Self::TooExpensive { .. }
                | Self::Overloaded {
                    code: MEMORY_CODE,
                    ..
                }
        )
    }

    /// Parses a response of ClickHouse: `Code: 241. DB::Exception: ...`.
    pub(crate) fn from_answer(answer: &str) -> Self {
        let code = answer
            .split_once("Code: ")
            .and_then(|(_, rest)| rest.split(|c: char| !c.is_ascii_digit()).next())
            .and_then(|digits| digits.parse().ok())
            .unwrap_or(0);
        let message = first_line(answer);
        if code == 0 {
            // Not a response of ClickHouse: a proxy's page, or its bare status line.
            return Self::Unavailable(message);
        }
        if code == THROWN_CODE && answer.contains(FENCED_MARK) {
            Self::Fenced
        } else if TRANSIENT_CODES.contains(&code) {
            Self::Overloaded { code, message }
        } else if EXPENSIVE_CODES.contains(&code) {
            Self::TooExpensive { code, message }
        } else {
            Self::Refused { code, message }
        }
    }

    pub(crate) fn file(path: &std::path::Path, source: std::io::Error) -> Self {
        Self::File {
            path: path.display().to_string(),
            source,
        }
    }
}

/// The first line, bounded: an exception may quote the data at fault, which has no place in a log (X2).
fn first_line(text: &str) -> String {
    text.lines()
        .next()
        .unwrap_or_default()
        .chars()
        .take(300)
        .collect()
}

impl From<clickhouse::error::Error> for StoreError {
    fn from(error: clickhouse::error::Error) -> Self {
        use clickhouse::error::Error;
        match error {
            Error::Network(source) => Self::Unavailable(chain(source.as_ref())),
            Error::TimedOut => Self::TimedOut(Duration::ZERO),
            Error::BadResponse(answer) => Self::from_answer(&answer),
            Error::InvalidParams(source) => Self::Invalid(chain(source.as_ref())),
            other => Self::Shape(first_line(&other.to_string())),
        }
    }
}

/// An error with its causes on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overload_is_retryable_and_a_wrong_statement_is_not() {
        let parts = StoreError::from_answer(
            "Code: 252. DB::Exception: Too many parts (3001). (TOO_MANY_PARTS)",
        );
        let memory = StoreError::from_answer("Code: 241. DB::Exception: Memory limit exceeded");
        let column =
            StoreError::from_answer("Code: 47. DB::Exception: Unknown expression identifier `x`");
        let syntax = StoreError::from_answer("Code: 62. DB::Exception: Syntax error");
        let gateway = StoreError::from_answer("503 Service Unavailable");
        let page = StoreError::from_answer("<html><h1>502 Bad Gateway</h1></html>");
        assert!(page.is_retryable(), "not an answer of ClickHouse");
        assert!(parts.is_retryable() && memory.is_retryable() && gateway.is_retryable());
        assert!(!column.is_retryable() && !syntax.is_retryable());
        assert!(matches!(column, StoreError::Refused { code: 47, .. }));
    }

    #[test]
    fn a_query_over_its_bounds_is_not_tried_again() {
        let error = StoreError::from_answer("Code: 159. DB::Exception: Timeout exceeded");
        assert!(
            matches!(error, StoreError::TooExpensive { code: 159, .. }) && !error.is_retryable()
        );
    }

    #[test]
    fn only_the_first_line_of_an_answer_is_kept() {
        let error = StoreError::from_answer("Code: 27. DB::Exception: bad\nrow: secret content");
        assert!(!error.to_string().contains("secret"));
    }
}
