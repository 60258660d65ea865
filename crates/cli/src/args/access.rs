//! Who may use a server, and how it proves that it is the right one: tokens and certificates.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use divvy_types::Scopes;

use crate::values::{Moment, Names};

pub(crate) const TOKEN_EXAMPLES: &str = "\
Examples:
  divvy token create ci --scope submit,read --expires 30d
  divvy token create encoder-1 --scope work
  divvy token list
  divvy token revoke ci
  divvy token create ops --scope admin --data divvy-data    without a server

Scopes: read sees everything; submit adds work and uploads; work is for workers;
admin may do everything.";
pub(crate) const CERT_EXAMPLES: &str = "\
Examples:
  divvy cert new --name divvy.example,10.0.0.5
  divvy cert new /etc/divvy/tls --name divvy.example    again: renews it
  divvy up --tls-cert divvy-tls/server.pem --tls-key divvy-tls/server-key.pem \\
    --ca divvy-tls/authority.pem";

/// Verbs of tokens.
#[derive(Debug, Subcommand)]
pub(crate) enum Token {
    /// Make a token and print its secret, once
    #[command(after_help = TOKEN_EXAMPLES)]
    Create(CreateToken),
    /// List tokens; secrets are not kept
    #[command(visible_alias = "ls", after_help = TOKEN_EXAMPLES)]
    List(Offline),
    /// Make a token worthless at once
    #[command(visible_alias = "rm", after_help = TOKEN_EXAMPLES)]
    Revoke {
        /// Its name
        name: String,
        #[command(flatten)]
        offline: Offline,
    },
}

/// A token.
#[derive(Args, Debug)]
pub(crate) struct CreateToken {
    /// What people call it
    pub(crate) name: String,
    /// What it allows: read, submit, work, admin
    #[arg(long, value_name = "a,b")]
    pub(crate) scope: Scopes,
    /// When it ends: a span from now, such as 30d, or a time [default: never]
    #[arg(long, value_name = "SPAN|TIME")]
    pub(crate) expires: Option<Moment>,
    #[command(flatten)]
    pub(crate) offline: Offline,
}

/// Where tokens are, if no server is asked.
#[derive(Args, Debug)]
pub(crate) struct Offline {
    /// Ask no server: change this data folder, whose server is stopped
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
}

/// Verbs of certificates.
#[derive(Debug, Subcommand)]
pub(crate) enum Cert {
    /// Make a private authority and a certificate of the server, or renew it
    #[command(after_help = CERT_EXAMPLES)]
    New(NewCert),
}

/// A certificate.
#[derive(Args, Debug)]
pub(crate) struct NewCert {
    /// The folder for the files
    #[arg(default_value = "divvy-tls")]
    pub(crate) folder: PathBuf,
    /// Names and addresses of the server besides those of loopback; may be said again
    #[arg(long, value_name = "a,b")]
    pub(crate) name: Vec<Names>,
    /// How many days the certificate of the server is good
    #[arg(long, value_name = "DAYS", default_value_t = 397, value_parser = clap::value_parser!(u32).range(1..=3_650))]
    pub(crate) days: u32,
}
