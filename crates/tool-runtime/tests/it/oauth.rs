//! A real OAuth server: tokens are fetched once, kept, and fetched again when they are no longer valid.

use std::sync::Arc;

use provost_core::contract::{RequestTool, ToolRequest, ToolStatus};
use provost_core::resource::{AuthProfile, ToolAuth, ToolResource, ToolType};
use provost_core::{Env, Secret};
use provost_net::{NetClient, NetPolicy, NetRequest, Url};
use provost_redact::Redactor;
use provost_secret::{InMemorySecretStore, Keyring, SecretService, StoreResolver, Vault};
use provost_tool::{DeclaredTool, EnvelopeExecutor, Guard, RuntimeRegistry, RuntimeServices, Tool};
use provost_tool_runtime::{AuthInjector, HttpRuntime};
use tokio_util::sync::CancellationToken;

use crate::support::{MAX_WAIT, http_client, python_server};

async fn secrets() -> SecretService {
    let (store, keys) = (Arc::new(InMemorySecretStore::default()), Keyring::generate().unwrap());
    let vault = Vault::new(store.clone(), keys.clone());
    for (reference, value) in [
        ("shop:client_id", "clerk"),
        ("shop:client_secret", "swordfish-1904"),
        ("wrong:client_id", "clerk"),
        ("wrong:client_secret", "guess"),
    ] {
        vault.set("team", &reference.parse().unwrap(), &Secret::from(value)).await.unwrap();
    }
    SecretService::new(Arc::new(StoreResolver::new(store, keys)), Redactor::new())
}

fn tool(base: &str, name: &str, secret: &str, scope: &str) -> ToolResource {
    let mut tool = ToolResource::new(name, ToolType::Http, format!("{base}/echo"));
    tool.auth = Some(ToolAuth {
        profile: AuthProfile::Oauth2ClientCredentials,
        secret_ref: secret.to_owned(),
        token_url: format!("{base}/token"),
        scopes: vec![scope.to_owned()],
        ..ToolAuth::default()
    });
    tool
}

#[tokio::test]
async fn tokens_of_a_real_server() {
    let Some((_server, _said, base)) = python_server("oauth.py").await else { return };

    let mut runtimes = RuntimeRegistry::default();
    runtimes.add(Arc::new(HttpRuntime::new(http_client()))).unwrap();
    let client = NetClient::new(NetPolicy::open());
    let injector = AuthInjector::new(secrets().await, client.clone(), Env::system());
    let host = RuntimeServices {
        runtimes: Arc::new(runtimes),
        credentials: Arc::new(injector),
        env: Env::system(),
    };
    let tools = [
        tool(&base, "good", "shop", "tools"),
        tool(&base, "other", "shop", "other"),
        tool(&base, "wrong", "wrong", "tools"),
    ];
    let tools = tools.map(|tool| {
        Arc::new(DeclaredTool::new(tool, "team", host.clone()).unwrap()) as Arc<dyn Tool>
    });
    let executor = EnvelopeExecutor::new(Guard::default(), tools, Env::system());
    let said = async |name: &str| {
        let request = ToolRequest {
            request_id: format!("r-{name}"),
            namespace: "team".to_owned(),
            tool: RequestTool { name: name.to_owned(), ..RequestTool::default() },
            input_raw: "{\"text\":\"hi\"}".to_owned(),
            ..ToolRequest::default()
        };
        let response = executor.execute(request, CancellationToken::new()).await;
        assert!(!format!("{response:?}").contains("swordfish"));
        response
    };
    let asked =
        async |request: NetRequest| client.send(request).await.unwrap().bytes(1024).await.unwrap();
    let url = |path: &str| Url::parse(&format!("{base}{path}")).unwrap();
    let deadline = || std::time::Instant::now() + MAX_WAIT;
    let given = async || {
        let body = asked(NetRequest::get(url("/count"), deadline())).await;
        String::from_utf8(body.to_vec()).unwrap()
    };
    for _ in 0..3 {
        let response = said("good").await;
        assert_eq!(response.status, ToolStatus::Ok, "{response:?}");
        assert!(response.output.result.contains("hi"));
    }
    assert_eq!(given().await, "1", "one token serves all calls");
    asked(NetRequest::post(url("/forget"), "", deadline())).await;
    assert_eq!(
        said("good").await.status,
        ToolStatus::Ok,
        "a token that is refused is fetched again"
    );
    assert_eq!(given().await, "2");
    let response = said("other").await;
    assert_eq!(response.error.unwrap().code, "auth_forbidden", "its scope does not reach");
    assert_eq!(given().await, "3", "another scope is another token");
    let response = said("wrong").await;
    assert_eq!(response.status, ToolStatus::Error);
    assert_eq!(given().await, "3");
}
