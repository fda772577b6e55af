"""The application: what can be chosen, walks as records, pages for browsers without JavaScript."""

import json
import re
from html import unescape

import pytest
from starlette.testclient import TestClient

from tests.explorer.conftest import typed
from vlnbert.analysis.card import percent
from vlnbert.evaluation.metrics import shown
from vlnbert.explorer.app import FILES, VIEWER
from vlnbert.explorer.explorer import Explorer

EVIL = '<script>alert(1)</script><img src=x onerror="alert(2)">'


def test_the_catalogue_leads_to_a_walk(client: TestClient) -> None:
    found = client.get("/api/catalogue").json()
    assert [one["follows_words"] for one in found["agents"]] == [True]
    assert {"r2r/val_unseen", "reverie/val_unseen"} <= set(found["splits"])
    record = client.get("/api/walk", params={**found["first"], "agent": 0}).json()
    assert (record["format"], record["task"], record["id"]) == (1, "r2r", found["first"]["id"])
    plan = client.get("/api/plan", params={"scan": record["scan"]}).json()
    assert set(record["path"]) <= {one["id"] for one in plan["viewpoints"]}
    assert plan["rooms"]
    for step in record["steps"]:
        assert sum(choice["probability"] for choice in step["choices"]) == pytest.approx(1, abs=1e-4)
        assert len(step["attention"]) == len(record["instruction"]["words"])


def test_houses_and_their_instructions(client: TestClient) -> None:
    houses = client.get("/api/houses", params={"split": "r2r/train"}).json()
    scan, count = houses[0]["scan"], houses[0]["instructions"]
    pages = -(-count // 50)
    told = [
        client.get("/api/instructions", params={"split": "r2r/train", "scan": scan, "page": n}) for n in range(pages)
    ]
    assert sum(len(one.json()["instructions"]) for one in told) == count
    last = told[-1].json()["instructions"][-1]["id"]
    around = client.get("/api/instructions", params={"split": "r2r/train", "scan": scan, "around": last}).json()
    assert around["page"] == pages - 1


def test_an_object_is_looked_for(client: TestClient) -> None:
    scan = client.get("/api/houses", params={"split": "reverie/val_unseen"}).json()[0]["scan"]
    query = client.get("/api/instructions", params={"split": "reverie/val_unseen", "scan": scan}).json()
    first = query["instructions"][0]["id"]
    record = client.get("/api/walk", params={"split": "reverie/val_unseen", "id": first}).json()
    assert record["target_object"]
    assert any(thing["probability"] is not None for step in record["steps"] for thing in step["objects"])


def test_typed_words_are_walked_and_stay_text(client: TestClient, explorer: Explorer) -> None:
    answer = client.post("/api/walk", json=typed(explorer, EVIL))
    assert answer.headers["content-type"] == "application/json"
    record = answer.json()
    assert record["instruction"]["text"] == EVIL
    assert (record["split"], record["goal"], record["success"], record["scores"]) == (None, None, None, {})
    query = typed(explorer, EVIL)
    card = client.get(
        "/instruction", params={name: query[name] for name in ("task", "scan", "start", "heading", "text")}
    )
    assert card.status_code == 200
    assert EVIL in unescape(re.sub(r"<[^>]*>", "", card.text))
    assert "<script" not in card.text
    assert "<img" not in card.text


def test_walks_of_a_batch_are_those_of_one_alone(explorer: Explorer) -> None:
    from vlnbert.explorer.requests import EpisodeQuery

    index = explorer.catalogue.index("r2r/val_unseen")
    query = [EpisodeQuery(0, "r2r/val_unseen", name) for name in index.episodes.ids[:8]]
    together = [json.loads(one) for one in explorer.walk(query) if isinstance(one, bytes)]
    for one, record in zip(query, together, strict=True):
        (alone,) = explorer.walk([one])
        assert isinstance(alone, bytes)
        assert json.loads(alone)["path"] == record["path"]
        assert json.loads(alone)["scores"] == pytest.approx(record["scores"])


def test_without_javascript_cards_are_linked_and_tell_all(client: TestClient) -> None:
    front = client.get("/")
    links = re.findall(r'<a href="(/episode[^"]*)"', front.text)
    assert len(links) == 12
    address = links[0].replace("&amp;", "&")
    card = client.get(address).text
    record = client.get(address.replace("/episode", "/api/walk")).json()
    words = " ".join(unescape(re.sub(r"<[^>]*>", "", card)).split())
    assert " ".join(record["instruction"]["text"].split()) in words
    assert f"{record['verdict']}: {record['ending']}" in words
    assert f"at most {record['max_steps']} steps" in words
    assert f"SPL {100 * record['scores']['spl']:.1f} %" in words
    for name, value in record["scores"].items():
        assert f">{shown(name, value)}</td>" in card
    for step in record["steps"]:
        for choice in step["choices"]:
            assert percent(choice["probability"]) in words
            assert choice["texts"].get("captions", "") in words
            assert ", ".join(choice["texts"].get("detections", [])) in words
    assert "style=" not in card, "the policy would refuse it"
    lost = client.get("/episode?split=r2r/val_unseen&id=nobody")
    assert lost.status_code == 404
    assert "No such episode in r2r/val_unseen" in lost.text


def test_all_files_are_served_with_their_kinds(client: TestClient) -> None:
    viewer = {name: kind for name, (_, kind) in VIEWER.items()}
    for name, kind in (FILES | viewer).items():
        answer = client.get(f"/files/{name}")
        assert answer.status_code == 200
        assert answer.headers["content-type"] == kind
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_every_answer_has_the_policy(client: TestClient) -> None:
    for path in ("/", "/files/explorer.js", "/api/catalogue", "/nowhere", "/api/walk", "/episode"):
        headers = client.get(path).headers
        assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert (headers["referrer-policy"], headers["x-frame-options"]) == ("no-referrer", "DENY")


@pytest.mark.parametrize(
    ("mode", "dest", "status"), [("no-cors", "image", 403), ("navigate", "iframe", 403), ("navigate", "document", 200)]
)
@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_foreign_pages_may_link_here_and_no_more(
    client: TestClient, site: str, mode: str, dest: str, status: int
) -> None:
    headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": dest}
    first = client.get("/api/catalogue").json()["first"]
    for path, params in (("/episode", first), ("/", {}), ("/files/explorer.js", {})):
        assert client.get(path, params=params, headers=headers).status_code == status
    assert client.get("/api/walk", params=first, headers=headers).status_code == 403


def test_marks_that_others_add_to_a_link_are_left_alone(client: TestClient) -> None:
    answer = client.get("/?utm_source=mail&utm_source=mail")
    assert answer.status_code == 200
    assert "vlnbert explorer" in answer.text


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("/nowhere", "There is nothing at this address"),
        ("/files/passwd", "No such file"),
        ("/episode", "Split is missing"),
        ("/" + "a" * 5000, "The address is too long"),
    ],
)
def test_people_are_refused_by_a_page(client: TestClient, path: str, line: str) -> None:
    answer = client.get(path)
    assert 400 <= answer.status_code < 500
    assert answer.headers["content-type"].startswith("text/html")
    assert line in answer.text
    assert 'href="/"' in answer.text
