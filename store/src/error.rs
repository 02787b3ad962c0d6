//! What can go wrong with the store, and whether trying again can help.

use std::time::Duration;

/// Why the store could not do it. A variant exists where a caller acts differently.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The server cannot be reached, or the connection broke on the way.
    #[error("ClickHouse is away: {0}")]
    Unavailable(String),
    /// No answer in the time given.
    #[error("ClickHouse did not answer within {} ms", .0.as_millis())]
    TimedOut(Duration),
    /// The server is there but cannot take more now: memory, parts, connections, disk.
    #[error("ClickHouse is overloaded (code {code}): {message}")]
    Overloaded {
        /// ClickHouse's error code.
        code: u32,
        /// ClickHouse's message, first line.
        message: String,
    },
    /// A read went over one of its bounds (Q1): the question has to be narrower.
    #[error("the query went over its bounds (code {code}): {message}")]
    TooExpensive {
        /// ClickHouse's error code.
        code: u32,
        /// ClickHouse's message, first line.
        message: String,
    },
    /// The server refused the statement: the same one will be refused again.
    #[error("ClickHouse refused (code {code}): {message}")]
    Refused {
        /// ClickHouse's error code, 0 when it gave none.
        code: u32,
        /// ClickHouse's message, first line.
        message: String,
    },
    /// The rows would have been stored after the time in which their writer may write: see
    /// [`crate::Store::with_deadline`]. None of them is.
    #[error("the time in which this could be written is over")]
    Fenced,
    /// A row does not have the shape this program expects.
    #[error("a row does not fit: {0}")]
    Shape(String),
    /// The database was migrated by a newer program than this one.
    #[error(
        "the database is at migration {found}, this program knows only {known}: use the newer program"
    )]
    TooNew {
        /// Newest migration in the database.
        found: u32,
        /// Newest migration compiled in.
        known: u32,
    },
    /// A migration that was applied is not the one compiled in.
    #[error("migration {0} in the database differs from the one in this program")]
    MigrationChanged(u32),
    /// What the caller asked for cannot be done with these values.
    #[error("{0}")]
    Invalid(String),
    /// It cannot be done beside what is there; the message names what stands against it and the way out.
    #[error("{0}")]
    Conflict(String),
    /// So many reads of one credential wait already, which is the most there may be (X1).
    #[error("{0} reads of this credential wait already")]
    OverShare(usize),
    /// A file of the store could not be read or written.
    #[error("{path}: {source}")]
    File {
        /// Which file.
        path: String,
        /// What happened.
        source: std::io::Error,
    },
    /// The embedded engine cannot run.
    #[error("{0}")]
    Engine(String),
    /// A metric could not be registered.
    #[error("metrics: {0}")]
    Metrics(#[from] prometheus::Error),
}

/// Codes that say "not now": the same statement may succeed later.
/// 3 UNEXPECTED_END_OF_FILE and 33 CANNOT_READ_ALL_DATA are cut-off requests.
const TRANSIENT_CODES: &[u32] = &[
    3,    // UNEXPECTED_END_OF_FILE
    33,   // CANNOT_READ_ALL_DATA
    74,   // CANNOT_READ_FROM_FILE_DESCRIPTOR
    75,   // CANNOT_WRITE_TO_FILE_DESCRIPTOR
    76,   // CANNOT_OPEN_FILE
    95,   // CANNOT_READ_FROM_SOCKET
    96,   // CANNOT_WRITE_TO_SOCKET
    164,  // READONLY
    173,  // CANNOT_ALLOCATE_MEMORY
    198,  // DNS_ERROR
    201,  // QUOTA_EXCEEDED
    202,  // TOO_MANY_SIMULTANEOUS_QUERIES
    203,  // NO_FREE_CONNECTION
    209,  // SOCKET_TIMEOUT
    210,  // NETWORK_ERROR
    225,  // NO_ZOOKEEPER
    236,  // ABORTED
    241,  // MEMORY_LIMIT_EXCEEDED
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

/// Codes that say "this question costs more than it may".
/// 158 TOO_MANY_ROWS, 159 TIMEOUT_EXCEEDED, 160 TOO_SLOW, 307 TOO_MANY_BYTES, 396 TOO_MANY_ROWS_OR_BYTES.
const EXPENSIVE_CODES: &[u32] = &[158, 159, 160, 307, 396];

/// What the server says when it refuses a late insert, with this code: FUNCTION_THROW_IF_VALUE_IS_NON_ZERO.
pub(crate) const FENCED_MARK: &str = "spindle: this insert is too late";
const THROWN_CODE: u32 = 395;

impl StoreError {
    /// Whether the same call may succeed later without anyone's help.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::Unavailable(_) | Self::TimedOut(_) | Self::Overloaded { .. }
        )
    }

    /// Reads what ClickHouse answered: `Code: 241. DB::Exception: ...`.
    pub(crate) fn from_answer(answer: &str) -> Self {
        let code = answer
            .split_once("Code: ")
            .and_then(|(_, rest)| rest.split(|c: char| !c.is_ascii_digit()).next())
            .and_then(|digits| digits.parse().ok())
            .unwrap_or(0);
        let message = first_line(answer);
        if code == 0 {
            // Not an answer of ClickHouse: a proxy's page, or its bare status line.
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

/// The first line, bounded: an exception may quote the data it choked on, which has no place in a log (X2).
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
