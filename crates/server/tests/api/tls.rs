//! A server that speaks TLS itself: HTTP and gRPC on one port, to those who can make sure that it is the right one.

use divvy_client::{Api, Channel, Target};
use divvy_proto::v1::SubmitRequest;
use divvy_proto::v1::submit_client::SubmitClient;
use divvy_server::TlsFiles;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

use crate::world::World;

/// A server with a certificate for loopback, and a folder with `authority.pem`.
async fn world() -> (World, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    std::fs::write(folder.path().join("authority.pem"), params.self_signed(&key).unwrap().pem())
        .unwrap();
    let issuer = Issuer::new(params, key);
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let files = TlsFiles {
        certificate: folder.path().join("server.pem"),
        key: folder.path().join("server-key.pem"),
    };
    std::fs::write(&files.certificate, params.signed_by(&key, &issuer).unwrap().pem()).unwrap();
    std::fs::write(&files.key, key.serialize_pem()).unwrap();
    let change = |options: &mut divvy_server::Options| {
        options.tls = Some(files);
        options.token = Some("secret-1".into());
    };
    (World::with(change, Default::default()).await, folder)
}

#[tokio::test]
async fn http_and_grpc_are_spoken_within_tls_on_one_port() {
    let (world, folder) = world().await;
    let target = Target::new(format!("https://{}", world.address)).token("secret-1");
    let trusting = target.clone().ca(folder.path().join("authority.pem"));
    let api = Api::new(trusting.clone()).unwrap();
    api.get(&["tasks"], &[]).await.unwrap();
    let channel = Channel::to(trusting).unwrap();
    let mut client = SubmitClient::with_origin(channel.clone(), channel.origin());
    client.submit(SubmitRequest::default()).await.unwrap();

    let stranger = Api::new(target.clone()).unwrap().get(&["tasks"], &[]).await.unwrap_err();
    assert_eq!(stranger.code(), "untrusted", "{stranger}");
    let channel = Channel::to(target).unwrap();
    let mut client = SubmitClient::with_origin(channel.clone(), channel.origin());
    let status = client.submit(SubmitRequest::default()).await.unwrap_err();
    assert_eq!(channel.error(&status).code(), "untrusted", "{status}");
    let plain = Api::new(world.url("").as_str()).unwrap().get(&["tasks"], &[]).await.unwrap_err();
    assert_eq!(plain.code(), "wrong_scheme", "{plain}");
    assert!(plain.to_string().ends_with("speaks TLS; write https:// instead"), "{plain}");
    let channel = Channel::to(Target::new(world.url(""))).unwrap();
    let mut client = SubmitClient::with_origin(channel.clone(), channel.origin());
    let status = client.submit(SubmitRequest::default()).await.unwrap_err();
    assert_eq!(channel.error(&status).code(), "wrong_scheme", "{status}");
}
