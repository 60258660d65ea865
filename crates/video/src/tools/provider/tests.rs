//! Providers as small shell scripts, in the real sandbox: what they may do, and every way in which they fail.

use std::os::unix::fs::PermissionsExt as _;

use super::*;
use crate::tasks::fixtures::options;
use crate::tools::ToolOptions;

const ABOUT: &str = r#"echo '{"provider":"p","version":"1","model":"m"}'"#;
const DONE: &str = r#"echo '{"done":true}'"#;

async fn tools() -> Tools {
    Tools::find(&options()).await.unwrap()
}

/// A provider that answers a request for work by running `body`, and its folder.
async fn provider(tools: &Tools, body: &str) -> (tempfile::TempDir, Provider) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("provider.sh");
    let text = format!(
        "#!/bin/sh\nread request\ncase $request in *describe*) {ABOUT};{DONE};exit;; esac\n{body}\n"
    );
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let choice: Choice = format!("exec:{}", path.display()).parse().unwrap();
    (folder, Provider::open(tools, &choice).await.unwrap().unwrap())
}

async fn hear(tools: &Tools, provider: &Provider) -> Result<Found<Segment>, ProviderError> {
    let work = tempfile::tempdir().unwrap();
    hear_in(tools, provider, work.path(), |_, _| ()).await
}

async fn hear_in(
    tools: &Tools,
    provider: &Provider,
    work: &Path,
    progress: impl FnMut(u64, u64) + Send,
) -> Result<Found<Segment>, ProviderError> {
    let sound = work.join("sound.wav");
    std::fs::write(&sound, "RIFF").unwrap();
    let sound = (sound.as_path(), Duration::from_secs(1));
    provider.transcribe(tools, work, sound, "en", &Cancel::never(), progress).await
}

#[test]
fn a_choice_is_written_as_it_is_read() {
    for text in ["none", "whisper", "exec:/opt/ear --model m"] {
        assert_eq!(String::from(text.parse::<Choice>().unwrap()), text);
    }
    for bad in ["", "exec:", "exec: "] {
        assert!(bad.parse::<Choice>().unwrap_err().contains("is no provider"), "{bad}");
    }
}

#[tokio::test]
async fn a_program_of_ones_own_is_asked_and_believed() {
    let tools = tools().await;
    let body = format!(
        r#"{ABOUT}; printf '{{"start_ms":0,"end_ms":900,"text":"%s"}}\n' "$(echo "$request" | tr -d '"' | cut -d, -f3)"; {DONE}"#
    );
    let (_folder, provider) = provider(&tools, &body).await;
    assert_eq!(provider.about().identity(), "p-m-1");
    let heard = hear(&tools, &provider).await.unwrap();
    assert_eq!(heard.items.len(), 1);
    assert_eq!(heard.items[0].text, "language:en}");
}

