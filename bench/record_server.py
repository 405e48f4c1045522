"""What a real OpenAI-compatible server answers: recorded once, judged by a test ever after.

    python bench/record_server.py --model model.gguf      # llama.cpp's server, from xllamacpp
    python bench/record_server.py --url http://127.0.0.1:8080/v1 --name vllm

Writes `tests/fixtures/server_NAME.json`: for each of a few requests (answered, cut off, too long,
refused formats, no such page) the status, the headers that mean something and the body, without
times and ids. `tests/test_recorded_servers.py` says what each must be taken for.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

FOLDER = Path(__file__).parents[1] / "tests" / "fixtures"
HEADERS = ("server", "content-type", "retry-after")
NOISE = ("id", "created", "timings")  # of a body: differs each time
CONTEXT = 4096
PLAIN = {"messages": [{"role": "user", "content": "Name a colour."}], "max_tokens": 8}
LONG = [{"role": "user", "content": "word " * (2 * CONTEXT)}]
REQUESTS: dict[str, dict[str, Any]] = {
    "answered": {
        "messages": [{"role": "user", "content": "Say yes."}],
        "max_tokens": 64,
        "stop": [",", "."],
    },
    "cut off": {},
    "limit by its newer name": {"max_completion_tokens": 3},
    "JSON": {"response_format": {"type": "json_object"}},
    "too long": {"messages": LONG},
    "no such format": {"response_format": {"type": "xml"}},
    "no such limit": {"max_tokens": -5},
    "no number": {"temperature": "hot"},
}


@contextmanager
def served(model: Path) -> Iterator[str]:
    """Serve a GGUF file in this process, by llama.cpp's own server."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(model)
    parameters.n_ctx, parameters.n_parallel = CONTEXT, 1
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
    parameters.hostnames, parameters.port = ["127.0.0.1"], 0
    parameters.verbosity = -1
    server = xllamacpp.Server(parameters)
    yield f"{server.listening_address}/v1"


def recorded(client: httpx.Client, name: str, changes: dict[str, Any]) -> dict[str, Any]:
    """Send one request; give what came, less what differs each time."""
    body = {"model": "any", "temperature": 0, "seed": 1, "stream": False, **PLAIN, **changes}
    answer = client.post("chat/completions", json=body)
    found = answer.json()
    for key in NOISE:
        found.pop(key, None)
    if isinstance(found.get("model"), str):
        found["model"] = Path(found["model"]).name
    headers = {key: answer.headers[key] for key in HEADERS if key in answer.headers}
    limit = body.get("max_completion_tokens", body["max_tokens"])
    return {
        "name": name,
        "max_tokens": limit,
        "status": answer.status_code,
        "headers": headers,
        "body": found,
    }


def main() -> None:
    """Record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", type=Path, help="a GGUF file, served in this process")
    parser.add_argument("--url", help="a server that runs")
    parser.add_argument("--name", default="llama_cpp", help="of the server")
    options = parser.parse_args()
    if (options.model is None) == (options.url is None):
        parser.error("one of --model and --url")
    if options.model is None:
        write(options.url, options.name, "")
        return
    from importlib.metadata import version

    with served(options.model) as url:
        write(url, options.name, f"xllamacpp {version('xllamacpp')}, {options.model.name}")


def write(url: str, name: str, what: str) -> None:
    """Record all requests of a server to its file."""
    with httpx.Client(base_url=url.rstrip("/") + "/", timeout=300) as client:
        exchanges = [recorded(client, *one) for one in REQUESTS.items()]
    content = {"made_by": "python bench/record_server.py", "server": what, "exchanges": exchanges}
    text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    (FOLDER / f"server_{name}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
