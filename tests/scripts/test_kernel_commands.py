"""`pagewave kernel`, `import-profile`, `fit-kernels` and `profile-gpu` as a user runs them."""

import importlib.util
import json

import pytest

from perfmodel.kernels import Collective, Gemm
from perfmodel.kernels.fits import load_fits
from perfmodel.kernels.profile_csv import Measurement, ProfileFile, write_profile_file
from scripts.main import main

GEMM = ["kernel", "gemm", "dtype=bf16", "m=64", "n=8192", "k=8192"]


def all_reduces(gpu="h200"):
    """A profile of one kernel: 7 us and 0.75 of the link."""
    rows = []
    for size in (part << power for power in range(7, 29) for part in (2, 3)):
        call = Collective(op="all_reduce", gpus=8, message_bytes=size)
        rows.append(Measurement(call, 7 + 1e6 * call.data_bytes / (0.75 * 450e9)))
    return ProfileFile(kernel=Collective, gpu=gpu, source="a formula", rows=tuple(rows))


@pytest.fixture
def profile(tmp_path):
    path = tmp_path / "h200" / "collective.csv"
    write_profile_file(path, all_reduces())
    return str(path.parent)


def test_kernel_in_json_and_as_a_table(capsys):
    assert main([*GEMM, "--gpu", "h200", "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["kernel"] == "gemm dtype=bf16 m=64 n=8192 k=8192"
    assert (values["source"], values["status"]) == ("fitted", "fitted")
    # 134 MB at 4.8 TB/s is 28 us; a GEMM reaches 70 to 95 % of it.
    assert 28e-6 / 0.95 < values["seconds"] < 28e-6 / 0.7
    assert main([*GEMM, "--gpu", "h100-pcie"]) == 0
    printed = capsys.readouterr().out
    assert "assumed" in printed and "as efficient at its peaks as h100-sxm" in printed


def test_kernel_from_a_profile(capsys, profile):
    asked = ["kernel", "collective", "op=all_reduce", "gpus=8", "--source", profile]
    assert main([*asked, "message_bytes=1500", "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert (values["source"], values["status"]) == ("table", "interpolated")
    assert main([*asked, "message_bytes=64"]) == 2
    assert "message_bytes is 64: measured from 256 to" in capsys.readouterr().err
    assert main([*asked, "message_bytes=64", "--outside", "roofline", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["status"] == "extrapolated"


def test_fit_kernels_writes_fits_and_renews_its_page(capsys, profile, tmp_path):
    page, out = tmp_path / "page.md", tmp_path / "fits.json"
    page.write_text("Before\n<!-- measured: kernels -->\nold\n<!-- end of kernels -->\nAfter\n")
    assert main(["fit-kernels", profile, "--out", str(out), "--docs", str(page)]) == 0
    (fit,) = load_fits(out).fits
    assert (fit.gpu, fit.kernel, fit.labels) == ("h200", "collective", ["all_reduce"])
    assert fit.parameters.memory_efficiency == pytest.approx(0.75, rel=0.01)
    text = page.read_text()
    assert text.startswith("Before\n") and text.endswith("\nAfter\n") and "old" not in text
    assert "| h200 | collective all_reduce |" in text
    assert f"| {fit.held_out.median_pct:.1f} / {fit.held_out.p90_pct:.1f} |" in text
    assert capsys.readouterr().out == ""
    asked = ["kernel", "collective", "op=all_reduce", "gpus=8", "message_bytes=1000000"]
    assert main([*asked, "--gpu", "h200", "--fits", str(out), "--json"]) == 0
    seconds = json.loads(capsys.readouterr().out)["seconds"]
    assert seconds == pytest.approx(7e-6 + 1.75e6 / (0.75 * 450e9), rel=0.01)


BAD = [
    (["kernel", "conv", "m=1", "--gpu", "h200"], "kernel 'conv' is unknown: choose gemm"),
    ([*GEMM], "gpu is missing: source fitted needs one of"),
    ([*GEMM, "--gpu", "v100"], "gpu 'v100' is unknown"),
    ([*GEMM[:-1], "--gpu", "h200"], "shape: k is missing: gemm needs dtype, m, n, k"),
    ([*GEMM, "m=3", "--gpu", "h200"], "shape 'm=3': m is there twice"),
    ([*GEMM, "x=3", "--gpu", "h200"], "shape 'x=3': must be COLUMN=VALUE with dtype, m, n, k"),
    ([*GEMM[:-1], "k=-1", "--gpu", "h200"], "gemm: k is '-1': must be a whole number"),
    (
        [*GEMM, "--gpu", "h200", "--source", "base", "--fits", "f.json"],
        "fits is 'f.json': goes with",
    ),
    ([*GEMM, "--gpu", "h200", "--fits", "none.json"], "none.json: cannot read the fits"),
    ([*GEMM, "--source", "none"], "source 'none' is unknown"),
    (["fit-kernels", "none.csv", "--out", "{tmp}/f.json"], "none.csv: cannot read the profile"),
    (["import-profile", "--gpu", "v100", "--out", "{tmp}/p"], "gpu 'v100' is unknown"),
    (
        ["profile-gpu", "--model", "abacus", "--gpu", "x", "--out", "{tmp}/p"],
        "model 'abacus' is unknown",
    ),
]


@pytest.mark.parametrize(("arguments", "message"), BAD)
def test_bad_input_ends_with_one_line_and_status_2(arguments, message, capsys, tmp_path):
    assert main([argument.format(tmp=tmp_path) for argument in arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert message in printed.err
    assert printed.err.count("\n") == 1
    assert not list(tmp_path.rglob("*.json")) and not list(tmp_path.rglob("*.csv"))


def test_profiles_of_one_gpu_and_kernel_are_not_joined(capsys, profile, tmp_path):
    out = str(tmp_path / "fits.json")
    assert main(["fit-kernels", profile, profile, "--out", out]) == 2
    assert "h200 collective: is in two of the profiles" in capsys.readouterr().err


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="PyTorch is there")
def test_profile_gpu_without_pytorch(capsys, tmp_path):
    arguments = ["profile-gpu", "--model", "mixtral-8x22b", "--gpu", "h100-pcie"]
    assert main([*arguments, "--out", str(tmp_path / "p")]) == 2
    assert capsys.readouterr().err == (
        "pagewave: error: PyTorch is not installed: profiling runs where PyTorch and a GPU are\n"
    )


def test_a_gemm_file_of_two_kinds_is_fitted_by_kind(capsys, tmp_path):
    """Fits go by the words of a call; a dtype with too few points is told and left out."""
    rows = [
        Measurement(Gemm(dtype="bf16", m=m, n=n, k=8192), 5 + 1e-3 * m + 1e6 * 2 * n * 8192 / 4e12)
        for m in (1, 2, 4, 8)
        for n in (1024, 2048, 4096, 8192, 16384, 32768)
    ]
    rows.append(Measurement(Gemm(dtype="fp8", m=1, n=8192, k=8192), 30.0))
    path, out = tmp_path / "gemm.csv", tmp_path / "fits.json"
    write_profile_file(path, ProfileFile(kernel=Gemm, gpu="b200", source="me", rows=tuple(rows)))
    assert main(["fit-kernels", str(path), "--out", str(out)]) == 0
    assert [fit.labels for fit in load_fits(out).fits] == [["bf16"]]
    assert "b200 gemm fp8: fewer than 12 measurements, left out" in capsys.readouterr().err