#[tokio::test]
async fn every_way_to_fail_is_told_with_the_programs_words() {
    let tools = tools().await;
    for (body, reason) in [
        ("echo 'out of memory' >&2; exit 3".to_owned(), "out of memory"),
        (format!("{ABOUT}; echo 'lost the thread' >&2"), "before it was done; it says: lost"),
        (format!("echo hello; {DONE}"), "no answer: hello"),
        (DONE.to_owned(), "does not say who it is"),
        (format!("{ABOUT}; {DONE}; kill -9 $$"), "signal"),
        (format!(r#"{ABOUT}; echo '{{"at_ms":0,"label":"x","score":1}}'; {DONE}"#), "no answer to"),
        (format!(r#"{ABOUT}; printf '\377\n'; {DONE}"#), "UTF-8"),
        (format!("{ABOUT}; yes 'and on'"), "was stopped: it printed more than 33554432 bytes"),
        (
            format!(r#"echo '{{"provider":"p","version":"2","model":"m"}}'; {DONE}"#),
            "it calls itself p m 2, but was p m 1 when the worker started; start the worker again",
        ),
    ] {
        let (_folder, provider) = provider(&tools, &body).await;
        let error = hear(&tools, &provider).await.unwrap_err().to_string();
        assert!(error.contains(reason), "{body}: {error}");
    }
}

#[tokio::test]
async fn one_that_hangs_is_stopped() {
    let tools = tools().await;
    for body in ["exec sleep 86000".to_owned(), format!("{ABOUT}; exec sleep 86000")] {
        let (_folder, mut provider) = provider(&tools, &body).await;
        provider.command.stall = Duration::from_millis(400);
        let error = hear(&tools, &provider).await.unwrap_err().to_string();
        assert!(error.contains("was stopped: it made no progress for "), "{body}: {error}");
    }
}

#[tokio::test]
async fn one_that_is_gone_or_has_lost_its_interpreter_is_named() {
    let tools = tools().await;
    let (folder, provider) = provider(&tools, DONE).await;
    let path = folder.path().join("provider.sh");
    std::fs::remove_file(&path).unwrap();
    let error = hear(&tools, &provider).await.unwrap_err().to_string();
    assert!(error.starts_with("cannot start provider.sh: "), "{error}");
    std::fs::write(&path, "#!/no/such/python3\n").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let error = hear(&tools, &provider).await.unwrap_err().to_string();
    assert!(error.starts_with("cannot start provider.sh: "), "{error}");
}

#[tokio::test]
async fn how_far_it_is_arrives_while_it_runs() {
    let tools = tools().await;
    // It ends only when what it said was heard.
    let body = format!(
        r#"{ABOUT}; echo '{{"heard_ms":400}}'; while [ ! -e go ]; do sleep 0.02; done; {DONE}"#
    );
    let (_folder, mut provider) = provider(&tools, &body).await;
    provider.command.stall = Duration::from_secs(20);
    let work = tempfile::tempdir().unwrap();
    let mut told = Vec::new();
    let heard = hear_in(&tools, &provider, work.path(), |done, total| {
        told.push((done, total));
        std::fs::write(work.path().join("go"), "").unwrap();
    });
    heard.await.unwrap();
    assert_eq!(told, [(400, 1_000)]);
}

#[tokio::test]
async fn a_provider_that_is_not_there_is_named_with_the_cure() {
    let tools = tools().await;
    let open = async |text: &str| {
        let choice: Choice = text.parse().unwrap();
        Provider::open(&tools, &choice).await.map(|provider| provider.is_some())
    };
    assert_eq!(open("none").await, Ok(false));
    for (text, reason) in [
        ("vosk", "give `none`, `whisper`, `open_nsfw`, or exec:PROGRAM"),
        ("exec:no-such-program-here", "no program `no-such-program-here`"),
        ("exec:/no/such/program", "no program `/no/such/program`"),
        ("exec:cat", "it said what is no answer"),
    ] {
        let error = open(text).await.unwrap_err().to_string();
        assert!(error.contains(reason), "{text}: {error}");
    }
    let place = tempfile::tempdir().unwrap();
    let error = Provider::in_folder(&tools, "whisper", place.path()).await.unwrap_err();
    assert!(error.to_string().ends_with("divvy video provider install whisper"), "{error}");
}

#[tokio::test]
async fn what_tools_offer_names_provider_and_model() {
    let script = format!("{ABOUT}; {DONE}");
    let exec = Choice::Exec(["sh", "-c", &script].map(str::to_owned).to_vec());
    let with_speech = ToolOptions { speech: exec, ..options() };
    let tools = Tools::find(&with_speech).await.unwrap();
    assert!(tools.capabilities().contains(&"speech=p-m-1".to_owned()));
    assert!(tools.speech().unwrap().is_some() && tools.scanner().unwrap().is_none());
    assert!(tools.problems().is_empty());
}

#[tokio::test]
async fn tools_with_a_provider_that_does_not_work_say_so_and_do_the_rest() {
    let scanner = Choice::Exec(vec!["false".into()]);
    let tools = Tools::find(&ToolOptions { scanner, ..options() }).await.unwrap();
    assert!(tools.capabilities().contains(&"scan=unusable".to_owned()));
    let problem = tools.scanner().unwrap_err();
    assert!(problem.starts_with("the provider `exec:false` does not work: "), "{problem}");
    assert_eq!(tools.problems(), [problem]);
    assert!(tools.speech().unwrap().is_none());
}
