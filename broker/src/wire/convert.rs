//! Between the wire's types and the broker's.

use std::time::Duration;

use super::proto::{self, ErrorCode, request, response};
use crate::error::{Code, Error};
use crate::record::{NewRecord, Record};
use crate::settings::TopicSettings;
use crate::units::{Offset, Timestamp};

impl From<Code> for ErrorCode {
    fn from(code: Code) -> Self {
        match code {
            Code::InvalidRequest => ErrorCode::InvalidRequest,
            Code::FrameTooLarge => ErrorCode::FrameTooLarge,
            Code::InvalidTopic => ErrorCode::InvalidTopic,
            Code::UnknownTopic => ErrorCode::UnknownTopic,
            Code::TopicExists => ErrorCode::TopicExists,
            Code::UnknownPartition => ErrorCode::UnknownPartition,
            Code::OffsetOutOfRange => ErrorCode::OffsetOutOfRange,
            Code::RecordTooLarge => ErrorCode::RecordTooLarge,
            Code::Corrupt => ErrorCode::Corrupt,
            Code::StorageFull => ErrorCode::StorageFull,
            Code::StorageFailed => ErrorCode::StorageFailed,
            Code::Fenced => ErrorCode::Fenced,
            Code::OutcomeUnknown => ErrorCode::OutcomeUnknown,
            Code::TooManyConnections => ErrorCode::TooManyConnections,
            Code::ShuttingDown => ErrorCode::ShuttingDown,
            Code::Timeout => ErrorCode::Timeout,
            Code::Unavailable => ErrorCode::Unavailable,
        }
    }
}

impl ErrorCode {
    /// The broker's own code of this number; `None` for one that a later server may send.
    pub fn known(self) -> Option<Code> {
        Some(match self {
            ErrorCode::Unspecified => return None,
            ErrorCode::InvalidRequest => Code::InvalidRequest,
            ErrorCode::FrameTooLarge => Code::FrameTooLarge,
            ErrorCode::InvalidTopic => Code::InvalidTopic,
            ErrorCode::UnknownTopic => Code::UnknownTopic,
            ErrorCode::TopicExists => Code::TopicExists,
            ErrorCode::UnknownPartition => Code::UnknownPartition,
            ErrorCode::OffsetOutOfRange => Code::OffsetOutOfRange,
            ErrorCode::RecordTooLarge => Code::RecordTooLarge,
            ErrorCode::Corrupt => Code::Corrupt,
            ErrorCode::StorageFull => Code::StorageFull,
            ErrorCode::StorageFailed => Code::StorageFailed,
            ErrorCode::Fenced => Code::Fenced,
            ErrorCode::OutcomeUnknown => Code::OutcomeUnknown,
            ErrorCode::TooManyConnections => Code::TooManyConnections,
            ErrorCode::ShuttingDown => Code::ShuttingDown,
            ErrorCode::Timeout => Code::Timeout,
            ErrorCode::Unavailable => Code::Unavailable,
        })
    }
}

impl proto::ErrorResponse {
    /// An error with this code and sentence.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code: ErrorCode::from(code).into(), message: message.into() }
    }
}

impl From<&Error> for proto::ErrorResponse {
    fn from(error: &Error) -> Self {
        Self::new(error.code(), error.to_string())
    }
}

impl From<proto::ErrorResponse> for proto::Response {
    fn from(error: proto::ErrorResponse) -> Self {
        response::Kind::Error(error).into()
    }
}

impl From<response::Kind> for proto::Response {
    fn from(kind: response::Kind) -> Self {
        Self { kind: Some(kind) }
    }
}

impl From<request::Kind> for proto::Request {
    fn from(kind: request::Kind) -> Self {
        Self { kind: Some(kind) }
    }
}

impl From<&NewRecord> for proto::NewRecord {
    fn from(record: &NewRecord) -> Self {
        Self { key: record.key.clone(), value: record.value.clone() }
    }
}

impl From<proto::Record> for Record {
    fn from(record: proto::Record) -> Self {
        Self {
            offset: Offset::new(record.offset),
            timestamp: Timestamp::from_millis(record.timestamp_ms),
            key: record.key,
            value: record.value,
        }
    }
}

impl From<proto::CreateTopicRequest> for TopicSettings {
    fn from(request: proto::CreateTopicRequest) -> Self {
        Self {
            partitions: request.partitions,
            retention_bytes: request.retention_bytes,
            retention_age: request.retention_ms.map(Duration::from_millis),
        }
    }
}

impl proto::CreateTopicRequest {
    /// Asks for a topic of this name with these settings.
    pub fn new(name: &str, settings: &TopicSettings) -> Self {
        Self {
            name: name.to_owned(),
            partitions: settings.partitions,
            retention_bytes: settings.retention_bytes,
            retention_ms: settings.retention_ms(),
        }
    }
}

impl proto::Topic {
    /// Describes the topic of this name with these settings.
    pub fn new(name: &str, settings: &TopicSettings) -> Self {
        Self {
            name: name.to_owned(),
            partitions: settings.partitions,
            retention_bytes: settings.retention_bytes,
            retention_ms: settings.retention_ms(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers are the protocol's: a code means the same in the log, on the wire, and in a client.
    #[test]
    fn codes_keep_their_numbers_on_the_wire() {
        for number in 0..=18 {
            let Ok(wire) = ErrorCode::try_from(number) else {
                assert_eq!(number, 18, "a number is missing");
                continue;
            };
            match wire.known() {
                Some(code) => {
                    assert_eq!(code as i32, number);
                    assert_eq!(ErrorCode::from(code), wire);
                }
                None => assert_eq!(number, 0),
            }
        }
    }
}
