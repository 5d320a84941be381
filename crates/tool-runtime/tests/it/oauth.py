"""A real OAuth server with a resource that it protects. It prints its port first.

`POST /token` gives tokens to clients; `POST /echo` says back its body to whoever has one with the scope `tools`;
`POST /forget` makes all tokens that were given invalid; `GET /count` says how many were given.
"""

import socket
import time

from authlib.integrations.flask_oauth2 import AuthorizationServer, ResourceProtector
from authlib.oauth2.rfc6749 import ClientMixin, TokenMixin, grants
from authlib.oauth2.rfc6750 import BearerTokenValidator
from flask import Flask, request
from werkzeug.serving import make_server

TOKENS, GIVEN = {}, []


class Client(ClientMixin):
    def get_client_id(self):
        return "clerk"

    def get_allowed_scope(self, scope):
        return " ".join(word for word in (scope or "").split() if word in ("tools", "other"))

    def check_client_secret(self, secret):
        return secret == "swordfish-1904"

    def check_endpoint_auth_method(self, method, endpoint):
        return method in ("client_secret_basic", "client_secret_post")

    def check_grant_type(self, grant_type):
        return grant_type == "client_credentials"


class Token(TokenMixin):
    def __init__(self, token):
        self.token, self.until = token, time.time() + token["expires_in"]

    def get_scope(self):
        return self.token.get("scope", "")

    def get_expires_in(self):
        return self.token["expires_in"]

    def is_expired(self):
        return time.time() > self.until

    def is_revoked(self):
        return False


class Validator(BearerTokenValidator):
    def authenticate_token(self, text):
        return TOKENS.get(text)


class ClientCredentials(grants.ClientCredentialsGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = ["client_secret_basic", "client_secret_post"]


def save(token, _request):
    TOKENS[token["access_token"]] = Token(token)
    GIVEN.append(token["access_token"])


app = Flask(__name__)
server = AuthorizationServer(app, query_client=lambda name: Client() if name == "clerk" else None, save_token=save)
server.register_grant(ClientCredentials)
require = ResourceProtector()
require.register_token_validator(Validator())


@app.post("/token")
def token():
    return server.create_token_response()


@app.post("/echo")
@require("tools")
def echo():
    return request.get_data(), 200, {"content-type": "application/json"}


@app.post("/forget")
def forget():
    TOKENS.clear()
    return ""


@app.get("/count")
def count():
    return str(len(GIVEN))


listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen()
http = make_server("127.0.0.1", 0, app, threaded=True, fd=listener.fileno())
print(listener.getsockname()[1], flush=True)
http.serve_forever()
