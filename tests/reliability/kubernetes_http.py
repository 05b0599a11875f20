"""The HTTP of the stand-in for Kubernetes: verbs as RBAC names them, lists, and watches without WebSocket."""

from __future__ import annotations

import contextlib
import json
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from tests.reliability.kubernetes_api import Kubernetes

Object = dict[str, Any]


class Handler(BaseHTTPRequestHandler):
    """Answers for `kubernetes`, which the class is given."""

    kubernetes: Kubernetes
    protocol_version = "HTTP/1.1"

    def _handle(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        url = urlsplit(self.path)
        query = {k: v[0] for k, v in parse_qs(url.query).items()}
        # /api/v1/namespaces/NAMESPACE/RESOURCE[/NAME]
        _, _, _, _, namespace, resource, *name = url.path.split("/")
        verb = _verb(self.command, bool(name), "watch" in query)
        here = self.kubernetes
        if namespace != here.namespace or not here.allows(verb, resource):
            self._answer(403, {"kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden"})
            return
        found = [here.pods[n] for n in name if n in here.pods] if name else here.select(query.get("labelSelector", ""))
        match verb:
            case "create":
                self._answer(201, here.create(json.loads(body)))
            case "watch":
                self._watch()
            case "list":
                self._answer(200, {"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": found})
            case _ if name and not found:
                self._answer(404, {"kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound"})
            case "get":
                self._answer(200, found[0])
            case _:
                for pod in found:
                    here.delete(pod["metadata"]["name"])
                self._answer(200, {"kind": "Status", "status": "Success"})

    do_GET = do_POST = do_DELETE = do_PATCH = _handle  # noqa: N815 - the base class names them so

    def _answer(self, code: int, document: Object) -> None:
        text = json.dumps(document).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def _watch(self) -> None:
        if self.headers.get("Upgrade"):
            # No WebSocket here: the client then asks for plain HTTP.
            self._answer(503, {"kind": "Status", "status": "Failure", "code": 503})
            return
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        with contextlib.suppress(OSError):
            for event in self.kubernetes.watch():
                line = json.dumps(event).encode() + b"\n"
                self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
                self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """Nothing."""


def _verb(method: str, named: bool, watch: bool) -> str:
    match method:
        case "GET":
            return "watch" if watch else "get" if named else "list"
        case "DELETE":
            return "delete" if named else "deletecollection"
        case _:
            return {"POST": "create", "PATCH": "patch", "PUT": "update"}[method]
