//! What the probe says about each clip of the corpus.

mod corpus;

#[test]
fn every_clip_can_be_made() {
    let folder = tempfile::tempdir().unwrap();
    for name in corpus::names() {
        assert!(corpus::make(name, folder.path()).exists(), "{name}");
    }
}
