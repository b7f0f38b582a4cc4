"""The format of profiles: what is written is read, and what is wrong is named."""

import pytest

from hw.errors import InputError
from perfmodel.kernels import Collective
from perfmodel.kernels.profile_csv import read_profile, write_profile_file

HEAD = "# pagewave-profile: 1\n# kernel: gemm\n# gpu: h200\n# source: me\n"
GOOD = HEAD + "dtype,m,n,k,latency_us\nbf16,1,16,32,2.5\n\nbf16,2,16,32,2.75\n"


@pytest.fixture
def file(tmp_path):
    def write(text, name="gemm.csv"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def test_what_is_written_is_read(gemm_file, tmp_path):
    path = tmp_path / "deep" / "gemm.csv"
    write_profile_file(path, gemm_file)
    (read,) = read_profile(path)
    assert (read.kernel, read.gpu, read.source) == (gemm_file.kernel, "abacus", "made up")
    for row, written in zip(read.rows, gemm_file.rows, strict=True):
        assert row.kernel == written.kernel
        assert row.latency_us == pytest.approx(written.latency_us, rel=1e-5)


def test_empty_lines_and_spaces_do_not_matter(file):
    (read,) = read_profile(file(GOOD.replace("bf16,2,", " bf16 , 2 ,")))
    assert [(row.kernel.m, row.latency_us) for row in read.rows] == [(1, 2.5), (2, 2.75)]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("profile: 1", "profile: 2", r"gemm.csv:1: pagewave-profile is '2': must be 1"),
        ("# kernel: gemm", "# kernel: conv", r"gemm.csv:2: kernel 'conv' is unknown"),
        ("# gpu: h200", "# gpu:", r"gemm.csv:3: line is '# gpu:': must be '# gpu: ...'"),
        ("# source: me\n", "", r"gemm.csv:4: line is 'dtype,m,n,k,latency_us': must be '# source"),
        ("dtype,m,n,k", "dtype,n,m,k", r"gemm.csv:5: columns are .*: must be dtype,m,n,k,latency"),
        ("bf16,1,16,32,2.5", "bf16,1,16,2.5", r"gemm.csv:6: 4 fields: must be 5"),
        ("bf16,1", "int4,1", r"gemm.csv:6: gemm: dtype is 'int4': must be one of"),
        ("bf16,1", "bf16,0", r"gemm.csv:6: m is '0': must be a whole number from 1"),
        ("bf16,1", "bf16,1.0", r"gemm.csv:6: m is '1.0'"),
        ("bf16,1", "bf16,-1", r"gemm.csv:6: m is '-1'"),
        (",2.75", ",fast", r"gemm.csv:8: latency_us is 'fast': must be a time in microseconds"),
        (",2.75", ",nan", r"gemm.csv:8: latency_us is 'nan'"),
        (",2.75", ",0", r"gemm.csv:8: latency_us is '0'"),
        (",2.75", ",inf", r"gemm.csv:8: latency_us is 'inf'"),
        ("bf16,2", "bf16,1", r"gemm.csv:8: the same shape is on line 6: must be there once"),
        ("bf16,1,16,32,2.5\n\nbf16,2,16,32,2.75\n", "", r"gemm.csv: the profile holds no measure"),
    ],
)
def test_bad_lines_are_named(file, old, new, message):
    assert old in GOOD
    with pytest.raises(InputError, match=message):
        read_profile(file(GOOD.replace(old, new)))


def test_files_of_a_folder_belong_together(file, tmp_path):
    with pytest.raises(InputError, match=r"the folder holds no \.csv file"):
        read_profile(tmp_path)
    file(GOOD)
    file(GOOD, "more.csv")
    with pytest.raises(InputError, match=r"more\.csv: kernel 'gemm' is also in gemm\.csv"):
        read_profile(tmp_path)
    moe = GOOD.replace("gemm", "collective").replace("dtype,m,n,k", "op,gpus,message_bytes")
    moe = moe.replace("bf16,1,16,32", "all_reduce,8,1024").replace("bf16,2,16,32", "all_reduce,8,2")
    file(moe.replace("h200", "b200"), "more.csv")
    with pytest.raises(InputError, match=r"more\.csv: gpu is 'b200': gemm\.csv is 'h200'"):
        read_profile(tmp_path)
    file(moe, "more.csv")
    assert [profile.kernel.NAME for profile in read_profile(tmp_path)] == ["gemm", "collective"]
    assert [len(profile.rows) for profile in read_profile(tmp_path, Collective)] == [0, 2]


def test_unreadable(tmp_path):
    with pytest.raises(InputError, match="cannot read the profile"):
        read_profile(tmp_path / "none.csv")
    (tmp_path / "x.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not UTF-8 text"):
        read_profile(tmp_path / "x.csv")
