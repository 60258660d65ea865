//! What can go wrong between a caller and a server, by what the caller can do about it.

use std::error::Error as StdError;
use std::path::PathBuf;
use std::time::Duration;

use divvy_types::SpecError;

use crate::MARK;

/// Why a request to the server failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Not an address of a server.
    #[error(
        "`{url}` is not the address of a server: {problem}; expected something like http://127.0.0.1:7171"
    )]
    Address {
        /// What was given.
        url: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A token that cannot be sent.
    #[error("the token has characters that a header cannot carry; use printable ASCII")]
    Token,
    /// The file of authorities to trust is of no use.
    #[error(
        "cannot trust the authority in {}: {problem}; give a PEM file with certificates (--ca FILE or DIVVY_CA)",
        path.display()
    )]
    Authority {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// What answers at the address cannot prove that it is the server.
    #[error(
        "the certificate of {server} is not trusted ({problem}); name the file of its authority with --ca FILE or DIVVY_CA, or let this machine trust it"
    )]
    Untrusted {
        /// Where.
        server: String,
        /// What is wrong with the certificate.
        problem: String,
    },
    /// The address begins with the wrong scheme.
    #[error("the server at {server} {}; write {right}:// instead", speaks(right))]
    Scheme {
        /// Where.
        server: String,
        /// What the address must begin with: `https`, or `http`.
        right: &'static str,
    },
    /// No server answers there.
    #[error(
        "no divvy server answers at {server} ({problem}); start one with `divvy up`, or say where it is in DIVVY_SERVER"
    )]
    Unreachable {
        /// Where.
        server: String,
        /// What the network says.
        problem: String,
    },
    /// The server wants a token, or another one.
    #[error(
        "the server at {server} does not accept the token; set DIVVY_TOKEN to the one that it was started with"
    )]
    Unauthorized {
        /// Where.
        server: String,
        /// What the server said.
        message: String,
    },
    /// The server understood and said no.
    #[error("{message}")]
    Refused {
        /// A stable name, such as `id_taken` or `not_found`.
        code: String,
        /// Why, in words.
        message: String,
        /// The field that is wrong, where the server named one.
        field: Option<String>,
        /// The status of HTTP; none if the answer came by gRPC.
        status: Option<u16>,
        /// When to try again, if that can help.
        retry_after: Option<Duration>,
    },
    /// A spec is not acceptable; nothing was sent.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A task that is no JSON.
    #[error("a task of kind `{kind}` cannot be sent: {problem}")]
    Encode {
        /// Its kind.
        kind: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// A workflow that cannot be started; nothing was sent.
    #[error("workflow `{name}`: {problem}")]
    Workflow {
        /// Its name.
        name: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The server's answer makes no sense to this version.
    #[error(
        "the server answered what this version does not understand: {problem}; use matching versions"
    )]
    Protocol {
        /// What does not fit.
        problem: String,
    },
}

impl Error {
    /// A stable name for programs.
    pub fn code(&self) -> &str {
        match self {
            Self::Address { .. } => "bad_address",
            Self::Token => "bad_token",
            Self::Authority { .. } => "bad_authority",
            Self::Untrusted { .. } => "untrusted",
            Self::Scheme { .. } => "wrong_scheme",
            Self::Unreachable { .. } => "unreachable",
            Self::Unauthorized { .. } => "unauthorized",
            Self::Refused { code, .. } => code,
            Self::Spec(error) => error.code(),
            Self::Encode { .. } => "not_json",
            Self::Workflow { .. } => "bad_workflow",
            Self::Protocol { .. } => "protocol",
        }
    }

    /// Whether the same request may work a little later.
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Refused { retry_after: Some(_), .. })
    }

    /// The server's answer makes no sense.
    pub fn protocol(problem: impl ToString) -> Self {
        Self::Protocol { problem: problem.to_string() }
    }

    /// What a failed call of gRPC to `server` means. Without the mark it is not the server that speaks.
    pub fn of_status(server: &str, status: &tonic::Status) -> Self {
        let own = status.source().and_then(|source| source.downcast_ref::<Self>());
        if let Some(own) = own {
            return own.clone();
        }
        let server = server.to_owned();
        let message = status.message().to_owned();
        let metadata = status.metadata();
        let Some(code) = metadata.get(MARK).and_then(|code| code.to_str().ok()) else {
            let problem = if status.source().is_some() { cause(status) } else { message };
            return Self::Unreachable { server, problem };
        };
        if status.code() == tonic::Code::Unauthenticated {
            return Self::Unauthorized { server, message };
        }
        let wait = metadata.get("retry-after-ms").and_then(|ms| ms.to_str().ok()?.parse().ok());
        let temporary = status.code() == tonic::Code::Unavailable;
        let wait = wait.or_else(|| temporary.then_some(1_000));
        Self::Refused {
            code: code.to_owned(),
            message,
            field: None,
            status: None,
            retry_after: wait.map(Duration::from_millis),
        }
    }
}

fn speaks(scheme: &str) -> &'static str {
    if scheme == "https" { "speaks TLS" } else { "does not speak TLS" }
}

/// What is at the bottom of an error: the outer ones of network libraries say little.
pub fn cause(error: &dyn StdError) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

/// The error of TLS that made a connection fail, if it was one.
pub(crate) fn distrust<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a rustls::Error> {
    let mut next: Option<&'a (dyn StdError + 'static)> = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<rustls::Error>() {
            return Some(found);
        }
        // An error of input and output holds its cause without naming it as its source.
        let held = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        next = match held {
            Some(held) => Some(held),
            None => error.source(),
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::metadata::{MetadataMap, MetadataValue};
    use tonic::{Code, Status};

    #[test]
    fn only_a_marked_status_is_a_refusal() {
        for code in [Code::Unauthenticated, Code::PermissionDenied, Code::Unimplemented] {
            let foreign = Error::of_status("http://a", &Status::new(code, "go away"));
            assert_eq!(foreign.code(), "unreachable");
            assert!(foreign.is_temporary() && foreign.to_string().contains("go away"));
        }
        let marked = |code, mark: &'static str| {
            let mut metadata = MetadataMap::new();
            metadata.insert(MARK, MetadataValue::from_static(mark));
            Error::of_status("http://a", &Status::with_metadata(code, "no", metadata))
        };
        assert_eq!(marked(Code::Unauthenticated, "unauthorized").code(), "unauthorized");
        let refused = marked(Code::PermissionDenied, "host_not_allowed");
        assert_eq!((refused.code(), refused.is_temporary()), ("host_not_allowed", false));
        assert!(marked(Code::Unavailable, "stopping").is_temporary());
    }

    #[test]
    fn an_error_of_ours_survives_the_way_through_grpc() {
        let error =
            Error::Untrusted { server: "https://a".into(), problem: "UnknownIssuer".into() };
        let status = Status::from_error(Box::new(error));
        assert_eq!(Error::of_status("https://a", &status).code(), "untrusted");
    }
}
